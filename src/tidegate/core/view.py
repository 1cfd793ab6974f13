"""The view: the messages that the model will see, as a fold of the log.

    view = LogView(); for event in log: view.fold(event)

The same log gives the same view, byte for byte. A live session folds each event as it happens, a reader folds a whole
log; both call `LogView.fold`. The counts that triggers ask for (tokens, turns, results, ...) are updated with each
event, so reading them is O(1). An append is O(1), an edit O(view).

The fold keeps three laws:

- *Groups stay whole.* A result follows the message that called for it, wherever it is in the log. A result without a
  call never enters the view: it waits in `orphans` until the repair drops it. A call without a result waits in
  `unanswered` until the repair answers it; if the true result comes later, it replaces the repair's answer.
- *Signed data may be valid only after an unchanged prefix.* When an edit changes the view at some place, every later
  message loses `signed`. `core/thinking_walk.py` decides from it and from the message's birth what is sent.
- *A compaction by the provider starts the view again.* The provider does not read what is before it any more, so that
  leaves the view; the log has it. The message with the compaction counts as a part of the fixed part, because no stage
  can make it smaller. What gives rules stays in `covered_items`, so that the next ledger can have them.
- *`prefix_seq` says what the renderer may reuse*: it is the seq of the last event that changed anything but the end.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from tidegate.core.edits import EditIndex
from tidegate.core.errors import BadLog
from tidegate.core.event_check import MAX_TOKEN_COUNT
from tidegate.core.events import BranchStarted, Event, MessageAdded, NoteAdded, UsageReported, ViewEdited
from tidegate.core.group_reading import GroupReading
from tidegate.core.messages import (
    INTERRUPTED,
    LEDGER,
    PIN,
    TOOL_RESULT,
    KindIndex,
    Message,
    Text,
    Tool,
    calls_of,
    compacts_history,
    is_user_request,
    resolve_visibility,
    result_of,
)
from tidegate.core.notes import (
    REFOLD_NOTES,
    AnswerBirth,
    ContextCleared,
    LogImported,
    ModelNote,
    RequestOverflowed,
    RequestWeighed,
    RuleFruitless,
    SignaturesRefused,
    StateNote,
    SystemSet,
    ToolsSet,
    TurnStarted,
    ViewCleared,
    kind_of,
    read_note,
)
from tidegate.core.text.user_rules import rules_of
from tidegate.core.thinking_walk import seq_of_id
from tidegate.core.tokens.counting import (
    REQUEST_OVERHEAD,
    TokenCounter,
    calibrate_ratio,
    count_message,
    count_system,
    count_tools,
    fits_its_length,
    is_plausible_report,
)

Meter = Callable[[Message], int]


class Item(msgspec.Struct, gc=False, array_like=True):
    """A message in the view, with its size. `metered_tokens` is the policy's own estimate, for its triggers.

    `edited` is the seq of the edit that last changed the shown parts, or 0. `rules` are then the rules of the user in
    the original message, because in a shortened text it is unknown what the user typed. `birth` says what was sent
    before an answer with signed thinking (`core/thinking_walk.py`).
    """

    message: Message
    tokens: int
    metered_tokens: int = 0
    signed: bool = True
    edited: int = 0
    rules: tuple[str, ...] = ()
    birth: str = ""


def rules_given(item: Item) -> Sequence[str]:
    """The rules that the user gave in this message, also if it is now shown shortened."""
    return item.rules if item.edited else rules_of(item.message)


def _make_item(message: Message, tokens: int, meter: Meter | None) -> Item:
    """An item with the token count of its event, limited to the possible range. `View.recount` corrects it."""
    if not 0 <= tokens <= MAX_TOKEN_COUNT:
        tokens = MAX_TOKEN_COUNT if tokens > 0 else 0
    return Item(message, tokens, meter(message) if meter else tokens)


def weighed_again(item: Item, tokens: int, meter: Meter | None) -> Item:
    """The same item with another count."""
    return msgspec.structs.replace(item, tokens=tokens, metered_tokens=item.metered_tokens if meter else tokens)


def _is_said_after(ident: str, seq: int) -> bool:
    return seq_of_id(ident) > seq


class _AppliedEdits(NamedTuple):
    """The items after a transaction, and the first place where they differ."""

    items: list[Item]
    first: int


def _apply_edits(edit_index: EditIndex, before: Sequence[Item], meter: Meter | None, seq: int) -> _AppliedEdits:
    """What a transaction, the event `seq`, makes of these items.

    An insert goes to the head if asked to, or if the message it names has gone (an earlier edit was undone).
    """
    ids = {item.message.id for item in before}
    head_inserts = [insert for insert in edit_index.inserts if not insert.after_id or insert.after_id not in ids]
    items = [_make_item(insert.message, insert.tokens, meter) for insert in head_inserts]
    first = 0 if items else len(before)
    for item in before:
        ident = item.message.id
        new = edit_index.replaced.get(ident)
        behind = edit_index.inserts_after(ident) if ident else []
        if ident in edit_index.dropped or new is not None:
            first = min(first, len(items))
        if new is not None and ident not in edit_index.dropped:
            kind = item.message.kind if new.kind is None else new.kind
            rules = tuple(rules_given(item))
            birth = item.birth
            item = _make_item(msgspec.structs.replace(item.message, parts=new.parts, kind=kind), new.tokens, meter)
            item.edited, item.rules, item.birth = seq, rules, birth
        if ident not in edit_index.dropped:
            items.append(item)
        if behind:
            first = min(first, len(items))
            items.extend(_make_item(insert.message, insert.tokens, meter) for insert in behind)
    return _AppliedEdits(items, first)


_DERIVED_FIELDS = frozenset({"kind_index", "loop_start", "group_readings"})
_FIRST_REPORT_PRIOR = 500
"""Tokens assumed to be counted exactly when the first report comes."""


class RuleFiring(msgspec.Struct, frozen=True):
    """When a rule last acted. It is derived from the log, so cooldowns survive a restart."""

    turn: int
    time: float


class RefoldNeeded(Exception):
    """The view must be folded again from the start: an edit was undone or redone, a message was forgotten, or the
    conversation continues on another branch."""


class View:
    """The messages to send, and the counts that triggers ask for: what stages and renderers read.

    A stage may get one without the ledger (`hide_ledger`), which no log folds to. So only a `LogView` can be folded.
    """

    def __init__(self, meter: Meter | None = None, skip: frozenset[int] = frozenset()) -> None:
        self.meter = meter
        self.skipped_edits = skip
        self.items: list[Item] = []
        # The message with which a running tool loop must begin, set by the plan: stages leave it as it is.
        self.loop_start = ""
        # Where `items` are without the ledger (see `hide_ledger`): the ledger, and how many of `items` precede its end.
        self.ledger_items: Sequence[Item] = ()
        self.settled_count = 0
        self.orphans: list[Item] = []
        self.unanswered: dict[str, list[str]] = {}
        self.system, self.system_tokens, self.system_at = "", 0, 0
        self.tools: tuple[Tool, ...] = ()
        self.tools_tokens = self.tools_at = 0
        self.tokens = self.metered = 0
        self.visible_turns = self.tool_result_count = self.tool_call_count = 0
        self.total_turns = self.started_turns = 0
        # Of the whole log: tokens of all messages, replies of the model, time of the last reply.
        self.total_tokens_said = self.reply_count = 0
        self.last_reply_time = 0.0
        self.head = self.said_seq = self.prefix_seq = self.edited_seq = self.recoveries = 0
        # Whether the view was ever edited, also by an edit that was undone; and up to where signed data was refused.
        self.first_edit_seq = 0
        self.rejected_seq = 0
        self.compaction_id, self.compaction_tokens = "", 0
        self.covered_items: list[Item] = []
        # Tokens of this view that the provider itself left out of the last request.
        self.cleared_tokens = 0
        self.newest_request = ""
        self.last_fired: dict[str, RuleFiring] = {}
        # The provider's last report, if it is still about this view, and the tokens added since.
        self.usage: UsageReported | None = None
        self.tokens_since_report = self.metered_since_report = 0
        self.scale_by_model: dict[str, float] = {}
        # Rules that freed nothing, with `changed_seq` at that time. Until it changes they would free nothing again.
        self.fruitless_rules: dict[str, int] = {}
        self.model_note = ""
        # The newest state note as it is stored, and the seq of its event.
        self.state_note, self.state_note_seq = "", 0
        # Rules that the user removed, with the seq of the removal. Only a later message can give them again.
        self.removed_rules: dict[str, int] = {}
        self.kind_index = KindIndex()
        # What a sweep has read in groups, by the ids of their first messages. It is not saved: it can be read again.
        self.group_readings: dict[str, GroupReading] = {}

    def copy(self) -> "View":
        """A shallow copy, which cannot be folded. Each call makes one; `copy.copy` would take twice as long."""
        other = View.__new__(View)
        vars(other).update(vars(self))
        return other

    def fields(self) -> dict[str, Any]:
        """Everything that this view knows, by name."""
        return {name: value for name, value in vars(self).items() if name not in _DERIVED_FIELDS}

    def find_last_firing(self, rule: str) -> RuleFiring | None:
        """Return when a rule acted last. Logs of 0.1 name the stage `summarize` in the British way."""
        return self.last_fired.get(rule) or self.last_fired.get(rule.replace("/summarize", "/summarise"))

    @property
    def fixed_tokens(self) -> int:
        """The tokens of the system prompt, the tool definitions, and what the provider made of earlier messages."""
        return self.system_tokens + self.tools_tokens + self.compaction_tokens

    @property
    def message_count(self) -> int:
        """The number of messages that the model sees."""
        return len(self.items)

    @property
    def changed_seq(self) -> int:
        """The seq of the event that last changed what is shown."""
        return max(self.said_seq, self.edited_seq)

    def items_after(self, seq: int) -> Iterator[Item]:
        """Items said after `seq`, newest first: those at the end of the view."""
        for item in reversed(self.items):
            if not _is_said_after(item.message.id, seq):
                return
            yield item

    def items_since_reply(self) -> list[Item]:
        """Items after the last reply of the model, oldest first: new results, a new request."""
        start = len(self.items)
        while start and self.items[start - 1].message.role != "assistant":
            start -= 1
        return self.items[start:]


class LogView(View):
    """A view that is folded from a log: the only kind that events can be added to."""

    # --- the fold -------------------------------------------------------------------------------------------------

    def fold(self, event: Event) -> None:
        """Add one event. RefoldNeeded: fold the whole log again. BadLog: the event cannot follow those before it."""
        self.head = event.seq
        what = event.payload
        try:
            if isinstance(what, MessageAdded):
                if what.message.role == "assistant":
                    self.reply_count += 1
                    self.last_reply_time = event.time
                    self.recoveries = 0  # they are counted for each request
                self._say(what)
            elif isinstance(what, UsageReported):
                self._use(what)
            elif isinstance(what, ViewEdited):
                self.first_edit_seq = self.first_edit_seq or event.seq
                if event.seq not in self.skipped_edits:
                    self._edit(what, event)
            else:
                self._note(what)
        except RefoldNeeded:
            raise
        except Exception as fault:  # a log may hold anything
            raise fold_error(event.seq, type(fault).__name__) from fault

    def _say(self, event: MessageAdded) -> None:
        self.said_seq = self.head
        if is_user_request(event.message):
            self.total_turns += 1
            self.recoveries = 0
        message = resolve_visibility(event.message)
        if message is None:
            return
        calls = calls_of(message)
        item = _make_item(message, event.tokens, self.meter)
        self.total_tokens_said += item.tokens
        if message.role == "tool":
            self._answer(item)
            return
        if message.role == "assistant" and compacts_history(message):
            item = self._start_from_compaction(item)
        self._append(item, len(calls))
        if calls:
            self.unanswered[message.id] = [call.id for call in calls]

    def _start_from_compaction(self, item: Item) -> Item:
        """Leave out what the provider replaced by a block of this message. Returns the message without its tokens."""
        self.covered_items += [each for each in self.items if each.message.kind in (LEDGER, PIN) or rules_given(each)]
        self.orphans = []
        self._moved()
        self._rebuild([], 0)
        self.compaction_id, self.compaction_tokens = item.message.id, item.tokens
        return msgspec.structs.replace(item, tokens=0, metered_tokens=0)

    def _weigh_compaction(self) -> None:
        """Count a block that an edit has put at the head as a part of the fixed part, like one in an answer."""
        self.compaction_id, self.compaction_tokens = "", 0
        first = self.items[0] if self.items else None
        if first is not None and first.message.role == "assistant" and compacts_history(first.message):
            self.compaction_id, self.compaction_tokens = first.message.id, first.tokens
            self.items[0] = msgspec.structs.replace(first, tokens=0, metered_tokens=0)
            self.tokens -= first.tokens
            self.metered -= first.metered_tokens
            self.tokens_since_report -= first.tokens
            self.metered_since_report -= first.metered_tokens

    def _answer(self, item: Item) -> None:
        """Put a result after its call. Unless its group is the last one, later items move."""
        result = result_of(item.message)
        call_id = result.call_id if result else ""
        for caller in reversed(self.unanswered):
            if call_id in self.unanswered[caller]:
                self._strike(caller, call_id)
                place = self._group_end(caller)
                if place == len(self.items):
                    self._append(item)
                else:
                    self._moved()
                    self._rebuild([*self.items[:place], item, *self.items[place:]], place)
                return
        for place in range(len(self.items) - 1, -1, -1):
            old = self.items[place].message
            old_result = result_of(old) if old.kind == INTERRUPTED else None
            if old_result is not None and old_result.call_id == call_id:
                self._moved()
                self._rebuild([*self.items[:place], item, *self.items[place + 1 :]], place)
                return
        self.orphans.append(item)

    def _strike(self, caller: str, call_id: str) -> None:
        self.unanswered[caller].remove(call_id)
        if not self.unanswered[caller]:
            del self.unanswered[caller]

    def _group_end(self, caller: str) -> int:
        """The index after the last result of the group that the message `caller` begins."""
        place = len(self.items) - 1
        while self.items[place].message.id != caller:
            place -= 1
        place += 1
        while place < len(self.items) and self.items[place].message.role == "tool":
            place += 1
        return place

    def _edit(self, edited: ViewEdited, event: Event) -> None:
        self._moved()
        if edited.rule:
            self.last_fired[edited.rule] = RuleFiring(self.total_turns, event.time)
        edit_index = EditIndex(edited.edits)
        self.removed_rules.update(dict.fromkeys(edit_index.removed_rules, event.seq))
        if self.orphans:
            self.orphans = [item for item in self.orphans if item.message.id not in edit_index.dropped]
        result = _apply_edits(edit_index, self.items, self.meter, event.seq)
        self._rebuild(result.items, result.first)
        if self.compaction_id in edit_index.dropped or any(
            compacts_history(each.message) for each in edit_index.inserts
        ):
            self._weigh_compaction()

    def _moved(self) -> None:
        """Earlier items changed: the provider's last report is not about this view any more."""
        self.edited_seq = self.head
        self.usage = None
        self.cleared_tokens = 0

    def pass_over(self, event: Event) -> None:
        """Take an undo, a redo or a removal as done: earlier items are not what they were in the last request."""
        self.head = event.seq
        self._moved()
        self._rebuild(self.items, 0)

    def start_branch(self, event: Event) -> None:
        """Continue after an earlier event, up to which this view was folded. Signed data and the report stay valid."""
        self.head = self.edited_seq = self.prefix_seq = event.seq

    def _use(self, report: UsageReported) -> None:
        if not is_plausible_report(report.counted_tokens, report.input_tokens):
            return
        ratio = self.scale_by_model.get(report.model)
        if ratio is None:  # a first report says little if the request was short: most of it was framing
            ratio = (report.input_tokens + _FIRST_REPORT_PRIOR) / (report.counted_tokens + _FIRST_REPORT_PRIOR)
        self.scale_by_model[report.model] = calibrate_ratio(ratio, report.counted_tokens, report.input_tokens)
        if report.log_head >= self.edited_seq:
            self.usage = report
            self.tokens_since_report = self.metered_since_report = 0
            for item in self.items_after(report.log_head):
                self.tokens_since_report += item.tokens
                self.metered_since_report += item.metered_tokens

    def _note(self, note: NoteAdded) -> None:
        kind = kind_of(note)
        if kind in REFOLD_NOTES or isinstance(note, BranchStarted):
            raise RefoldNeeded
        if kind in (SystemSet, ToolsSet, SignaturesRefused, AnswerBirth):
            self._note_head(note)
        elif kind is StateNote:
            self.state_note, self.state_note_seq = note.text, self.head
        elif kind is ViewCleared:
            self.state_note, self.state_note_seq = "", 0
            self.compaction_id, self.compaction_tokens, self.covered_items = "", 0, []
            self.orphans = []
            self._moved()
            self._rebuild([], 0)
        elif kind is ContextCleared:
            self.cleared_tokens = min(max(note.tokens, 0), self.tokens)
        elif kind is TurnStarted:
            self.started_turns = self.total_turns
        elif kind is RequestWeighed:
            self._weigh(RequestWeighed.unpack(note))
        elif kind is RequestOverflowed:
            self.recoveries += 1
        elif kind is RuleFruitless:
            self.fruitless_rules = {rule: at for rule, at in self.fruitless_rules.items() if at == self.changed_seq}
            self.fruitless_rules[RuleFruitless.unpack(note).text] = self.changed_seq
        elif kind is ModelNote:
            self.model_note = note.text
        elif kind is LogImported:
            self._forget_reports()

    def _weigh(self, request: RequestWeighed) -> None:
        """A provider refused a request for its length and said it: raise the scale at once."""
        model, own_count, tokens = request.model, request.counted_tokens, request.tokens
        self._use(UsageReported(model, request.log_head, own_count, tokens))
        if is_plausible_report(own_count, tokens):
            self.scale_by_model[model] = max(self.scale_by_model[model], min(tokens / own_count, 3.0))

    def _note_head(self, note: NoteAdded) -> None:
        """A note about what signed thinking is bound to."""
        if (birth := read_note(note, AnswerBirth)) is not None:
            place = next((n for n in reversed(range(len(self.items))) if self.items[n].message.role == "assistant"), -1)
            if place >= 0:
                self.items[place] = msgspec.structs.replace(self.items[place], birth=birth.text)
        elif kind_of(note) is SignaturesRefused:
            self.rejected_seq = self.head
            self._moved()
            self._rebuild(self.items, 0)
        else:
            if (system := read_note(note, SystemSet)) is not None:
                self.system, self.system_at = system.text, self.head
                self.system_tokens = min(max(system.tokens, 0), MAX_TOKEN_COUNT)
                by_host = system.by_host
            else:
                change = ToolsSet.unpack(note)
                self.tools, self.tools_at, by_host = change.tools, self.head, change.by_host
                self.tools_tokens = min(max(change.tokens, 0), MAX_TOKEN_COUNT)
            self._fixed_changed(by_host)

    def _forget_reports(self) -> None:
        """The log was written elsewhere: its reports and times say nothing about providers and clocks here."""
        self.usage = None
        self.scale_by_model, self.last_fired, self.fruitless_rules = {}, {}, {}
        self.last_reply_time = 0.0
        self.recoveries = 0

    def _fixed_changed(self, by_host: bool) -> None:
        """System prompt, instructions or tools changed. They precede all messages, so no signature stays valid.

        A host that changes them itself also decides what it sends back signed.
        """
        self._moved()
        if not by_host:
            self._rebuild(self.items, 0)

    # --- upkeep ---------------------------------------------------------------------------------------------------

    def _append(self, item: Item, calls: int = 0) -> None:
        self.items.append(item)
        message = item.message
        self.tokens += item.tokens
        self.metered += item.metered_tokens
        self.tokens_since_report += item.tokens
        self.metered_since_report += item.metered_tokens
        self.tool_call_count += calls
        if message.role == "tool":
            self.tool_result_count += message.kind == TOOL_RESULT
        elif is_user_request(message):
            self.visible_turns += 1
            self.newest_request = message.id

    def _rebuild(self, items: list[Item], first: int) -> None:
        """Take these items, which differ from index `first` on, and pair calls and results again."""
        self.prefix_seq = self.head
        self.items = []
        self.unanswered = {}
        self.tokens = self.metered = self.visible_turns = self.tool_result_count = self.tool_call_count = 0
        self.newest_request = ""
        caller, open_calls = "", list[str]()
        for place, item in enumerate(items):
            message, calls = item.message, 0
            if message.role == "tool":
                result = result_of(message)
                if result is None or result.call_id not in open_calls:
                    self.orphans.append(item)
                    continue
                open_calls.remove(result.call_id)
                if not open_calls:
                    self.unanswered.pop(caller)
            else:
                caller, open_calls = message.id, [call.id for call in calls_of(message)]
                calls = len(open_calls)
                if open_calls:
                    self.unanswered[caller] = open_calls
            if place >= first and item.signed:
                item = msgspec.structs.replace(item, signed=False)
            self._append(item, calls)

    def recount(self, counter: TokenCounter, *, thinking: bool, since: int | None = None) -> None:
        """Count again the items from events after `since`; with None, those whose count is impossible for their length.

        Counts in events are not trusted: the log may have been edited by hand, or counted for another model.
        """
        edited = since is not None and self.edited_seq > since  # also where the fixed part changed

        def is_trusted(item: Item) -> bool:
            if since is None:
                return fits_its_length(item.tokens, item.message)
            return not (edited or _is_said_after(item.message.id, since))

        def count_again(item: Item) -> Item:
            if self.compaction_id and item.message.id == self.compaction_id:
                first = weighed_again(item, self.compaction_tokens, self.meter)
                if not is_trusted(first):
                    self.compaction_tokens = count_message(item.message, counter, thinking=thinking)
                return item
            if is_trusted(item):
                return item
            tokens = count_message(item.message, counter, thinking=thinking)
            return item if tokens == item.tokens else weighed_again(item, tokens, self.meter)

        items = [count_again(item) for item in self.items]
        if items != self.items:
            self.items, self.tokens = items, sum(item.tokens for item in items)
            self.metered = sum(item.metered_tokens for item in items)
            self.usage = None  # it was compared with the old count
        self.orphans = list(map(count_again, self.orphans))
        if edited or not self._fixed_fits():
            self.system_tokens, self.tools_tokens = count_system(self.system, counter), count_tools(self.tools, counter)
        reported = self.fixed_tokens + REQUEST_OVERHEAD + self.tokens - self.tokens_since_report
        if self.usage is not None and not is_plausible_report(reported, self.usage.input_tokens):
            self.usage = None

    def _fixed_fits(self) -> bool:
        tools = tuple(Text(f"{tool.name}{tool.description}{tool.parameters}") for tool in self.tools)
        return fits_its_length(self.system_tokens, Message("system", (Text(self.system),))) and fits_its_length(
            self.tools_tokens, Message("user", tools)
        )


def fold_error(seq: int, why: str) -> BadLog:
    return BadLog(
        f"Record {seq} does not follow from those before it ({why}).",
        f"Run `tidegate doctor` to see what is wrong. A fork at record {seq - 1} has everything before it.",
    )
