"""State notes of a session: when one is due, what the model is asked, and what its answer becomes.

    notes = session.state_notes
    if notes.is_due():
        question = notes.make_question()          # the last request plus one instruction
        report = notes.take(question.task, text)  # checked against the log, and stored there

A policy that asks for summaries of its own instead (a preset) gets them in the same three steps: the question is then
the preset's prompt, and what is stored is the summary (`summaries/prepared.py`).

Nothing here waits for a model: `session/note_writer.py` asks one in the background, and hosts that send the
question themselves use the same three steps. A note that is late, refused or of no use changes nothing: the next sweep
goes on without it, and the log says why (`StateNoteFailed`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.events import BranchStarted, MessageAdded
from tidegate.core.messages import KindIndex, Message
from tidegate.core.notes import (
    ContentForgotten,
    NoteBlock,
    PreparedSummary,
    StateNote,
    StateNoteFailed,
    SystemSet,
    ViewCleared,
    is_note,
    read_note,
)
from tidegate.core.outcome import SummaryRequest
from tidegate.core.plan import PlanContext
from tidegate.core.policy.policy import METRICS, Moment, Rule, TriggerContext
from tidegate.core.state_note.answer import AnswerUnusable, parse_answer
from tidegate.core.state_note.block import find_askable_groups, find_asked_range
from tidegate.core.state_note.check import check_sections, find_marked_lines
from tidegate.core.state_note.instruction import NoteTask, make_block_task, make_note_task
from tidegate.core.state_note.note import (
    HEADINGS,
    choose_note_limits,
    is_new_state_note,
    merge_sections,
    newest_state_note,
    read_changes,
)
from tidegate.core.state_note.originals import Originals
from tidegate.core.state_note.passages import QuotedPassages, quote_passages
from tidegate.core.state_note.rendering import quote_frame
from tidegate.core.state_note.upkeep import add_commits, keep_failures, list_names_to_define
from tidegate.core.thinking_walk import seq_of_id
from tidegate.core.tokens.counting import REQUEST_OVERHEAD, TokenCounter
from tidegate.core.turns import Group, split_groups
from tidegate.core.view import Meter, View
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.policy_runner import PolicyRunner
from tidegate.session.summaries.answer_check import AnswerRejected, has_chat_markers, quote_order
from tidegate.session.summaries.drivers import focus_request
from tidegate.session.summaries.prepared import (
    SummaryTask,
    check_prepared,
    find_coming_request,
    find_prepared,
    is_summary_near,
    make_summary_task,
    wants_summaries,
)
from tidegate.session.summaries.prompt import SummaryRequestView, make_question_item, mask_items
from tidegate.store.log import LogReader
from tidegate.wire.dialect import CompactionForm, Dialect
from tidegate.wire.parsing import repair_unicode
from tidegate.wire.rendering.blocks import RequestOptions
from tidegate.wire.request import RenderedRequest, RequestRenderer

WRITE_AT: Final = 0.85
"""The share of a sweep's threshold at which a note is written."""
WRITE_AT_TURN_END: Final = 0.7
"""The same at the end of a turn, while the provider's cache is warm."""
NOTE_STAGE: Final = "note_sweep"
_REFRESH_SHARE: Final = 0.25  # of the room: what must have come since a note that no sweep has shown yet
_MANUAL_SHARE: Final = 0.35  # of the room: the most that a sweep on demand leaves
_RETRY_GROWTH: Final = 0.06  # of the room: what must come before another attempt
_MAX_ATTEMPTS: Final = 2  # until the next sweep
_PASSAGE_LIST_SHARE: Final = 0.75  # of the note's limit: for the list of passages in the answer
_MIN_ANSWER_SHARE: Final = 0.6  # of the wanted output: with less room a note would be cut off
_MAX_OVER: Final = 1.25  # times the limit: what is still taken
COMPACTION_NOTES: Final = "compaction"
"""The value of a setting `state_notes` with which a provider is asked for blocks in place of messages."""
_BLOCK_THINKING_TOKENS: Final = 16_000
"""Beside the note, for a model that thinks before it writes a block: `max_tokens` caps the whole call."""
_NOTHING: Final = "there is nothing to write about"
_MAY_WAIT: Final = ("manual", "restore")
_COMMITS_SHARE: Final = 0.05  # of the note's limit: what the program may add for commits in any case
_MAX_FAR_OVER: Final = 4.0  # times the limit: what is refused
_CUT_ORDER: Final = (HEADINGS[4], HEADINGS[3], HEADINGS[2], HEADINGS[1])


WriteTask = NoteTask | SummaryTask
"""What a model is asked to write: a state note, or a summary that the policy will ask for."""
Written = StateNote | PreparedSummary


class NoteModel(NamedTuple):
    """Another model that writes for the conversation. It gets the same messages without the thinking of the first, and
    what `mask` leaves of them. `max_output` is the most that it can write; 0 if that is not known.
    """

    name: str
    dialect: Dialect
    window: int | None = None
    mask: Callable[[str], str] = str
    max_output: int = 0


class NoteQuestion(NamedTuple):
    """A question for a note: the task, and the whole request for the model of the conversation, or for another one."""

    task: WriteTask
    request: RenderedRequest
    max_tokens: int
    model: str
    dialect_name: str

    @property
    def compacts(self) -> bool:
        """Whether it asks for a block in place of the messages."""
        return isinstance(self.task, NoteTask) and self.task.asked is not None


class NoteReport(NamedTuple):
    """What became of an answer: the note or the summary as it was stored, or why it was not used."""

    note: StateNote | None
    why: str = ""
    summary: PreparedSummary | None = None

    @property
    def is_stored(self) -> bool:
        return self.note is not None or self.summary is not None


class BackgroundWriter(Protocol):
    """Asks a model for notes beside the conversation (`session/note_writer.py`)."""

    @property
    def is_busy(self) -> bool: ...
    def start_if_due(self, *, turn_ended: bool = False) -> bool: ...
    def collect(self) -> NoteReport | None: ...
    async def write_now(self, focus: str = "") -> NoteReport | None: ...
    def write_now_sync(self, focus: str = "") -> NoteReport | None: ...


class StateNotes:
    """The state notes of one session: `session.state_notes`.

    `writer` asks a model in the background; without one, a host asks, or there are no notes.
    """

    def __init__(self, runner: PolicyRunner, renderer: RequestRenderer) -> None:
        self._runner = runner
        self._live = runner.live
        self._renderer = renderer
        self._attempts: list[float] = []
        self._prepared_seq = 0
        self._is_paused = False
        # Whether the model may be asked for a block in place of messages, and whether that failed since the last sweep.
        self.compacts, self._is_block_refused = False, False
        self.writer: BackgroundWriter | None = None
        runner.find_summary = self.find_summary
        runner.writes_ahead = self._writes_ahead
        runner.is_summary_running = lambda: self.writer is not None and self.writer.is_busy and not self.is_offered

    def _writes_ahead(self, moment: Moment) -> bool:
        """Whether no call waits for a text at this moment, because a model writes ahead.

        After a refusal for its length a policy with summaries of its own may wait for one, as a compaction on demand.
        """
        return self.writer is not None and moment not in (_MAY_WAIT if self.is_offered else (*_MAY_WAIT, "overflow"))

    @property
    def is_offered(self) -> bool:
        """Whether the policy of the session has a sweep that shows notes."""
        return self._find_rule() is not None

    @property
    def is_wanted(self) -> bool:
        """Whether the policy uses what a model writes: state notes, or summaries of its own."""
        return self.is_offered or wants_summaries(self._runner.policy)

    @property
    def _view(self) -> View:
        return self._live.view

    @property
    def newest(self) -> StateNote | None:
        """The newest note of the current branch, whether or not a sweep has shown it."""
        return newest_state_note(self._view)

    def _find_rule(self) -> Rule | None:
        rules = self._runner.policy.moments.get("before_call", ())
        return next((rule for rule in rules if rule.stage == NOTE_STAGE), None)

    @property
    def is_worthwhile(self) -> bool:
        """Whether there is enough in the view for a note on demand: at least twice what the note may take."""
        return self._view.tokens > 2 * choose_note_limits(self._runner.budget).note

    def writes_on_demand(self, focus: str, *, is_alone: bool) -> bool:
        """Whether a compaction on demand has the writer write first.

        If another summarizer is given (not `is_alone`), it writes the summary with a focus under a policy with notes.
        """
        return is_alone or not self.is_offered or not focus.strip()

    def make_manual_rule(self) -> Rule | None:
        """The rule that sweeps to the newest note on demand, if there is one that was not shown yet."""
        rule = self._find_rule()
        if rule is None or not is_new_state_note(self._view):
            return None
        settings = {**rule.settings, "most": _MANUAL_SHARE}
        return msgspec.structs.replace(rule, name=f"manual/{NOTE_STAGE}", when=(), settings=settings)

    def _measure_fill(self) -> float:
        """How much of the room is used, as a share of what the sweep waits for."""
        rule = self._find_rule()
        view, budget, policy = self._view, self._runner.budget, self._runner.policy
        context = TriggerContext(view, budget, policy)
        limits = [
            condition[0].value
            for condition in (rule.when if rule else ())
            if len(condition) == 1 and condition[0].metric == "fill"
        ]
        return METRICS["fill"](context) / (min(limits) if limits else 1.0)

    def is_due(self, *, turn_ended: bool = False) -> bool:
        """Whether a note should be written now: at 85% of the room, at the end of a turn above 70%.

        After a failure there is one more attempt until the next sweep, when more has come; after `pause` there is none.
        """
        fill = self._measure_fill()
        if self._attempts and fill < self._attempts[-1] - _RETRY_GROWTH:  # a sweep has been made
            self._attempts, self._is_paused, self._is_block_refused = [], False, False
        if not self.is_offered:
            return not self._is_paused and self._is_summary_due(fill)
        if self._is_paused or fill < (WRITE_AT_TURN_END if turn_ended else WRITE_AT):
            return False
        view = self._view
        if is_new_state_note(view):
            note = newest_state_note(view)
            since = sum(item.tokens for item in view.items_after(note.horizon_seq if note else 0))
            return since > self._runner.budget.held_room * _REFRESH_SHARE and fill >= WRITE_AT
        if not self._attempts:
            return True
        return self._may_try_again(fill)

    def _may_try_again(self, fill: float) -> bool:
        return len(self._attempts) < _MAX_ATTEMPTS and fill >= self._attempts[-1] + _RETRY_GROWTH

    def _is_summary_due(self, fill: float) -> bool:
        """Whether the policy will soon ask for a summary that was not written yet."""
        view = self._view
        if self._attempts and not self._may_try_again(fill):
            return False
        since = sum(item.tokens for item in view.items_after(self._prepared_seq))
        is_new = not self._prepared_seq or since > self._runner.budget.held_room * _REFRESH_SHARE
        return is_new and is_summary_near(self._runner.plan_context(self._runner.policy))

    def pause(self) -> None:
        """Ask no more until the next sweep: the provider limits the rate, or spending has reached its limit."""
        self._is_paused = True

    def make_question(self) -> NoteQuestion | None:
        """The question for the conversation's own model: what it was sent last, and the instruction at the end.

        None if there is nothing to write about, or no room for the question and its answer.
        """
        question = self.draft_question()()
        if isinstance(question, NoteQuestion):
            return question
        self.refuse(question)
        return None

    def draft_question(
        self, moments: Sequence[Moment] = (), focus: str = "", model: NoteModel | None = None
    ) -> Callable[[], NoteQuestion | str]:
        """A function that makes the question from a copy of the view, or says why not: call it in any thread.

        With `moments`, the question is for the summary that the policy asks for then, with this focus. `model` is
        asked instead of the conversation's own.
        """
        view = self._copy_view()
        task = self._draft_task_of(view, moments, focus)
        if model is not None:
            return partial(_make_question_for, model, view, self._runner.budget, task)
        renderer = partial(self._make_renderer, self._renderer.options, self._renderer.thinking_tokens)
        args = (view, self._runner.budget, renderer, self._runner.window)
        form = self._find_compaction() if self.compacts and not (moments or focus) else None
        if form is not None:
            return partial(_make_block_question, *args, form, self._live.log.head, task)
        return partial(_make_question, *args, task)

    def _find_compaction(self) -> CompactionForm | None:
        """How the model is asked for a block; None if notes are not shown, or after a refusal of one or of thinking."""
        return None if self._refuses_blocks else self._renderer.dialect.find_compaction(self._renderer.options.model)

    @property
    def _refuses_blocks(self) -> bool:
        return not self.is_offered or self._is_block_refused or bool(self._view.rejected_seq)

    def draft_task(self, moments: Sequence[Moment] = (), focus: str = "") -> Callable[[], WriteTask | str]:
        """Like `draft_question`, for a task that a writer puts into words of its own."""
        view = self._copy_view()
        return partial(_make_task_alone, view, self._draft_task_of(view, moments, focus))

    def _copy_view(self) -> View:
        self._attempts.append(self._measure_fill())
        view = self._view.copy()
        view.items, view.unanswered, view.kind_index = view.items[:], dict(view.unanswered), KindIndex()
        return view

    def _draft_task_of(self, view: View, moments: Sequence[Moment], focus: str) -> "_MakeTask":
        head = self._live.log.head
        return partial(self._make_task_for, view, self._draft_context(view), moments, focus, head)

    def _draft_context(self, view: View) -> "_Draft":
        at = self._runner.plan_context(self._runner.policy)
        return _Draft(at._replace(view=view), self._live.meter, self.is_offered)

    @staticmethod
    def _make_task_for(
        view: View, draft: "_Draft", moments: Sequence[Moment], focus: str, head: int, groups: Sequence[Group]
    ) -> WriteTask | str:
        if draft.shows_notes and not moments:
            return make_note_task(view, draft.at.budget, groups, head)
        request = find_coming_request(draft.at, draft.meter, moments)
        horizon = next((item.message.id for group in reversed(groups) for item in reversed(group.items)), "")
        if request is None:
            return "the policy asks for no summary"
        if focus:
            request = focus_request(request, focus)
        return make_summary_task(request, horizon, head, is_ahead=not moments)

    def make_task(self, last_id: str, form: CompactionForm | None = None, birth: str = "") -> WriteTask | None:
        """The task alone, for a host that sends its own request with the instruction at its end.

        `last_id` is the last message of that request. With a `form`, the host can ask for a block in the place of that
        request; `birth` is that of an answer to it.
        """
        self._attempts.append(self._measure_fill())
        groups = answered_groups(self._view)
        place = next((place for place, group in enumerate(groups, 1) if last_id in group.ids), 0)
        groups = groups[:place]
        if not groups:
            return None
        if form is not None and not self._refuses_blocks and len(find_askable_groups(groups)) == len(groups):
            view, head = self._view, self._live.log.head
            whole = make_block_task(view, self._runner.budget, groups, head, form.max_instruction_chars)
            if whole is not None:
                return whole._replace(asked=find_asked_range(view, groups, head, birth, self._live.dialect.family))
        draft = self._draft_context(self._view)
        task = self._make_task_for(self._view, draft, (), "", self._live.log.head, groups)
        return None if isinstance(task, str) else task

    def _make_renderer(self, options: RequestOptions, thinking: int, max_output: int) -> RequestRenderer:
        """A renderer with the options of the session's requests, for at most `max_output` tokens besides thinking.

        The rest of the head is the same, so that the provider reads the conversation from its cache.
        """
        renderer = RequestRenderer(self._renderer.dialect, options.model)
        renderer.options = msgspec.structs.replace(options, max_tokens=max_output + thinking)
        return renderer

    # --- the answer -----------------------------------------------------------------------------------------------

    def take(self, task: WriteTask, answer: str, block: str = "") -> NoteReport:
        """Check an answer against the log and store the note; or note why it is of no use."""
        try:
            note = self.check(task, answer, block)
        except AnswerUnusable as no:
            return self.refuse(str(no))
        return self.store(task, note)

    def check(self, task: WriteTask, answer: str, block: str = "") -> Written:
        """What an answer has, checked against the log. It may run in any thread. AnswerUnusable: it has nothing.

        `block` is the provider's JSON of an answer that is a block. One that the check would change is left out,
        because nothing in it may be changed: the note is then shown like any other.
        """
        counter = self._live.counter
        if isinstance(task, NoteTask):
            note = make_note(task, answer, read_originals(self._live.log), counter)
            if task.asked is not None and block and holds_unchanged(note, answer):
                note = msgspec.structs.replace(note, block=NoteBlock(answer, block, task.asked))
            return note
        try:
            return check_prepared(task, answer, counter)
        except AnswerRejected as no:
            raise AnswerUnusable(str(no)) from None

    def store(self, task: WriteTask, made: Written) -> NoteReport:
        """Store what was written, unless the conversation went elsewhere since the question."""
        live = self._live
        live.refresh()
        if isinstance(task, NoteTask) and self._view.state_note_seq != task.previous_seq:
            return self.refuse("another note came first")
        if _has_moved(live.log, task):
            return self.refuse("the conversation went back, or messages of it were forgotten")
        if isinstance(made, PreparedSummary):
            live.history.append_note(made)
            self._prepared_seq = live.log.head
            return NoteReport(None, summary=made)
        live.history.append_note(made)
        return NoteReport(made)

    def find_summary(self, request: SummaryRequest, may_be_old: bool) -> str | None:
        """The text that was written ahead for this request of the policy; None if none fits it.

        It `may_be_old` if no other one can be asked for.
        """
        if request.fallback or not self.is_wanted:
            return None
        self._prepared_seq = 0
        self._attempts, self._is_paused = [], False
        return find_prepared(self._live.log, request, self._live.counter, may_be_old=may_be_old)

    def refuse(self, why: str) -> NoteReport:
        """Note in the log that there is no new note, and why. Until the next sweep, no block is asked for again."""
        self._is_block_refused = True
        self._live.history.append_note(StateNoteFailed(why))
        return NoteReport(None, why)


def answered_groups(view: View) -> list[Group]:
    """The groups up to the first one with a call without a result: a request with them is valid."""
    groups = split_groups(view)
    open_groups = (n for n, group in enumerate(groups) if group.items[0].message.id in view.unanswered)
    return groups[: next(open_groups, len(groups))]


class _Draft(NamedTuple):
    """What a question is made from beside the view."""

    at: PlanContext
    meter: Meter | None
    shows_notes: bool


_MakeTask = Callable[[Sequence[Group]], WriteTask | str]


def _make_task_alone(view: View, make_task: _MakeTask) -> WriteTask | str:
    groups = answered_groups(view)
    return make_task(groups) if groups else _NOTHING


def _make_question_for(model: NoteModel, view: View, budget: Budget, make_task: _MakeTask) -> NoteQuestion | str:
    """The question to another model: without thinking and options, which only the conversation's own model knows."""
    view.items = mask_items(view.items, model.mask)
    view.system = model.mask(view.system)

    def make_renderer(max_output: int) -> RequestRenderer:
        return RequestRenderer(model.dialect, model.name, max_tokens=min(max_output, model.max_output or max_output))

    return _make_question(view, budget, make_renderer, model.window, make_task)


def _make_question(
    view: View,
    budget: Budget,
    make_renderer: Callable[[int], RequestRenderer],
    window: int | None,
    make_task: _MakeTask,
) -> NoteQuestion | str:
    task = _make_task_alone(view, make_task)
    if isinstance(task, str):
        return task
    items = [item for group in answered_groups(view) for item in group.items]
    question_item = make_question_item(repair_unicode(task.instruction))
    size = budget.fixed + sum(item.tokens for item in items)
    size += budget.counter.count_text(task.instruction) + REQUEST_OVERHEAD
    tokens = count_answer_tokens(task)
    left = int(window - size * budget.scale) if window else tokens
    renderer = make_renderer(min(tokens, left))
    most = renderer.options.max_tokens
    if most < tokens * _MIN_ANSWER_SHARE or most > left:
        return "the window has no room for the question"
    renderer.update(SummaryRequestView([*items, question_item], view.system, view.tools, 0, view.rejected_seq))
    faults = renderer.faults()
    if faults:
        return f"the question broke a rule of {renderer.dialect.name}: {faults[0].rule}"
    return NoteQuestion(task, renderer.freeze(), most, renderer.options.model, renderer.dialect.name)


def _make_block_question(
    view: View,
    budget: Budget,
    make_renderer: Callable[[int], RequestRenderer],
    window: int | None,
    form: CompactionForm,
    head: int,
    make_task: _MakeTask,
) -> NoteQuestion | str:
    """The last request with the option that asks for a block; if that is impossible, the question for a usual note."""
    groups = find_askable_groups(answered_groups(view))
    task = make_block_task(view, budget, groups, head, form.max_instruction_chars) if groups else None
    if task is None:
        return _make_question(view, budget, make_renderer, window, make_task)
    items = [item for group in groups for item in group.items]
    size = budget.fixed + sum(item.tokens for item in items) + budget.counter.count_text(task.instruction)
    tokens = count_answer_tokens(task)
    left = int(window - (size + REQUEST_OVERHEAD) * budget.scale) if window else tokens + _BLOCK_THINKING_TOKENS
    renderer = make_renderer(min(tokens + _BLOCK_THINKING_TOKENS, left))
    renderer.update(SummaryRequestView(items, view.system, view.tools, 0, view.rejected_seq))
    rendered, options = renderer.freeze(), renderer.options
    asked_head = form.ask(rendered.head, repair_unicode(task.instruction))
    if asked_head is None or left < tokens or options.max_tokens > left or renderer.faults():
        return _make_question(view, budget, make_renderer, window, make_task)
    asked = find_asked_range(view, groups, head, renderer.birth, renderer.dialect.family)
    request = rendered.replace_head(asked_head)
    return NoteQuestion(task._replace(asked=asked), request, options.max_tokens, options.model, renderer.dialect.name)


def holds_unchanged(note: StateNote, answer: str) -> bool:
    """Whether the check has left every line of an answer as it is, apart from marks, which can be said elsewhere."""
    marked = find_marked_lines(note.sections.values())
    lines = {line.strip() for text in note.sections.values() for line in text.split("\n") if line not in marked}
    own = {line.strip() for line in answer.split("\n")}
    has_own = all(any(line and mark.strip().startswith(line) for line in own) for mark in marked)
    return not note.dropped and lines <= own and has_own


def count_answer_tokens(task: WriteTask) -> int:
    """The output to ask for: the note, its list of passages, and a margin."""
    if isinstance(task, SummaryTask):
        return 2 * task.max_tokens
    return int((task.answer_tokens + task.limits.note * _PASSAGE_LIST_SHARE) * _MAX_OVER)


def _has_moved(log: LogReader, task: WriteTask) -> bool:
    """Whether the conversation went back before the note's horizon, was cleared, or lost content since the question."""
    for event in log.read(task.head + 1):
        what = event.payload
        if isinstance(what, BranchStarted) and what.edit < seq_of_id(task.horizon):
            return True
        if is_note(what, ViewCleared, ContentForgotten):
            return True
    return False


def read_originals(log: LogReader) -> Originals:
    """The messages of the current branch of a log as they were added, and the system prompt as it was set last."""
    messages: list[Message] = []
    system = ""
    for event in ConversationLog(log).read():
        what = event.payload
        if isinstance(what, MessageAdded):
            messages.append(what.message)
        elif (prompt := read_note(what, SystemSet)) is not None:
            system = prompt.text
    return Originals(messages, system)


def make_note(task: NoteTask, answer: str, originals: Originals, counter: TokenCounter) -> StateNote:
    """The note in an answer, checked against the original messages. AnswerUnusable says why there is none."""
    parsed = parse_answer(repair_unicode(answer))
    if task.horizon not in originals:
        raise AnswerUnusable("the conversation went back to before it")
    before = dict(task.previous.sections) if task.previous else {}
    kept, feedback = dict[str, str](), list[str]()
    changed = {heading: quote_orders(text) for heading, text in parsed.sections.items()}
    for heading, text in parsed.changes.items():
        change = read_changes(before.get(heading, ""), text)
        kept[heading], changed[heading] = change.kept, quote_orders(change.new)
        feedback += (f"no line of {heading} begins so: {line}" for line in change.unknown)
    if any(map(has_chat_markers, changed.values())):
        raise AnswerUnusable("it held the marks of a chat format")
    checked = check_sections(changed, originals, before)
    joined = {heading: _join_lines(kept.get(heading, ""), text) for heading, text in checked.sections.items()}
    sections = merge_sections(before, joined)
    if not sections:
        raise AnswerUnusable("it said nothing")
    sections, cut = trim_sections(sections, task.limits.note, counter, is_update=task.previous is not None)
    known = originals.up_to(task.horizon)
    sections = _keep_known(sections, before, known, task.limits.note, counter)
    if parsed.passages is None and task.previous is not None:
        found = QuotedPassages(task.previous.passages, ("there was no list of passages: those before were kept",))
    else:
        previous_passages = task.previous.passages if task.previous else ()
        most = task.limits.passages + task.limits.more_passages
        names, share = list_names_to_define(sections), task.limits.passages
        wanted = parsed.passages or ()
        found = quote_passages(wanted, known, most, counter, previous_passages, names=names, share=share)
    return StateNote(
        horizon=task.horizon,
        sections=sections,
        passages=found.passages,
        feedback=(*parsed.feedback, *feedback, *cut, *found.feedback),
        dropped=checked.dropped,
        marked=checked.marked,
        held=checked.held,
    )


def _keep_known(
    sections: Mapping[str, str], before: Mapping[str, str], known: Originals, tokens: int, counter: TokenCounter
) -> dict[str, str]:
    """The sections with the commits and failed attempts that they left out, as far as they leave room."""
    left = tokens - sum(counter.count_text(text) for text in sections.values())
    with_commits = add_commits(sections, known, max(left, int(tokens * _COMMITS_SHARE)), counter)
    left = tokens - sum(counter.count_text(text) for text in with_commits.values())
    return keep_failures(before, with_commits, left, counter)


def _join_lines(kept: str, new: str) -> str:
    """The lines of a section that stay, and those of an update that are not among them."""
    known = set(kept.split("\n"))
    return "\n".join(filter(None, (kept, "\n".join(line for line in new.split("\n") if line not in known))))


def quote_orders(text: str) -> str:
    return "\n".join(quote_frame(quote_order(line)) for line in text.split("\n"))


def trim_sections(
    sections: Mapping[str, str], tokens: int, counter: TokenCounter, *, is_update: bool
) -> tuple[dict[str, str], Sequence[str]]:
    """The sections without lines of the least important ones, if all take far more than `tokens`.

    Of a first note the last lines of a section go first: the model began with the most important ones. Of an update the
    oldest go first, because the update's own lines come last.
    """
    size = sum(counter.count_text(text) for text in sections.values())
    if size > tokens * _MAX_FAR_OVER:
        raise AnswerUnusable(f"it was too long: {size:,} tokens instead of {tokens:,}")
    trimmed = {heading: text.split("\n") for heading, text in sections.items()}
    cut = 0
    for heading in _CUT_ORDER:
        lines = trimmed.get(heading, [])
        while size > tokens * _MAX_OVER and len(lines) > 1:
            size -= counter.count_text(lines.pop(0 if is_update or heading == HEADINGS[1] else -1))
            cut += 1
    if not cut:
        return dict(sections), ()
    feedback = f"the note was far longer than {tokens:,} tokens: {cut} lines were cut"
    return {heading: "\n".join(lines) for heading, lines in trimmed.items()}, (feedback,)
