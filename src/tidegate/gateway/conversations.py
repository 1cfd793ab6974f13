"""The sessions that are open in this gateway, and what a client continues that others began.

Sessions are opened and closed in threads, never on the event loop.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.events import Event
from tidegate.core.messages import Message
from tidegate.core.notes import ClientNote
from tidegate.core.sweep.reading import is_sweep_near, read_ahead
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.masking import MaskedLog
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.page import SessionActivity
from tidegate.gateway.settings import ContinuedSession, GatewaySettings
from tidegate.gateway.store_gate import StoreGate
from tidegate.presets import load
from tidegate.session.continuation import Continuation, ContinuedRun
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.following import FollowingSession
from tidegate.session.serial_calls import run_in_thread
from tidegate.store.log import LogReader
from tidegate.wire.splicing.units import HostUnit

MakeWatcher = Callable[[str], Callable[[Event], None]]


class Conversation:
    """An open session of a client. `users` counts the requests that are using it now.

    `parent` is the session of the agent that started this one. `hidden_messages` are those of the log that the client
    does not know, as far as they were needed. `own_limit` is a window that counts for this conversation only, with the
    time when the upstream named it. `is_found`: the session was found by its messages, and may have branches of other
    conversations that begin alike. `mask_unseen`, if it is set, masks what other clients said in a log: this client's
    provider may not have seen it.
    """

    def __init__(self, name: str, dialect: str, following: FollowingSession[HostUnit]) -> None:
        self.name = name
        self.dialect = dialect
        self.following = following
        self.parent = ""
        self.hidden_messages: dict[str, Message] = {}
        self.own_limit: tuple[int, float] = (0, 0.0)
        self.is_found = False
        self.mask_unseen: Callable[[LogReader], LogReader] | None = None
        self.users = 0
        session = following.session
        self.model, self.recovery = session.model, session.recovery
        self.opened_window = None if session.window_is_assumed else session.window

    def open_recalled_log(self, last_id: str) -> LogReader:
        """What a model may recall whose request ends with this message of the log."""
        session = self.following.session
        if self.mask_unseen is not None:
            return self.mask_unseen(session.log)
        if not self.is_found:
            return session.log
        return ConversationLog(session.log, last_id, session.history.recall_index.read_branch_points())

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the session open within this context."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1


class Conversations:
    """`make_watcher`, called with the name of a session that is opened, returns what is to see its events."""

    def __init__(
        self,
        data: DataFolder,
        settings: GatewaySettings,
        gate: StoreGate,
        metrics: Metrics,
        activity: SessionActivity,
        make_watcher: MakeWatcher | None = None,
    ) -> None:
        self._data = data
        self._gate = gate
        self._make_watcher = make_watcher
        self._activity = activity
        activity.list_running = self._list_running
        self._settings = settings
        self._metrics = metrics
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._moving: dict[str, asyncio.Task[None]] = {}  # sessions that are being opened or closed
        self._reading: set[asyncio.Task[None]] = set()

    def find_open(self, name: str) -> Conversation | None:
        return self._open.get(name)

    async def exists(self, name: str) -> bool:
        return name in self._open or await self._gate.run(self._data.store.head, name) > 0

    async def get(self, name: str, model: str, dialect: str, client: str, window: int | None) -> Conversation:
        """The session with this name; it is opened or created if need be. Use it before the next `await`."""
        while True:
            if (moving := self._moving.get(name)) is not None:
                await self._gate.wait(asyncio.shield, moving)
                continue
            conversation = self._open.get(name)
            if conversation is not None and (
                conversation.users or (conversation.model == model and conversation.dialect == dialect)
            ):
                self._open.move_to_end(name)
                return conversation
            if conversation is not None:
                self._start_closing(name)
                continue
            await self._gate.require()
            self._moving[name] = asyncio.create_task(self._open_session(name, model, dialect, client, window))

    async def _open_session(self, name: str, model: str, dialect: str, client: str, window: int | None) -> None:
        try:
            self._open[name] = await run_in_thread(self._make, name, model, dialect, client, window)
        finally:
            self._moving.pop(name, None)
        self._close_idle()

    def _make(self, name: str, model: str, dialect: str, client: str, window: int | None) -> Conversation:
        settings = self._settings
        policy = load(settings.policy_for(model, client))
        if settings.retention_days:
            policy = msgspec.structs.replace(policy, retention=settings.retention_days)
        session = self._data.open(
            name, model, policy=policy, window=window, wire=dialect, restore=False, live_trace=False
        )
        session.history.observe(partial(self._activity.note_change, name))
        if self._make_watcher is not None:
            session.history.observe(self._make_watcher(name))
        return Conversation(name, dialect, FollowingSession(session))

    def start_reading_ahead(self, conversation: Conversation) -> None:
        """After an answer: read in the background what the next sweep needs, unless a request uses the session."""
        task = asyncio.create_task(self._read_ahead(conversation))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_ahead(self, conversation: Conversation) -> None:
        session = conversation.following.session
        if self._open.get(conversation.name) is not conversation or conversation.users:
            return
        try:
            room = session.budget.held_room
            if is_sweep_near(session.view, room):
                count = await session.call_async(lambda: read_ahead(session.view, room))
                self._metrics.count("groups_read_ahead", count)
        except Exception:  # noqa: BLE001 - nobody waits for this task, and the sweep reads what it lacks
            self._metrics.count("failed_readings")

    def _list_running(self) -> set[str]:
        return {name for name, conversation in self._open.copy().items() if conversation.users}

    def _close_idle(self) -> None:
        """Close the sessions that were not used for the longest time. What is open never grows without bound."""
        surplus = len(self._open) - self._settings.open_sessions
        for name in list(self._open)[:-1] if surplus > 0 else ():
            if surplus <= 0:
                break
            if not self._open[name].users:
                self._start_closing(name)
                surplus -= 1
        self._metrics.open_sessions = len(self._open)

    def _start_closing(self, name: str) -> None:
        conversation = self._open.pop(name)

        async def close() -> None:
            try:
                await run_in_thread(conversation.following.session.close)
            except (TidegateError, OSError):  # nothing that was acknowledged depends on it
                self._metrics.count("unclosed_sessions")
            finally:
                self._moving.pop(name, None)

        self._moving[name] = asyncio.create_task(close())

    def drop(self, conversation: Conversation) -> None:
        """Close a session that another worker has removed."""
        if self._open.get(conversation.name) is conversation:
            self._start_closing(conversation.name)

    async def close(self) -> list[TidegateError]:
        """Close every session. Return what went wrong: nothing that was acknowledged depends on it."""
        await asyncio.gather(*self._moving.values(), *self._reading, return_exceptions=True)
        conversations = list(self._open.values())
        self._open.clear()

        def close_all() -> list[TidegateError]:
            failed: list[TidegateError] = []
            for conversation in conversations:
                try:
                    conversation.following.session.close()
                except TidegateError as failure:
                    failed.append(failure)
            return failed

        return await run_in_thread(close_all)


class SessionContinuation:
    """The one session of `tidegate wrap --session`, which another client may have begun (`session/continuation.py`).

    `mask` takes out secrets; `report` gets what the user should know."""

    def __init__(self, continued: ContinuedSession, mask: Callable[[str], str], report: Callable[[str], None]) -> None:
        self._session = continued.session
        self._mask = mask
        client = ClientNote(continued.client, continued.title)
        run = ContinuedRun(client, continued.session, continued.source, mask, continued.lines, continued.needs_tools)
        self._continuation = Continuation(run, report)

    def attach(self, conversation: Conversation, own_id: str) -> None:
        """Let the conversation begin with the work so far, if it is the one. Sub-agents have sessions of their own.

        `own_id` is how the client itself names the conversation of the request.
        """
        if conversation.name == self._session:
            self._continuation.name_conversation(own_id)
            conversation.following.continuation = self._continuation
            conversation.mask_unseen = self._mask_unseen

    def _mask_unseen(self, log: LogReader) -> LogReader:
        return MaskedLog(log, self._mask, lambda seq: self._continuation.is_own(log, seq))
