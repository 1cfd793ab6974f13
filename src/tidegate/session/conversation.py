"""A log and its view, updated together: every change is appended to the log first and then folded into the view.

`LiveLog` appends and folds; `LiveConversation` is what programs see of it. The objects that work on a session (the
runner of its policy, state notes, recovery, following a host) share its `LiveLog`.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from itertools import islice
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

import msgspec
from msgspec.structs import replace

from tidegate.core.errors import BadInput, GiveUp, SystemMessageWarning, TidegateError
from tidegate.core.events import Event, EventPayload, HourWriteReported, MessageAdded, NoteAdded, UsageReported
from tidegate.core.log_fold import fold_log
from tidegate.core.messages import Message, Tool, encode_into_bytes, mark_texts, resolve_visibility
from tidegate.core.notes import AnswerBirth, KeyUsed, SideCost, SystemSet, ToolsSet, is_note, read_note
from tidegate.core.thinking_walk import has_signed_data
from tidegate.core.tokens.counting import REQUEST_OVERHEAD, TokenCounter, count_message, count_system, count_tools
from tidegate.core.view import LogView, Meter, RefoldNeeded, View
from tidegate.session.history import History
from tidegate.session.recall import recall_message
from tidegate.session.serial_calls import RunFold, SerialCalls, run_fold, run_in_thread, run_read
from tidegate.session.unconfirmed import MakePayloads, UnconfirmedAppend, UnconfirmedAppends
from tidegate.store.errors import StaleHead, StoreUnreachable
from tidegate.store.log import Log
from tidegate.wire.answers import is_usage, list_usage_fields, read_compaction_usage, read_usage
from tidegate.wire.dialect import Dialect
from tidegate.wire.parsing import (
    SdkModel,
    normalize_message,
    repair_message_texts,
    repair_unicode,
    require_object,
    to_plain_json,
)
from tidegate.wire.registry import parse_any_message, parse_tools

_MAX_APPEND_ATTEMPTS = 100
_P = ParamSpec("_P")
_T = TypeVar("_T")
_MAX_KEY_CHARS = 200
_ENCODER = msgspec.msgpack.Encoder()


def _is_uncertain(error: BaseException) -> bool:
    """Whether an append that ended with this error may have been stored."""
    from asyncio import CancelledError  # noqa: PLC0415 - it loads slowly, and only async code needs it

    return isinstance(error, StoreUnreachable | KeyboardInterrupt | CancelledError)


def _append_race_error() -> GiveUp:
    return GiveUp(
        f"Others were faster {_MAX_APPEND_ATTEMPTS} times in a row in appending to this session.",
        "Try again in a moment.",
    )


def _encode_content(what: EventPayload) -> bytes:
    """The bytes of a payload without its token count, which depends on the counter."""
    return encode_into_bytes(_ENCODER, what.message if isinstance(what, MessageAdded) else what)


class LiveLog:
    """The log and the view of an open session, and for which model its messages are counted.

    `last_request` are the head of the log and our token count of the request that was prepared last. The `observers`
    are called with every event, whoever wrote it. `view` may be a snapshot, folded up to some seq: the rest of the log
    is folded into it.
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
        view: LogView | None = None,
    ) -> None:
        self.log = log
        self.model = model
        self.dialect = dialect
        self.counter = counter
        self.meter = meter
        self.clock = clock
        self.last_request = (0, 0)
        self.observers: list[Callable[[Event], None]] = []
        self.history = History(log, self.append, self.refresh, self.observers)
        self._unconfirmed: UnconfirmedAppends | None = None  # made when an append fails
        self._first_seq_by_key: dict[str, int] | None = None  # read from the log when the first key is given
        if view is None:
            self.view = self._fold_log()
        else:
            self.view = view
            view.recount(counter, thinking=dialect.capabilities.plain_thinking)
            self._fold_all(log.read(view.head + 1))

    @cached_property
    def view(self) -> LogView:
        """What the log shows now. If an event changed what is before it, and the log could not be read then, this reads
        it, and fails if it cannot."""
        return self._fold_log()

    @property
    def _is_stale(self) -> bool:
        return "view" not in vars(self)

    def remember_request(self) -> None:
        """Remember our token count of this request, to compare it with the provider's report."""
        view = self.view
        self.last_request = (self.log.head, view.fixed_tokens + REQUEST_OVERHEAD + view.tokens)

    # --- reading --------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Fold what other writers appended."""
        self._fold_all(self.log.read_new_events())

    def _fold_all(self, events: Iterable[Event]) -> None:
        """Fold events that somebody else counted."""
        old_head, folded = 0 if self._is_stale else self.view.head, False
        try:
            for event in events:
                if self._unconfirmed:
                    self._unconfirmed.settle(event)
                # Not if an undo among them caused the whole log to be folded.
                if self._is_stale or event.seq > self.view.head:
                    self._fold(event)
                    folded = True
        finally:
            if folded and not self._is_stale:
                self.view.recount(self.counter, thinking=self.dialect.capabilities.plain_thinking, since=old_head)

    def _fold_log(self) -> LogView:
        """Fold the view from the whole log. Only the messages it shows are counted again."""
        view = fold_log(self.log.read, self.meter)
        view.recount(self.counter, thinking=self.dialect.capabilities.plain_thinking, since=0)
        return view

    # --- appending ------------------------------------------------------------------------------------------------

    def append(self, what: EventPayload | Callable[[int], EventPayload]) -> int:
        return self.append_all(lambda seq: (what(seq) if callable(what) else what,))

    async def append_async(self, what: EventPayload | Callable[[int], EventPayload], fold: RunFold) -> int:
        return await self.append_all_async(lambda seq: (what(seq) if callable(what) else what,), fold=fold)

    def append_all(self, make: MakePayloads, key: str = "") -> int:
        """Append events in one step, then fold them. Return the seq of the first.

        If someone else appended first, fold their events and try again after them. Nothing is appended if the log shows
        that it is stored: with the same key, or by an earlier try that failed without knowing that it had succeeded.
        """
        for _ in range(_MAX_APPEND_ATTEMPTS):
            first_seq = self._find_key(key, make) if key else None
            events, repeated = self._next_events(make)
            if first_seq is None and not (repeated and repeated.stored):
                try:
                    self.log.append(*events)
                except StaleHead:
                    self.refresh()
                    continue
                except BaseException as error:
                    if _is_uncertain(error):
                        self._note_failure(events, repeated)
                    raise
                if not self._unconfirmed:
                    for event in events:
                        self._fold(event)
                    return events[0].seq
                self._fold_own(events)
            return first_seq or self._confirm(events, repeated)
        raise _append_race_error()

    async def append_all_async(self, make: MakePayloads, key: str = "", fold: RunFold = run_fold) -> int:
        """`append_all` without blocking the event loop. `fold` runs the fold in a thread, at once or later."""
        for _ in range(_MAX_APPEND_ATTEMPTS):
            first_seq = await run_in_thread(self._find_key, key, make) if key else None
            events, repeated = self._next_events(make)
            if first_seq is None and not (repeated and repeated.stored):
                try:
                    ours = await self.log.append_async(*events)
                except StaleHead:
                    await run_read(self.refresh)
                    continue
                except BaseException as error:
                    if _is_uncertain(error):
                        self._note_failure(events, repeated)
                    raise
                if ours:
                    await fold(partial(self._fold_own, events))  # observers may write files
            return first_seq or self._confirm(events, repeated)
        raise _append_race_error()

    def _next_events(self, make: MakePayloads) -> tuple[Sequence[Event], UnconfirmedAppend | None]:
        """Return the events to append, and the failed append that they repeat."""
        seq = self.log.head + 1
        payloads = make(seq)
        if not self._unconfirmed and len(payloads) == 1:
            return (Event(seq, self.clock(), payloads[0]),), None
        repeated = self._unconfirmed.find_repeated(make, type(payloads[0])) if self._unconfirmed else None
        if repeated and (repeated.stored or (repeated.stored is None and repeated.first_seq == seq)):
            return repeated.events, repeated
        return [Event(seq + place, self.clock(), what) for place, what in enumerate(payloads)], repeated

    def _fold_own(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._unconfirmed:
                self._unconfirmed.settle(event)
            self._fold(event)

    def _note_failure(self, events: Sequence[Event], repeated: UnconfirmedAppend | None) -> None:
        self._unconfirmed = self._unconfirmed or UnconfirmedAppends()
        self._unconfirmed.note_failure(events, repeated)

    def _confirm(self, events: Sequence[Event], repeated: UnconfirmedAppend | None) -> int:
        if self._unconfirmed:
            self._unconfirmed.confirm(type(events[0].payload), repeated)
        return events[0].seq

    def _fold(self, event: Event) -> None:
        """Add an event that is in the log: also if the log cannot be read now, which a fold of all of it needs."""
        if not self._is_stale and event.seq > self.view.head:  # else whoever read the view meanwhile folded it
            try:
                self.view.fold(event)
            except RefoldNeeded:
                del self.view
                with suppress(TidegateError, OSError):  # whoever needs the view next tries again
                    self.view  # noqa: B018 - now, in this thread
        if self._first_seq_by_key is not None:
            self._note_key(event)
        for observe in self.observers:
            observe(event)

    # --- idempotency keys -----------------------------------------------------------------------------------------

    def _find_key(self, key: str, make: MakePayloads) -> int | None:
        """Return the seq of the first message that was added with this key; None if there is none."""
        if self._first_seq_by_key is None:
            self._first_seq_by_key = {}
            for event in self.log.read():
                self._note_key(event)
        first = self._first_seq_by_key.get(key)
        if first is None:
            return None
        new_payloads = [what for what in make(first) if not is_note(what, AnswerBirth)]
        old_payloads = [event.payload for event in islice(self.log.read(first), len(new_payloads))]
        if list(map(_encode_content, new_payloads)) != list(map(_encode_content, old_payloads)):
            raise BadInput(
                f"The key {key!r} was used before, for message m{first}, which has another content.",
                "Give each message a key of its own; nothing was added.",
            )
        return first

    def _note_key(self, event: Event) -> None:
        use = read_note(event.payload, KeyUsed)
        if self._first_seq_by_key is not None and use is not None:
            self._first_seq_by_key.setdefault(use.key, max(1, event.seq - use.messages))


GivenMessage = Mapping[str, object] | SdkModel | Message
"""A message as callers give it: in any provider's format, as an object of a provider's SDK, or our own."""


def make_encodable(message: Message) -> Message:
    """The message without halves of surrogate pairs, which one that no parser has seen may have."""
    try:
        encode_into_bytes(_ENCODER, message)
    except UnicodeEncodeError:
        return repair_message_texts(message)
    return message


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the line outside of the session's own code that called it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_back.f_globals.get("__name__")).startswith("tidegate.session."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level + 1)


def _parse_messages(messages: Sequence[GivenMessage], typed: bool | None) -> list[Message]:
    result: list[Message] = []
    for message in messages:
        result.extend(
            [normalize_message(message)] if isinstance(message, Message) else parse_any_message(to_plain_json(message))
        )
    return result if typed is None else [mark_texts(message, typed) for message in result]


class LiveConversation:
    """A session without a policy: its log, its view, and everything that only appends.

    `DataFolder.open_conversation` returns one, to read a stored session or to undo edits in it.
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
        view: LogView | None = None,
    ) -> None:
        self._live = LiveLog(log, model=model, dialect=dialect, counter=counter, meter=meter, clock=clock, view=view)
        self._shared_messages = 0
        self._birth = ""  # of an answer to the last request
        self._resources = ExitStack()
        self._calls = SerialCalls()

    def close(self) -> None:
        """Release the files and locks that were opened for this session. A session in memory has none."""
        self._resources.close()

    def call_on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the session is closed. The callback that was added last runs first."""
        self._resources.callback(callback)

    @property
    def log(self) -> Log:
        """The events of this session, oldest first. Only the session may append to it."""
        return self._live.log

    @property
    def view(self) -> View:
        """What the model sees now. Read it, but do not change it."""
        return self._live.view

    @property
    def model(self) -> str:
        """The name of the model, as it was given."""
        return self._live.model

    @property
    def dialect(self) -> Dialect:
        """The provider's message format."""
        return self._live.dialect

    @property
    def counter(self) -> TokenCounter:
        """The function that counts the tokens of a text for this model."""
        return self._live.counter

    @property
    def history(self) -> History:
        """Undo and redo, past requests, search, notes: everything about the log."""
        return self._live.history

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._calls.run(self.close)

    def add(self, *messages: GivenMessage, typed: bool | None = None, key: str = "") -> list[str]:
        """Append messages, all or none. Return their ids.

        A message may be a dictionary in the format of any provider, an object of the OpenAI, Anthropic or Gemini SDK
        (`reply.choices[0].message`), or a `Message`.

        `typed` says whether a person typed the texts of the user in them: False for files, tool output and anything
        else that must not lay down rules. Without it, rules are read with care (docs/policies.md).

        `key` is an idempotency key: messages that were added with it before, by any process, are not added again, and
        their ids are returned. Without a key, an `add` that raised can be repeated in this session before any other
        `add` succeeds: if the messages were stored after all, they are not stored twice.
        """
        new_messages = _parse_messages(messages, typed)
        self._warn_of_system(new_messages)
        try:
            return self._add_parsed(new_messages, key)
        except UnicodeEncodeError:  # half a surrogate pair, in a Message that no parser has seen
            return self._add_parsed(list(map(make_encodable, new_messages)), key)

    async def add_async(self, *messages: GivenMessage, typed: bool | None = None, key: str = "") -> list[str]:
        """`add` for async code. Sessions of one store that append at the same time share an fsync.

        If the task is cancelled while the messages are being stored, they are stored first.
        """
        new_messages = _parse_messages(messages, typed)
        self._warn_of_system(new_messages)
        try:
            return await self._calls.finish(self._add_parsed_async(new_messages, key))
        except UnicodeEncodeError:
            return await self._calls.finish(self._add_parsed_async(list(map(make_encodable, new_messages)), key))

    def _warn_of_system(self, messages: Sequence[Message]) -> None:
        if messages and messages[0].role == "system" and not (self.view.items or self.view.system):
            text = (
                "The first message has the role 'system'. In `add` it is taken for one that came in mid-conversation,"
                " and may leave the view. Give the system prompt as `Session(system=...)` or with `set_system`."
            )
            warn_caller(text, SystemMessageWarning)

    def _add_parsed(self, messages: Sequence[Message], key: str = "") -> list[str]:
        first = self._live.append_all(self._make_message_payloads(messages, key), key) if messages else 0
        return [f"m{seq}" for seq in range(first, first + len(messages))]

    async def _add_parsed_async(self, messages: Sequence[Message], key: str) -> list[str]:
        first = await self._live.append_all_async(self._make_message_payloads(messages, key), key) if messages else 0
        return [f"m{seq}" for seq in range(first, first + len(messages))]

    def _make_message_payloads(self, messages: Sequence[Message], key: str) -> MakePayloads:
        if key and (len(key) > _MAX_KEY_CHARS or repair_unicode(key) != key):
            raise BadInput(
                f"The key has {len(key):,} characters, or some that are not valid Unicode.",
                f"Give a key of at most {_MAX_KEY_CHARS} characters, such as a UUID.",
            )
        counter, thinking = self.counter, self.dialect.capabilities.plain_thinking
        answers = [message for message in messages if message.role == "assistant"]
        is_signed = len(answers) == 1 and has_signed_data(answers[0])
        births = [AnswerBirth(self._birth).pack()] if self._birth and is_signed else []
        sizes: list[tuple[Message, int]] = []
        for message in messages:
            visible = resolve_visibility(message)
            sizes.append((message, 0 if visible is None else count_message(visible, counter, thinking=thinking)))

        def make(first: int) -> Sequence[EventPayload]:
            payloads: list[EventPayload] = [
                MessageAdded(replace(message, id=f"m{seq}"), tokens)
                for seq, (message, tokens) in enumerate(sizes, first)
            ]
            if key:
                payloads.append(KeyUsed(len(messages), key).pack())
            return [*payloads, *births]

        return make

    async def record_async(self, usage: Mapping[str, object] | SdkModel | None) -> None:
        """`record` for async code."""
        await self._calls.run(self.record, usage)

    async def call_async(self, method: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call any other method of the session without blocking the event loop.

        For example: `await session.call_async(session.history.undo)`.
        """
        return await self._calls.run(method, *args, **kwargs)

    def set_system(self, text: str) -> None:
        """Change the system prompt. The provider's cached prefix is lost with it."""
        text = repair_unicode(text)
        if text != self.view.system:
            self._live.append(SystemSet(text, count_system(text, self.counter)).pack())

    def set_tools(self, tools: Sequence[Mapping[str, object] | Tool]) -> None:
        """Change the tool definitions. The provider's cached prefix is lost with it."""
        definitions = parse_tools(tools)
        if definitions != self.view.tools:
            self._live.append(ToolsSet(tuple(definitions), count_tools(definitions, self.counter)).pack())

    def record(self, usage: Mapping[str, object] | SdkModel | None) -> None:
        """Record the usage that the provider reported for the last request: `reply.usage`, or the same as a dictionary.

        None, which a provider returns if it counted nothing, is ignored. TypeError if it is not a usage report.
        """
        if usage is not None:
            plain = require_object(to_plain_json(usage), "The usage")
            if not is_usage(plain):
                fields = ", ".join(map(repr, list(plain)[:5]))
                examples = ", ".join(list_usage_fields())
                raise TypeError(
                    f"record() takes the usage of a reply, with fields such as {examples}. This has {fields[:200]}."
                    " Pass reply.usage, or None if there is none."
                )
            events = self.build_usage_events(plain, self._live.last_request)
            self._live.append_all(lambda _: events)

    def build_usage_events(
        self, usage: Mapping[str, object], size: tuple[int, int]
    ) -> tuple[UsageReported | NoteAdded, ...]:
        """The events for a provider's report: the usage of the request, and what a compaction by the provider cost.

        `measured` is the head of the log and our count for that request.
        """
        read, compaction = read_usage(usage), read_compaction_usage(usage)
        fields = (self.model, *size, *read[:4], self._shared_messages)
        long = read.cache_write_1h
        report = HourWriteReported(*fields, long) if long else UsageReported(*fields)
        if compaction is None:
            return (report,)
        cost = SideCost(self.model, compaction, "compaction").pack()
        return (report, cost) if any(read) else (cost,)

    def recall(self, ident: str) -> Message:
        """Return a message as it was added, even if it is no longer in the view."""
        return recall_message(self.log, ident)
