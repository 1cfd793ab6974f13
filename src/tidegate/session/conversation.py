"""A log and its view, updated together: every change is appended to the log first and then folded into the view."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

import msgspec

from tidegate.core.errors import GiveUp
from tidegate.core.events import Event, EventPayload, MessageAdded, NoteAdded, UsageReported
from tidegate.core.messages import Message, Tool, mark_texts
from tidegate.core.tokens.counting import REQUEST_OVERHEAD, TokenCounter, count_message, count_system, count_tools
from tidegate.core.view import Meter, RefoldNeeded, View, fold_log, resolve_visibility
from tidegate.session.history import History
from tidegate.session.recall import recall_message
from tidegate.session.serial_calls import SerialCalls
from tidegate.store.errors import StaleHead
from tidegate.store.log import Log
from tidegate.wire.dialect import Dialect
from tidegate.wire.parsing import (
    normalize_message,
    repair_message_texts,
    repair_unicode,
    require_object,
)
from tidegate.wire.registry import parse_any_message, parse_tools
from tidegate.wire.sdk_objects import SdkModel, to_plain_json
from tidegate.wire.usage import read_usage

_MAX_APPEND_ATTEMPTS = 100
_P = ParamSpec("_P")
_T = TypeVar("_T")


def _append_race_error() -> GiveUp:
    return GiveUp(
        f"Others were faster {_MAX_APPEND_ATTEMPTS} times in a row in appending to this session.",
        "Try again in a moment.",
    )


GivenMessage = Mapping[str, object] | SdkModel | Message
"""A message as callers give it: in any provider's format, as an object of a provider's SDK, or our own."""


def _parse_messages(messages: Sequence[GivenMessage], typed: bool | None) -> list[Message]:
    parsed: list[Message] = []
    for message in messages:
        parsed.extend(
            [normalize_message(message)] if isinstance(message, Message) else parse_any_message(to_plain_json(message))
        )
    return parsed if typed is None else [mark_texts(message, typed) for message in parsed]


class LiveConversation:
    """A session without a policy: its log, its view, and everything that only appends.

    `DataFolder.open_conversation` returns one, to read a stored session or to undo edits in it. `view` may be a
    snapshot, folded up to some seq: the rest of the log is folded into it.
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
        self._log = log
        self._model = model
        self._dialect = dialect
        self._counter = counter
        self._meter = meter
        self._clock = clock
        self._last_request = (0, 0)
        self._shared_messages = 0
        self._observers: list[Callable[[Event], None]] = []
        self._resources = ExitStack()
        self._calls = SerialCalls()
        self._history = History(log, self._append, self._refresh, self._observers)
        self._view: View = self._fold_log() if view is None else view
        if view is not None:
            view.recount(counter, thinking=dialect.sends_thinking)
            self._fold_all(log.read(view.head + 1))

    def close(self) -> None:
        """Release the files and locks that were opened for this session. A session in memory has none."""
        self._resources.close()

    def call_on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the session is closed. The callback that was added last runs first."""
        self._resources.callback(callback)

    @property
    def log(self) -> Log:
        """The events of this session, oldest first. Only the session may append to it."""
        return self._log

    @property
    def view(self) -> View:
        """What the model sees now. Read it, but do not change it."""
        return self._view

    @property
    def model(self) -> str:
        """The name of the model, as it was given."""
        return self._model

    @property
    def dialect(self) -> Dialect:
        """The provider's message format."""
        return self._dialect

    @property
    def counter(self) -> TokenCounter:
        """The function that counts the tokens of a text for this model."""
        return self._counter

    @property
    def history(self) -> History:
        """Undo and redo, past requests, search, notes: everything about the log."""
        return self._history

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

    def add(self, *messages: GivenMessage, typed: bool | None = None) -> list[str]:
        """Append messages. Return their ids. All are parsed before the first is stored.

        A message may be a dictionary in the format of any provider, an object of the OpenAI, Anthropic or Gemini SDK
        (`reply.choices[0].message`), or a `Message`.

        `typed` says whether a person typed the texts of the user in them: False for files, tool output and anything
        else that must not lay down rules. Without it, rules are read with care (docs/policies.md).
        """
        return [self._append_message(message) for message in _parse_messages(messages, typed)]

    async def add_async(self, *messages: GivenMessage, typed: bool | None = None) -> list[str]:
        """`add` for async code. Sessions of one store that append at the same time share an fsync.

        If the task is cancelled, the message that is being stored is stored first; the messages after it are not.
        """
        return [
            await self._calls.finish(self._append_message_async(message))
            for message in _parse_messages(messages, typed)
        ]

    def _append_message(self, message: Message) -> str:
        try:
            return f"m{self._append(self._message_payload(message))}"
        except UnicodeEncodeError:  # half a surrogate pair, in a Message that no parser has seen
            return f"m{self._append(self._message_payload(repair_message_texts(message)))}"

    async def _append_message_async(self, message: Message) -> str:
        try:
            return f"m{await self._append_async(self._message_payload(message))}"
        except UnicodeEncodeError:
            return f"m{await self._append_async(self._message_payload(repair_message_texts(message)))}"

    def _message_payload(self, message: Message) -> Callable[[int], MessageAdded]:
        seen = resolve_visibility(message)
        tokens = 0 if seen is None else count_message(seen, self.counter, thinking=self.dialect.sends_thinking)
        return lambda seq: MessageAdded(msgspec.structs.replace(message, id=f"m{seq}"), tokens)

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
            self._append(NoteAdded("system", text, count_system(text, self.counter)))

    def set_tools(self, tools: Sequence[Mapping[str, object] | Tool]) -> None:
        """Change the tool definitions. The provider's cached prefix is lost with it."""
        parsed = parse_tools(tools)
        if parsed != self.view.tools:
            text = msgspec.json.encode(parsed).decode()
            self._append(NoteAdded("tools", text, count_tools(parsed, self.counter)))

    def record(self, usage: Mapping[str, object] | SdkModel | None) -> None:
        """Record the usage that the provider reported for the last request: `reply.usage`, or the same as a dictionary.

        None, which a provider returns if it counted nothing, is ignored.
        """
        if usage is None:
            return
        head, counted = self._last_request
        read = read_usage(require_object(to_plain_json(usage), "The usage"))
        self._append(
            UsageReported(
                self.model,
                head,
                counted,
                read.input_tokens,
                read.output_tokens,
                read.cache_read,
                read.cache_write,
                self._shared_messages,
            )
        )

    def _refresh(self) -> None:
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
                self._refresh()
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
                await asyncio.to_thread(self._refresh)
            else:
                if ours:
                    await asyncio.to_thread(self._fold, event)  # observers may write files
                return event.seq
        raise _append_race_error()

    def _next_event(self, what: EventPayload | Callable[[int], EventPayload]) -> Event:
        seq = self.log.head + 1
        return Event(seq, self._clock(), what(seq) if callable(what) else what)

    def _fold(self, event: Event) -> None:
        try:
            self.view.fold(event)
        except RefoldNeeded:
            self._view = self._fold_log()
        for observe in self._observers:
            observe(event)

    def _remember_request(self) -> None:
        """Remember our token count of this request, to compare it with the provider's report."""
        self._last_request = (self.log.head, self.view.fixed_tokens + REQUEST_OVERHEAD + self.view.tokens)

    def recall(self, ident: str) -> Message:
        """Return a message as it was added, even if it is no longer in the view."""
        return recall_message(self.log, ident)
