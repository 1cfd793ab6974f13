"""One model call of a framework: its messages become a view that fits, and its answer is logged.

preparer = CallPreparer(format, "data", window=32_000)
call = preparer.prepare(preparer.threads.name("langchain", "thread-1"), messages)
call, answer = call.send(ask_model)   # with call.messages; again with fewer, if the provider refuses them
call.record(answer, usage)
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from threading import Lock
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar, Unpack

from tidegate.integrations.framework_notes import AskMessages, FrameworkNotes
from tidegate.integrations.host_messages import (
    RECHECKED,
    Copies,
    HostPiece,
    HostReader,
    MessageFormat,
    ViewWriter,
    write_view,
)
from tidegate.integrations.provider_errors import classify_exception
from tidegate.integrations.session_names import SessionName
from tidegate.integrations.threads import MAX_OPEN, ConversationPlace, DataLocation, SessionSettings, ThreadSessions
from tidegate.models.errors.classification import ProviderError
from tidegate.models.window_evidence import WindowKey
from tidegate.session.following import FixedPart, FollowedRequest, FollowingSession
from tidegate.session.refusals import RefusalMemory
from tidegate.session.request_report import report_request
from tidegate.session.state_notes import WriteTask
from tidegate.wire.answers import read_usage
from tidegate.wire.splicing.memo import ReadMemo

HostObject = TypeVar("HostObject")
_T = TypeVar("_T")


class AdapterSettings(SessionSettings, total=False):
    """The settings of an adapter: those of `ThreadSessions`, and `summarize`.

    With `summarize`, the agent's own model writes state notes (docs/state-notes.md), or the summaries of a policy that
    asks for its own (such as "ai").
    """

    summarize: bool


class CallContext(TypedDict, Generic[HostObject], total=False):
    """What an adapter knows of a call beside its messages.

    `copies` is for a framework that copies its messages for each call. `run` is the run or agent that makes the call:
    all of its calls are in one session, and `CallPreparer.recall` reads the conversation of its last call. `max_output`
    is the longest answer that the framework asks for, in tokens. `upstream` is where the model is
    (`describe_upstream`).
    """

    model: str
    fixed_part: FixedPart
    copies: Copies[HostObject]
    run: Hashable
    max_output: int
    upstream: str


class PreparedCall(NamedTuple, Generic[HostObject]):
    """The messages to send with one call, and what is needed to record its answer. `session` is its session's name.

    `refusals`, `window_key` and `max_output` are for what a refusal teaches. `ask` puts a question to the model, if it
    writes state notes. `first_error`: this call is much smaller than one that was refused with it, in unknown words.
    """

    session: str
    messages: list[HostObject]
    hosts: Sequence[HostObject]
    request: FollowedRequest[HostPiece]
    following: FollowingSession[HostPiece]
    form: MessageFormat[HostObject]
    refusals: RefusalMemory
    window_key: WindowKey
    max_output: int
    notes: FrameworkNotes[HostObject]
    lock: Lock
    ask: AskMessages[HostObject] | None = None
    first_error: BaseException | None = None

    @property
    def place(self) -> ConversationPlace:
        """Where the conversation is, for recall."""
        return ConversationPlace(self.session, self.request.last_id)

    def record(self, answer: HostObject | None, usage: Mapping[str, object] | None = None) -> None:
        """Log the answer, if it is known already, and its usage (`make_usage`)."""
        message = None if answer is None else self.form.read(answer)[0].message
        self.following.record_reply(self.request, message, usage)
        self.refusals.take_accepted(self.following, self.request, self.window_key, read_usage(usage or {}).input_tokens)

    def write_note_if_due(self, *, turn_ended: bool = False) -> None:
        """Have the model write a state note beside the agent's work, if one is due. Call it after `record`."""
        self._start_note(self._take_note_task(turn_ended))

    def _take_note_task(self, turn_ended: bool) -> WriteTask | None:
        if self.ask is None:
            return None
        with self.lock:
            session, last_id = self.following.session, self.request.last_id
            return self.notes.take_task(self.session, session, last_id, turn_ended=turn_ended)

    def _start_note(self, task: WriteTask | None) -> None:
        if task is not None and self.ask is not None:
            self.notes.start(self.session, self.following.session, task, self.messages, self.ask)

    def _write(self, request: FollowedRequest[HostPiece]) -> "PreparedCall[HostObject]":
        return self._replace(messages=write_view(self.form, self.hosts, request), request=request)

    def answer_refusal(self, error: BaseException) -> "PreparedCall[HostObject] | None":
        """The call to make instead, if that may be accepted; else None: `first_error` is raised, if there is one."""
        retry = self.change(classify_exception(error, self.request))
        return retry and retry._replace(first_error=error if retry.request.tried else None)

    def change(self, refusal: ProviderError) -> "PreparedCall[HostObject] | None":
        """The same for an error that is classified already."""
        request = self.refusals.answer(self.following, self.request, refusal, self.window_key, self.max_output)
        return self._write(request) if request else None

    def send(self, ask: Callable[[list[HostObject]], _T]) -> "tuple[PreparedCall[HostObject], _T]":
        """Call `ask` with the messages; again with others, as long as it fails for their length or their thinking.

        Return the call that was answered, and the answer. The error of the last attempt is raised as it is; if that was
        a much smaller request, the error before it.
        """
        call = self
        while True:
            try:
                return call, ask(call.messages)
            except Exception as error:  # noqa: BLE001 - it is raised again
                retry, failure = call.answer_refusal(error), call.first_error or error
            if retry is None:
                raise failure
            call = retry

    async def send_async(
        self, ask: Callable[[list[HostObject]], Awaitable[_T]]
    ) -> "tuple[PreparedCall[HostObject], _T]":
        """The same for async code."""
        call = self
        while True:
            try:
                return call, await ask(call.messages)
            except Exception as error:  # noqa: BLE001 - it is raised again
                retry, failure = await asyncio.to_thread(call.answer_refusal, error), call.first_error or error
            if retry is None:
                raise failure
            call = retry

    async def record_async(self, answer: HostObject | None, usage: Mapping[str, object] | None = None) -> None:
        await asyncio.to_thread(self.record, answer, usage)

    async def write_note_if_due_async(self, *, turn_ended: bool = False) -> None:
        """The same for async code: the model is asked in the running event loop."""
        if self.ask is not None:
            self._start_note(await asyncio.to_thread(self._take_note_task, turn_ended))


class _Host(NamedTuple, Generic[HostObject]):
    """What is known of the list of a thread. A framework can make two calls for it at the same time."""

    reader: HostReader[HostObject]
    writer: ViewWriter[HostObject]
    memo: ReadMemo
    lock: Lock


class CallPreparer(Generic[HostObject]):
    """Makes the list of messages to send from the list that a framework has. `threads` has the sessions."""

    def __init__(
        self,
        form: MessageFormat[HostObject],
        data: DataLocation = None,
        *,
        summarize: bool = False,
        **settings: Unpack[SessionSettings],
    ) -> None:
        self.threads = ThreadSessions(data, **settings)
        self._form = form
        self._summarize = summarize
        self._notes = FrameworkNotes(form.insert)
        self._refusals = RefusalMemory()
        self._hosts: OrderedDict[Hashable, _Host[HostObject]] = OrderedDict()
        self._places: OrderedDict[Hashable, ConversationPlace] = OrderedDict()  # of runs
        self._unanswered: OrderedDict[Hashable, PreparedCall[HostObject]] = OrderedDict()

    def prepare(
        self,
        name: SessionName,
        hosts: Sequence[HostObject],
        ask: AskMessages[HostObject] | None = None,
        **context: Unpack[CallContext[HostObject]],
    ) -> PreparedCall[HostObject]:
        """Log what is new in the framework's list, and return the list to send.

        `ask` sends messages as the framework sends these: to have state notes written.
        """
        return self._prepare(name, hosts, ask if self._summarize else None, context)

    async def prepare_async(
        self,
        name: SessionName,
        hosts: Sequence[HostObject],
        ask: AskMessages[HostObject] | None = None,
        **context: Unpack[CallContext[HostObject]],
    ) -> PreparedCall[HostObject]:
        """The same for async code. The work is done in a thread."""
        return await asyncio.to_thread(self._prepare, name, hosts, ask if self._summarize else None, context)

    def _prepare(
        self,
        name: SessionName,
        hosts: Sequence[HostObject],
        ask: AskMessages[HostObject] | None,
        context: CallContext[HostObject],
    ) -> PreparedCall[HostObject]:
        run, model, copies = context.get("run"), context.get("model", ""), context.get("copies")
        host = self._find_host(name, hosts, run)
        with host.lock:
            items = host.reader.read(hosts, copies)
            place = self._places.get(run) if run is not None else None
            if place is not None:
                session, following = place.session, self.threads.follow(place.session, model)
            else:
                session, following = self.threads.follow_list(name, items, model)
            key = WindowKey("", context.get("upstream", ""), model or following.session.model)
            self._refusals.apply(following, key)
            max_output = context.get("max_output", 0)
            self._notes.collect(session, following.session)
            request = following.prepare(items, fixed_part=context.get("fixed_part"), max_output=max_output)
            report_request(following, request, session)
            if copies is not None:
                host.reader.note_shown(request)
            messages = host.writer.write(hosts, request)
        refusal_facts = self._refusals, key, max_output
        call = PreparedCall(
            session, messages, hosts, request, following, self._form, *refusal_facts, self._notes, host.lock, ask
        )
        if run is not None:
            self._remember_place(run, call.place)
        return call

    def _remember_place(self, run: Hashable, place: ConversationPlace) -> None:
        self._places[run] = place
        self._places.move_to_end(run)
        while len(self._places) > MAX_OPEN:
            self._places.popitem(last=False)

    def recall(self, run: Hashable, what: str, offset: int = 0) -> str:
        """The answer of the recall tool in a run: from the messages of its last call."""
        return self.threads.recall_at(self._places.get(run), what, offset)

    async def recall_async(self, run: Hashable, what: str, offset: int = 0) -> str:
        """The same for async code."""
        return await self.threads.recall_at_async(self._places.get(run), what, offset)

    def resume(self, name: SessionName, hosts: Sequence[HostObject], run: Hashable) -> None:
        """Find the place of a run that has made no call yet in this process, by its messages."""
        place = None if run in self._places else self.threads.find_place(name, HostReader(self._form).read(hosts))
        if place is not None:
            self._remember_place(run, place)

    def _find_host(self, name: SessionName, hosts: Sequence[object], run: Hashable) -> _Host[HostObject]:
        """What is known of the list. That of another list does no harm: it is compared."""
        key = name.name or (id(hosts[0]) if run is None and hosts else run)
        new_host = _Host(HostReader(self._form), ViewWriter(self._form), ReadMemo(), Lock())
        host = self._hosts.setdefault(key, new_host)
        while len(self._hosts) > MAX_OPEN:
            self._hosts.popitem(last=False)
        return host

    def collect(
        self, name: SessionName, hosts: list[Any], find: Callable[[Any], Sequence[_T]], run: Hashable = None
    ) -> list[_T]:
        """What `find` returns for all messages. Only new ones are searched, and the last few: they may have changed."""

        def add_found(each: object, _: int, before: tuple[_T, ...] | None) -> tuple[_T, ...]:
            return (before or ()) + tuple(find(each))

        host = self._find_host(name, hosts, run)
        with host.lock:
            items = host.memo.read_items(hosts, add_found)
            older = items[-RECHECKED - 1] if len(items) > RECHECKED else ()
        return [*older, *(part for each in hosts[-RECHECKED:] for part in find(each))]

    def hold(self, key: Hashable, call: PreparedCall[HostObject]) -> None:
        """Keep a call until its answer is known, where a framework reports both separately."""
        self._unanswered[key] = call
        while len(self._unanswered) > MAX_OPEN:
            self._unanswered.popitem(last=False)

    def take(self, key: Hashable) -> PreparedCall[HostObject] | None:
        """The call that was kept under this key; None if there is none."""
        return self._unanswered.pop(key, None)


def make_usage(
    input_tokens: int | None, output_tokens: int | None, cache_read: int | None = 0, cache_write: int | None = 0
) -> dict[str, object]:
    """A usage report from counts of a framework, where `input_tokens` are all input tokens, cached or not.

    It is empty without input tokens: frameworks report 0 if the provider reported nothing.
    """
    if not input_tokens:
        return {}
    cache_read = min(cache_read or 0, input_tokens)
    cache_write = min(cache_write or 0, input_tokens - cache_read)
    return {
        "input_tokens": input_tokens - cache_read - cache_write,
        "output_tokens": output_tokens or 0,
        "cache_read_input_tokens": cache_read,
        "cache_creation_input_tokens": cache_write,
    }
