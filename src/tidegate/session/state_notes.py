"""State notes of a session: when one is due, what the model is asked, and what its answer becomes.

    notes = StateNotes(session)
    if notes.is_due():
        question = notes.make_question()          # the last request plus one instruction
        report = notes.take(question.task, text)  # checked against the log, and stored there

Nothing here waits for a model: `session/summaries/note_writer.py` asks one in the background, and hosts that send the
question themselves use the same three steps. A note that is late, refused or of no use changes nothing: the next sweep
goes on without it, and the log says why (`FAILED_TOPIC`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from tidegate.core.events import MessageAdded, NoteAdded
from tidegate.core.policy.policy import METRICS, Rule, TriggerContext, measure_for_triggers
from tidegate.core.state_note.answer import AnswerUnusable, parse_answer
from tidegate.core.state_note.check import check_sections
from tidegate.core.state_note.instruction import NoteTask, make_note_task
from tidegate.core.state_note.note import (
    HEADINGS,
    StateNote,
    encode_state_note,
    is_new_state_note,
    merge_sections,
    newest_state_note,
)
from tidegate.core.state_note.originals import Originals
from tidegate.core.state_note.passages import QuotedPassages, quote_passages
from tidegate.core.tokens.counting import REQUEST_OVERHEAD, TokenCounter
from tidegate.core.turns import Group, split_groups
from tidegate.core.view import STATE_NOTE
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.session import Session
from tidegate.session.summaries.answer_check import has_chat_markers, quote_order
from tidegate.session.summaries.prompt import SummaryRequestView, make_question_item
from tidegate.wire.parsing import repair_unicode
from tidegate.wire.rendering.request import RenderedRequest, RequestRenderer

FAILED_TOPIC: Final = "state_note_failed"
"""The topic of the note in the log that says why there is no new state note."""
WRITE_AT: Final = 0.85
"""The share of a sweep's threshold at which a note is written."""
WRITE_AT_TURN_END: Final = 0.7
"""The same at the end of a turn, while the provider's cache is warm."""
NOTE_STAGE: Final = "note_sweep"
_REFRESH_SHARE: Final = 0.25  # of the room: what must have come since a note that no sweep has shown yet
_RETRY_GROWTH: Final = 0.06  # of the room: what must come before another attempt
_MAX_ATTEMPTS: Final = 2  # until the next sweep
_PASSAGE_LIST_SHARE: Final = 0.75  # of the note's limit: for the list of passages in the answer
_MAX_OVER: Final = 1.25  # times the limit: what is still taken
_MAX_FAR_OVER: Final = 4.0  # times the limit: what is refused
_CUT_ORDER: Final = (HEADINGS[4], HEADINGS[3], HEADINGS[2], HEADINGS[1])


class NoteQuestion(NamedTuple):
    """A question for a note: the task, and the whole request for the model of the conversation."""

    task: NoteTask
    request: RenderedRequest
    max_tokens: int


class NoteReport(NamedTuple):
    """What became of an answer: the note as it was stored, or why it was not used."""

    note: StateNote | None
    why: str = ""


class StateNotes:
    """The state notes of one session. `mask` hides secrets from a model that has not seen the conversation."""

    def __init__(self, session: Session, *, mask: Callable[[str], str] = str) -> None:
        self._session = session
        self._mask = mask
        self._attempts: list[float] = []
        self._is_paused = False

    @property
    def is_offered(self) -> bool:
        """Whether the policy of the session has a sweep that shows notes."""
        return self._find_rule() is not None

    def _find_rule(self) -> Rule | None:
        rules = self._session.policy.moments.get("before_call", ())
        return next((rule for rule in rules if rule.stage == NOTE_STAGE), None)

    def _measure_fill(self) -> float:
        """How much of the room is used, as a share of what the sweep waits for."""
        rule, session = self._find_rule(), self._session
        if rule is None:
            return 0.0
        view, budget, policy = session.view, session.budget, session.policy
        context = TriggerContext(view, budget, policy, measure_for_triggers(policy, view, budget))
        limits = [
            condition[0].value for condition in rule.when if len(condition) == 1 and condition[0].metric == "fill"
        ]
        return METRICS["fill"](context) / (min(limits) if limits else 1.0)

    def is_due(self, *, turn_ended: bool = False) -> bool:
        """Whether a note should be written now: at 85% of the room, at the end of a turn above 70%.

        After a failure there is one more attempt until the next sweep, when more has come; after `pause` there is none.
        """
        fill = self._measure_fill()
        if self._attempts and fill < self._attempts[-1] - _RETRY_GROWTH:  # a sweep has been made
            self._attempts, self._is_paused = [], False
        if self._is_paused or fill < (WRITE_AT_TURN_END if turn_ended else WRITE_AT):
            return False
        view = self._session.view
        if is_new_state_note(view):
            note = newest_state_note(view)
            since = sum(item.tokens for item in view.items_after(note.horizon_seq if note else 0))
            return since > self._session.budget.room * _REFRESH_SHARE and fill >= WRITE_AT
        if not self._attempts:
            return True
        return len(self._attempts) < _MAX_ATTEMPTS and fill >= self._attempts[-1] + _RETRY_GROWTH

    def pause(self) -> None:
        """Ask no more until the next sweep: the provider limits the rate, or spending has reached its limit."""
        self._is_paused = True

    def make_task(self) -> NoteTask | None:
        """The task for a note about everything up to the first call without a result; None if there is nothing."""
        self._attempts.append(self._measure_fill())
        groups = self._answered_groups()
        return make_note_task(self._session.view, self._session.budget, groups) if groups else None

    def make_question(self) -> NoteQuestion | None:
        """The question for the conversation's own model: what it was sent last, and the instruction at the end.

        None if there is no room for the question and its answer.
        """
        task = self.make_task()
        if task is None:
            return None
        session = self._session
        renderer = self._make_renderer(self.count_answer_tokens(task))
        items = [item for group in self._answered_groups() for item in group.items]
        asked = make_question_item(repair_unicode(self._mask(task.instruction)))
        size = session.budget.fixed + sum(item.tokens for item in items)
        size += session.counter.count_text(task.instruction) + REQUEST_OVERHEAD
        cap = renderer.options.max_tokens
        if session.window and size * session.budget.scale + cap > session.window:
            self._fail("the window has no room for the question")
            return None
        view = session.view
        shown = SummaryRequestView([*items, asked], view.system, view.tools, 0, view.rejected_seq)
        renderer.update(shown)
        faults = renderer.faults()
        if faults:
            self._fail(f"the question broke a rule of {renderer.dialect.name}: {faults[0].rule}")
            return None
        return NoteQuestion(task, renderer.freeze(), cap)

    def _make_renderer(self, max_output: int) -> RequestRenderer:
        """A renderer with the options of the session's requests, for at most `max_output` tokens besides thinking.

        The rest of the head is the same, so that the provider reads the conversation from its cache.
        """
        sent = self._session._renderer
        renderer = RequestRenderer(sent.dialect)
        renderer.options = msgspec.structs.replace(sent.options, max_tokens=max_output + sent.thinking_tokens)
        return renderer

    def count_answer_tokens(self, task: NoteTask) -> int:
        """The output to ask for: the note, its list of passages, and a margin."""
        return int(task.limits.note * (1 + _PASSAGE_LIST_SHARE) * _MAX_OVER)

    def _answered_groups(self) -> list[Group]:
        """The groups up to the first one with a call without a result: a request with them is valid."""
        groups, view = split_groups(self._session.view), self._session.view
        for number, group in enumerate(groups):
            if group.items[0].message.id in view.unanswered:
                return groups[:number]
        return groups

    # --- the answer -----------------------------------------------------------------------------------------------

    def take(self, task: NoteTask, answer: str) -> NoteReport:
        """Check an answer against the log and store the note; or note why it is of no use."""
        session = self._session
        session.history.refresh()
        if session.view.state_note_seq != task.previous_seq:
            return self._fail("another note came first")
        originals = read_originals(session)
        if task.horizon not in originals:
            return self._fail("the conversation has gone back to before it")
        try:
            note = make_note(task, answer, originals, session.counter)
        except AnswerUnusable as no:
            return self._fail(str(no))
        session._append(NoteAdded(STATE_NOTE, repair_unicode(encode_state_note(note))))
        return NoteReport(note)

    def refuse(self, why: str) -> NoteReport:
        """Note that there is no answer, and why."""
        return self._fail(why)

    def _fail(self, why: str) -> NoteReport:
        self._session.history.add_note(FAILED_TOPIC, why)
        return NoteReport(None, why)


def read_originals(session: Session) -> Originals:
    """The messages of the session's current branch as they were added."""
    events = ConversationLog(session.log).read()
    return Originals(event.payload.message for event in events if isinstance(event.payload, MessageAdded))


def make_note(task: NoteTask, answer: str, originals: Originals, counter: TokenCounter) -> StateNote:
    """The note in an answer, checked against the original messages. AnswerUnusable says why there is none."""
    parsed = parse_answer(repair_unicode(answer))
    before = task.previous.sections if task.previous else {}
    changed = {heading: quote_orders(text) for heading, text in parsed.sections.items()}
    if any(map(has_chat_markers, changed.values())):
        raise AnswerUnusable("it held the marks of a chat format")
    checked = check_sections(changed, originals, before)
    sections = merge_sections(before, checked.sections)
    if not sections:
        raise AnswerUnusable("it said nothing")
    sections, cut = trim_sections(sections, task.limits.note, counter)
    known = originals.up_to(task.horizon)
    if parsed.passages is None and task.previous is not None:
        found = QuotedPassages(task.previous.passages, ("there was no list of passages: those before were kept",))
    else:
        found = quote_passages(parsed.passages or (), known, task.limits.passages, counter)
    return StateNote(
        horizon=task.horizon,
        sections=sections,
        passages=found.passages,
        feedback=(*parsed.feedback, *cut, *found.feedback),
        dropped=checked.dropped,
        marked=checked.marked,
        held=checked.held,
    )


def quote_orders(text: str) -> str:
    return "\n".join(map(quote_order, text.split("\n")))


def trim_sections(
    sections: Mapping[str, str], tokens: int, counter: TokenCounter
) -> tuple[dict[str, str], Sequence[str]]:
    """The sections without lines of the least important ones, if all take far more than `tokens`."""
    size = sum(counter.count_text(text) for text in sections.values())
    if size > tokens * _MAX_FAR_OVER:
        raise AnswerUnusable(f"it was too long: {size:,} tokens instead of {tokens:,}")
    trimmed = {heading: text.split("\n") for heading, text in sections.items()}
    cut = 0
    for heading in _CUT_ORDER:
        lines = trimmed.get(heading, [])
        while size > tokens * _MAX_OVER and len(lines) > 1:
            size -= counter.count_text(lines.pop(0 if heading == HEADINGS[1] else -1))
            cut += 1
    if not cut:
        return dict(sections), ()
    told = f"the note was far longer than {tokens:,} tokens: {cut} lines were cut"
    return {heading: "\n".join(lines) for heading, lines in trimmed.items()}, (told,)
