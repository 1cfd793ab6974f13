"""What the model will see: a fold of the log.

    view = View(); for event in log: view.fold(event)

Same log, same view, byte for byte. A live session folds each event as it happens; a reader folds them all; both get
the same view, because there is only this one function. Everything a trigger asks for (tokens, turns, results, ...)
is kept up as events come in, so that asking costs nothing however long the log is: an append is O(1), an edit O(view).

Three laws are kept here and nowhere else:

- *Groups stay whole.* A result stands directly behind the message that called for it, wherever it came in the log. A
  result without a call never enters the view: it waits in `orphans` until a repair drops it, visibly. A call without a
  result waits in `unanswered` until a repair answers it; if the true result comes later, it takes the repair's place.
- *Signed data is bound to what stood before it.* When an edit changes the view at some place, every message behind
  that place loses `signed`: its opaque blocks are no longer sent (the message itself stays).
- *`epoch` tells the renderer what it may keep*: it is the seq of the event that last changed anything but the end.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from tidegate.core.edits import Changes
from tidegate.core.events import Edited, Event, Noted, Said, Used
from tidegate.core.messages import (
    ARCHIVED,
    INTERRUPTED,
    TOOL_RESULT,
    Call,
    Message,
    Result,
    Text,
    Tool,
    calls_of,
    is_request,
    result_of,
)
from tidegate.core.tokens import calibrate, plausible

Meter = Callable[[Message], int]


class Item(msgspec.Struct, gc=False):
    """A message in the view, with what it costs. `metered` is the policy's own estimate, for its triggers.

    `edited`: an edit changed what is shown of it, so that no stage admits the same result twice.
    """

    message: Message
    tokens: int
    metered: int = 0
    signed: bool = True
    edited: bool = False


class Fired(msgspec.Struct, frozen=True):
    """When a rule last acted: for cooldowns, which so survive a restart."""

    turn: int
    time: float


class Undone(Exception):
    """An undo or redo came: the view must be folded again from the start, without or with that edit."""


def shown(message: Message) -> Message | None:
    """How a message enters the view: as it is, not at all, or (an invisible result, whose call needs one) as a stub."""
    if message.agent_visible:
        return message
    result = result_of(message)
    if result is None:
        return None
    stub = Result(result.call_id, (Text("[archived]"),), result.error)
    return msgspec.structs.replace(message, parts=(stub,), kind=ARCHIVED)


class View:
    def __init__(self, meter: Meter | None = None, skip: frozenset[int] = frozenset()) -> None:
        self._meter = meter
        self._skip = skip
        self.items: list[Item] = []
        self.orphans: list[Item] = []
        self.unanswered: dict[str, list[str]] = {}
        self.system, self.system_tokens = "", 0
        self.tools: tuple[Tool, ...] = ()
        self.tools_tokens = 0
        self.tokens = self.metered = 0
        self.turns = self.tool_results = self.tool_calls = 0
        self.turn_count = self.turn_begun = 0
        self.head = self.said_at = 0
        self.epoch = 0
        self.edited_at = 0
        self.recoveries = 0
        self.newest_request = ""
        self.fired: dict[str, Fired] = {}
        # What the provider reported last, if it still tells of this view, and what was said since.
        self.usage: Used | None = None
        self.later = self.later_metered = 0
        self.ratios: dict[str, float] = {}

    # --- the fold -------------------------------------------------------------------------------------------------

    def fold(self, event: Event) -> None:
        """Take in one event. Raises Undone where the view must be folded again from the start."""
        self.head = event.seq
        what = event.what
        if isinstance(what, Said):
            self._say(what.message, what.tokens)
        elif isinstance(what, Edited):
            if event.seq not in self._skip:
                self._edit(what, event)
        elif isinstance(what, Used):
            self._use(what)
        else:
            self._note(what)

    def _say(self, message: Message, tokens: int) -> None:
        self.said_at = self.head
        if is_request(message):
            self.turn_count += 1
            self.recoveries = 0
        seen = shown(message)
        if seen is None:
            return
        item = self._item(seen, tokens)
        if seen.role == "tool":
            self._answer(item)
            return
        self._append(item)
        calls = calls_of(seen)
        if calls:
            self.unanswered[seen.id] = [call.id for call in calls]

    def _answer(self, item: Item) -> None:
        """Put a result behind its call. Only the open group at the end can take it without moving anything."""
        result = result_of(item.message)
        wanted = result.call_id if result else ""
        for caller in reversed(self.unanswered):
            if wanted in self.unanswered[caller]:
                self._strike(caller, wanted)
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
            if old_result is not None and old_result.call_id == wanted:
                self._moved()
                self._rebuild([*self.items[:place], item, *self.items[place + 1 :]], place)
                return
        self.orphans.append(item)

    def _strike(self, caller: str, call_id: str) -> None:
        self.unanswered[caller].remove(call_id)
        if not self.unanswered[caller]:
            del self.unanswered[caller]

    def _group_end(self, caller: str) -> int:
        """The place behind the last result of the group that the message `caller` opens."""
        place = len(self.items) - 1
        while self.items[place].message.id != caller:
            place -= 1
        place += 1
        while place < len(self.items) and self.items[place].message.role == "tool":
            place += 1
        return place

    def _edit(self, edited: Edited, event: Event) -> None:
        self._moved()
        if edited.rule:
            self.fired[edited.rule] = Fired(self.turn_count, event.time)
        changed = Changes(edited.edits)
        if self.orphans:
            self.orphans = [item for item in self.orphans if item.message.id not in changed.dropped]
        items, first = self._changed(changed)
        self._rebuild(items, first)

    def _moved(self) -> None:
        """What a provider reported of earlier requests says nothing of the next one."""
        self.edited_at = self.head
        self.usage = None

    def _changed(self, changed: Changes) -> tuple[list[Item], int]:
        """The items after a transaction, and the first place where they differ.

        An insert goes to the head if asked to, or if the message it names has gone (an earlier edit was undone).
        """
        known = {item.message.id for item in self.items}
        lost = [insert for insert in changed.inserts if not insert.after or insert.after not in known]
        items = [self._item(insert.message, insert.tokens) for insert in lost]
        first = 0 if items else len(self.items)
        for item in self.items:
            ident = item.message.id
            new = changed.replaced.get(ident)
            behind = changed.after(ident) if ident else []
            if ident in changed.dropped or new is not None:
                first = min(first, len(items))
            if new is not None and ident not in changed.dropped:
                kind = item.message.kind if new.kind is None else new.kind
                item = self._item(msgspec.structs.replace(item.message, parts=new.parts, kind=kind), new.tokens)
                item.edited = True
            if ident not in changed.dropped:
                items.append(item)
            if behind:
                first = min(first, len(items))
                items.extend(self._item(insert.message, insert.tokens) for insert in behind)
        return items, first

    def _use(self, used: Used) -> None:
        if not plausible(used.counted, used.input_tokens):
            return
        ratio = self.ratios.get(used.model)
        fresh = used.input_tokens / used.counted
        self.ratios[used.model] = calibrate(ratio if ratio is not None else fresh, used.counted, used.input_tokens)
        if used.head >= self.edited_at:
            self.usage = used
            later = list(self.since(used.head))
            self.later = sum(item.tokens for item in later)
            self.later_metered = sum(item.metered for item in later)

    def _note(self, noted: Noted) -> None:
        if noted.topic == "system":
            self.system, self.system_tokens = noted.text, noted.tokens
            self._fixed_changed()
        elif noted.topic == "tools":
            self.tools = msgspec.json.decode(noted.text, type=tuple[Tool, ...])
            self.tools_tokens = noted.tokens
            self._fixed_changed()
        elif noted.topic == "clear":
            self.orphans = []
            self._moved()
            self._rebuild([], 0)
        elif noted.topic == "turn":
            self.turn_begun = self.turn_count
        elif noted.topic == "overflow":
            self.recoveries += 1
        elif noted.topic in ("undo", "redo"):
            raise Undone

    def _fixed_changed(self) -> None:
        """The fixed part stands before everything: what was signed under the old one is no longer valid."""
        self._moved()
        self._rebuild(self.items, 0)

    # --- upkeep ---------------------------------------------------------------------------------------------------

    def _item(self, message: Message, tokens: int) -> Item:
        return Item(message, tokens, self._meter(message) if self._meter else tokens)

    def _append(self, item: Item) -> None:
        self.items.append(item)
        self._count(item)

    def _count(self, item: Item) -> None:
        message = item.message
        self.tokens += item.tokens
        self.metered += item.metered
        self.later += item.tokens
        self.later_metered += item.metered
        if message.role == "assistant":
            self.tool_calls += sum(isinstance(part, Call) for part in message.parts)
        elif message.role == "tool":
            self.tool_results += message.kind == TOOL_RESULT
        elif is_request(message):
            self.turns += 1
            self.newest_request = message.id

    def _rebuild(self, items: list[Item], first: int) -> None:
        """Take these items, changed from the place `first` on. Pairs are told anew: an undo may have broken some."""
        self.epoch = self.head
        self.items = []
        self.unanswered = {}
        self.tokens = self.metered = self.turns = self.tool_results = self.tool_calls = 0
        self.newest_request = ""
        caller, open_calls = "", list[str]()
        for place, item in enumerate(items):
            message = item.message
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
                if open_calls:
                    self.unanswered[caller] = open_calls
            if place >= first and item.signed:
                item = msgspec.structs.replace(item, signed=False)
            self._append(item)

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def fixed(self) -> int:
        return self.system_tokens + self.tools_tokens

    @property
    def messages(self) -> int:
        return len(self.items)

    @property
    def changed_at(self) -> int:
        """The seq of the event that last changed what is shown."""
        return max(self.said_at, self.edited_at)

    def since(self, seq: int) -> Iterator[Item]:
        """Items said after `seq`, newest first: those at the end of the view."""
        for item in reversed(self.items):
            if not said_after(item.message.id, seq):
                return
            yield item

    def fresh(self) -> list[Item]:
        """What came since the model last spoke, oldest first: results not yet admitted, a new request."""
        end = len(self.items)
        start = end
        while start and self.items[start - 1].message.role != "assistant":
            start -= 1
        return self.items[start:end]


def said_after(ident: str, seq: int) -> bool:
    return ident[:1] == "m" and int(ident[1:]) > seq


def project(read: Callable[[], Iterable[Event]], meter: Meter | None = None) -> View:
    """Fold a whole log. Undone edits are only known once their undo is read; the fold then starts over without them."""
    skip: frozenset[int] = frozenset()
    seen = 0
    while True:
        view = View(meter, skip)
        try:
            for event in read():
                what = event.what
                if isinstance(what, Noted) and what.topic in ("undo", "redo"):
                    view.head = event.seq
                    view._moved()
                    view._rebuild(view.items, 0)
                    if event.seq > seen:
                        seen, seq = event.seq, int(what.text)
                        skip = skip | {seq} if what.topic == "undo" else skip - {seq}
                        raise Undone
                else:
                    view.fold(event)
            return view
        except Undone:
            continue
