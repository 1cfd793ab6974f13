"""A log and its view, updated together: every change is appended to the log first and then folded into the view."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import msgspec

from tidegate.core.errors import BadInput, GiveUp
from tidegate.core.events import Event, EventPayload, MessageAdded, NoteAdded, UsageReported
from tidegate.core.ledger.writer import PIN
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import Message, Tool, mark_texts, user_message
from tidegate.core.tokens.counting import REQUEST_OVERHEAD, TokenCounter, count_message, count_system, count_tools
from tidegate.core.view import Meter, RefoldNeeded, View, resolve_visibility
from tidegate.session.recall import find_edit_to_toggle, recall_message
from tidegate.store.errors import StaleHead
from tidegate.store.log import Log
from tidegate.wire.dialect import Dialect
from tidegate.wire.parsing import normalize_message_arguments, repair_message_unicode, repair_unicode
from tidegate.wire.registry import parse_any_message, parse_tools
from tidegate.wire.usage import read_usage

_MAX_APPEND_ATTEMPTS = 100
_MAX_PIN_CHARS = 1_000
_ENGINE_TOPICS = frozenset(
    "system tools undo redo clear turn overflow model forgotten tried unsigned weighed foreign".split()
)


def _append_race_error() -> GiveUp:
    return GiveUp(
        f"Others were faster {_MAX_APPEND_ATTEMPTS} times in a row in appending to this session.",
        "Try again in a moment.",
    )


def _parse_messages(messages: Sequence[Mapping[str, object] | Message], typed: bool | None) -> list[Message]:
    parsed: list[Message] = []
    for message in messages:
        parsed.extend(
            [normalize_message_arguments(message)] if isinstance(message, Message) else parse_any_message(message)
        )
    return parsed if typed is None else [mark_texts(message, typed) for message in parsed]


class LiveConversation:
    """A session without a policy: its log, its view, and everything that only appends.

    `view` may be a snapshot, folded up to some seq: the rest of the log is folded into it.

    The functions in `on_event` are called, in order, with every event that is folded from now on, no matter who wrote
    it: trace and snapshots depend on them. Those in `on_close` are called by `close`, the last one first.
    """

    def __init__(
        self,
        log: Log,
        *,
        model: str,
        dialect: Dialect,
        counter: TokenCounter,
        meter: Meter | None,
        clock: Callable[[], float],
        view: View | None = None,
    ) -> None:
        self.log = log
        self.model = model
        self.dialect = dialect
        self.counter = counter
        self._meter = meter
        self._clock = clock
        self._last_request = (0, 0)
        self._shared_messages = 0
        self.on_event: list[Callable[[Event], None]] = []
        self.on_close: list[Callable[[], None]] = []
        self.view: View = self._fold_log() if view is None else view
        if view is not None:
            view.recount(counter, thinking=dialect.sends_thinking)
            self._fold_all(log.read(view.head + 1))

    def close(self) -> None:
        """Release the files and locks that were opened for this session. A session in memory has none."""
        while self.on_close:
            self.on_close.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, *messages: Mapping[str, object] | Message, typed: bool | None = None) -> list[str]:
        """Append messages in any provider's format. Return their ids. All are parsed before the first is stored.

        `typed` says whether a person typed the texts of the user in them: False for files, tool output and anything
        else that must not lay down rules. Without it, rules are read with care (docs/policies.md).
        """
        return [self._append_message(message) for message in _parse_messages(messages, typed)]

    async def add_async(self, *messages: Mapping[str, object] | Message, typed: bool | None = None) -> list[str]:
        """`add` without blocking the event loop. Sessions of one store that append at the same time share an fsync.

        If the task is cancelled, the message may still be stored; `refresh` then shows it.
        """
        return [await self._append_message_async(message) for message in _parse_messages(messages, typed)]

    def _append_message(self, message: Message) -> str:
        try:
            return f"m{self._append(self._message_payload(message))}"
        except UnicodeEncodeError:  # half a surrogate pair, in a Message that no parser has seen
            return f"m{self._append(self._message_payload(repair_message_unicode(message)))}"

    async def _append_message_async(self, message: Message) -> str:
        try:
            return f"m{await self._append_async(self._message_payload(message))}"
        except UnicodeEncodeError:
            return f"m{await self._append_async(self._message_payload(repair_message_unicode(message)))}"

    def _message_payload(self, message: Message) -> Callable[[int], MessageAdded]:
        seen = resolve_visibility(message)
        tokens = 0 if seen is None else count_message(seen, self.counter, thinking=self.dialect.sends_thinking)
        return lambda seq: MessageAdded(msgspec.structs.replace(message, id=f"m{seq}"), tokens)

    def set_system(self, text: str) -> None:
        """Change the system prompt. The provider's cached prefix is lost with it."""
        text = repair_unicode(text)
        if text != self.view.system:
            self._append(NoteAdded("system", text, count_system(text, self.counter)))

    def set_tools(self, tools: Sequence[Mapping[str, object] | Tool]) -> None:
        parsed = parse_tools(tools)
        if parsed != self.view.tools:
            text = msgspec.json.encode(parsed).decode()
            self._append(NoteAdded("tools", text, count_tools(parsed, self.counter)))

    def record(self, usage: Mapping[str, object]) -> None:
        """Record the usage of the last request, in the provider's own format."""
        self._append(self.build_usage_report(usage, self._last_request))

    def build_usage_report(self, usage: Mapping[str, object], measured: tuple[int, int]) -> UsageReported:
        """The event for a provider's report. `measured` is the head of the log and our count for that request."""
        head, counted = measured
        read = read_usage(usage)
        return UsageReported(
            self.model,
            head,
            counted,
            read.input_tokens,
            read.output_tokens,
            read.cache_read,
            read.cache_write,
            self._shared_messages,
        )

    def add_note(self, topic: str, text: str = "") -> None:
        """Append a note to the log. The model never sees it."""
        if topic in _ENGINE_TOPICS:
            raise BadInput(f"The topic {topic} is reserved.", "Choose another topic for the note.")
        self._append(NoteAdded(topic, repair_unicode(text)))

    def refresh(self) -> None:
        """Fold what others appended to this session."""
        self._fold_all(self.log.read_new_events())

    def _fold_all(self, events: Iterable[Event]) -> None:
        """Fold events that somebody else counted."""
        known, folded = self.view.head, False
        for event in events:
            if event.seq > self.view.head:  # not if an undo among them caused the whole log to be folded
                self._fold(event)
                folded = True
        if folded:
            self.view.recount(self.counter, thinking=self.dialect.sends_thinking, since=known)

    def _fold_log(self) -> View:
        """Fold the view from the whole log. Only the messages it shows are counted again."""
        view = fold_log(self.log.read, self._meter)
        view.recount(self.counter, thinking=self.dialect.sends_thinking, since=0)
        return view

    def _append(self, what: EventPayload | Callable[[int], EventPayload]) -> int:
        """Append, then fold. If someone else appended first, fold their events and try again after them."""
        for _ in range(_MAX_APPEND_ATTEMPTS):
            event = self._next_event(what)
            try:
                self.log.append(event)
            except StaleHead:
                self.refresh()
            else:
                self._fold(event)
                return event.seq
        raise _append_race_error()

    async def _append_async(self, what: EventPayload | Callable[[int], EventPayload]) -> int:
        for _ in range(_MAX_APPEND_ATTEMPTS):
            event = self._next_event(what)
            try:
                ours = await self.log.append_async(event)
            except StaleHead:
                self.refresh()
            else:
                if ours:
                    self._fold(event)
                return event.seq
        raise _append_race_error()

    def _append_all(self, payloads: Sequence[EventPayload], make: Callable[[EventPayload, int], EventPayload]) -> int:
        """Append several events in one step and fold them. `make` completes a payload for its seq. Return the first."""
        for _ in range(_MAX_APPEND_ATTEMPTS):
            events = self._next_events(payloads, make)
            try:
                self.log.append_all(events)
            except StaleHead:
                self.refresh()
            else:
                self._fold_own(events)
                return events[0].seq
        raise _append_race_error()

    async def _append_all_async(
        self, payloads: Sequence[EventPayload], make: Callable[[EventPayload, int], EventPayload]
    ) -> int:
        for _ in range(_MAX_APPEND_ATTEMPTS):
            events = self._next_events(payloads, make)
            try:
                ours = await self.log.append_all_async(events)
            except StaleHead:
                self.refresh()
            else:
                if ours:
                    self._fold_own(events)
                return events[0].seq
        raise _append_race_error()

    def _next_events(
        self, payloads: Sequence[EventPayload], make: Callable[[EventPayload, int], EventPayload]
    ) -> list[Event]:
        now = self._clock()
        return [Event(seq, now, make(what, seq)) for seq, what in enumerate(payloads, self.log.head + 1)]

    def _fold_own(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.seq > self.view.head:  # not if one among them caused the whole log to be folded
                self._fold(event)
            else:
                self._watch(event)

    def _next_event(self, what: EventPayload | Callable[[int], EventPayload]) -> Event:
        seq = self.log.head + 1
        return Event(seq, self._clock(), what(seq) if callable(what) else what)

    def _fold(self, event: Event) -> None:
        try:
            self.view.fold(event)
        except RefoldNeeded:
            self.view = self._fold_log()
        self._watch(event)

    def _watch(self, event: Event) -> None:
        for watch in self.on_event:
            watch(event)

    def clear(self) -> None:
        """Empty the view. Everything stays in the log."""
        self._append(NoteAdded("clear"))

    def pin(self, text: str) -> str:
        """Add a rule that stays in the view and is never summarized. Return its message id."""
        text = " ".join(repair_unicode(text).split())
        if not 0 < len(text) <= _MAX_PIN_CHARS:
            raise BadInput(
                f"The pin has {len(text):,} characters.", f"Pin a sentence or two, at most {_MAX_PIN_CHARS:,}."
            )
        return self._append_message(user_message(text, PIN))

    def discard_signed_reasoning(self) -> None:
        """Stop sending the reasoning signed so far, because the provider no longer accepts it."""
        self._append(NoteAdded("unsigned"))

    def _remember_request(self) -> None:
        """Remember our token count of this request, to compare it with the provider's report."""
        self._last_request = (self.log.head, self.view.fixed_tokens + REQUEST_OVERHEAD + self.view.tokens)

    def recall(self, ident: str) -> Message:
        """Return a message as it was added, even if it is no longer in the view."""
        return recall_message(self.log, ident)

    def undo(self) -> int | None:
        """Undo the newest edit; messages added since stay. Return the seq of the edit, or None if there is none."""
        return self._toggle_edit("undo")

    def redo(self) -> int | None:
        """Redo the edit that was undone last. Return its seq, or None if there is none."""
        return self._toggle_edit("redo")

    def _toggle_edit(self, topic: str) -> int | None:
        seq = find_edit_to_toggle(topic, self.log)
        if seq is not None:
            self._append(NoteAdded(topic, str(seq)))
        return seq
