"""The data folder: everything tidegate stores, in one place, and the way to open a session from it.

    data = DataFolder("data")
    with data.open("build-fix", "gpt-4o") as session:
        session.add(...)

    tidegate.db   the logs              search.db      full-text index      memory/   notes for people and agents
    blobs/        large records         sessions/      files that policies wrote, per session
    traces/       one line per event    views/         snapshots            locks/    which sessions are open
    recall/       indices for recall
    retention/    when sessions expire  removed.jsonl  sessions that were removed
    unfinished/   changes that were begun and not completed

Traces, snapshots and the index are derived from the rest and can be rebuilt. With a store in PostgreSQL, only these and
copies of the files in `sessions/` are here; the rest is in the database, for all hosts (docs/team.md).
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from tidegate.core.errors import BadInput
from tidegate.core.log_fold import fold_log
from tidegate.core.outcome import Effect, Flush, Spill
from tidegate.core.policy.policy import Policy
from tidegate.core.text.secrets import SecretMask
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.datafolder.completion import complete_unfinished
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.removal import RemovedSession, finish_removal
from tidegate.datafolder.retention import is_retention_due, remove_expired_sessions, set_retention
from tidegate.datafolder.snapshots import make_snapshot_watcher
from tidegate.datafolder.trace.writer import Trace
from tidegate.datafolder.unfinished_changes import UnfinishedChange, begin_change, end_creation
from tidegate.disk.folder import CachedFolder, TextFolder, session_file_key
from tidegate.memory.notes import NoteEffects, Notes
from tidegate.presets import load
from tidegate.session.conversation import LiveConversation
from tidegate.session.request import parse_model_note
from tidegate.session.serial_calls import finish
from tidegate.session.session import Session
from tidegate.session.storage import SessionStorage
from tidegate.store.deferred_log import DeferredLog, call_when_stored
from tidegate.store.memory import check_fork_request, session_not_found
from tidegate.store.store import CachingStore, Store
from tidegate.wire.registry import resolve_dialect

_TRACE_INTERVAL: Final = 64
"""Events that are written at a time to a trace that is not live."""


class DataFolder(FolderContents):
    """The contents of a data folder, and the sessions that are opened from it. See `SessionLogs` for the options."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        store: str | Store = "",
        secrets: list[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(folder, store=store, secrets=secrets, clock=clock)
        self.removed_sessions: list[RemovedSession] = []
        """Sessions that retention removed since this folder was opened."""

    def open(
        self,
        name: str,
        model: str = "",
        *,
        policy: str | Policy = "default",
        restore: bool = True,
        live_trace: bool = True,
        trace_content: bool = False,
        keep_empty: bool = True,
        **options: Any,
    ) -> Session:
        """Open a new or stored session. Close it, or let it end with the process.

        A stored session is opened as its policy restores it. Without `restore` it continues as it was, with another
        model or policy if these are given. Without `live_trace` no file is made for its trace, which `tidegate trace`
        derives from the log; one that is there is brought up to date from time to time. With `trace_content` the trace
        has the text of messages, masked. Without `keep_empty` a new session is stored with its first message.
        `options` are those of `Session`.
        """
        policy = load(policy) if isinstance(policy, str) else policy
        self.check_new(name)
        complete_unfinished(self)
        finish_removal(self, name)
        with ExitStack() as on_failure:
            on_failure.enter_context(self.locks.hold(name))
            if is_retention_due(self):
                self.removed_sessions += remove_expired_sessions(self)
            is_known, session = self._make_session(name, model, policy, options, keep_empty=keep_empty)
            call_when_stored(session.log, partial(set_retention, self, name, policy.retention))
            session.call_on_close(on_failure.pop_all().close)
            if isinstance(self.store, CachingStore):
                session.call_on_close(partial(self.store.release, name))
            on_failure.callback(session.close)
            self._attach_observers(name, session, live_trace, trace_content)
            if is_known and restore and policy.moments.get("restore"):
                session.run_rules("restore")
            on_failure.pop_all()
        return session

    async def open_async(
        self, name: str, model: str = "", *, policy: str | Policy = "default", restore: bool = True, **options: Any
    ) -> Session:
        """`open` for async code. If the task is cancelled, the session is closed again."""
        sessions: list[Session] = []

        def act() -> Session:
            sessions.append(self.open(name, model, policy=policy, restore=restore, **options))
            return sessions[0]

        try:
            return await finish(asyncio.to_thread(act))
        except asyncio.CancelledError:
            for session in sessions:
                await finish(asyncio.to_thread(session.close))
            raise

    def _make_session(
        self, name: str, model: str, policy: Policy, options: dict[str, Any], *, keep_empty: bool
    ) -> tuple[bool, Session]:
        """Return whether the session was stored before, and the session."""
        key, log = session_file_key(name), self.open_log(name)
        is_known = log.head > 0
        files = self.session_files(name)
        if isinstance(files, CachedFolder):
            files.refresh_cache()  # another host may have written some
        storage = SessionStorage(
            log if is_known or keep_empty else DeferredLog(log),
            DataFolderEffects(files, self.notes, name, self.mask),
            self.mask,
            self.snapshots.load(key, log, policy.meter) if is_known else None,
        )
        session = Session(model, policy=policy.for_thread(key), log=storage, **{"clock": self.clock, **options})
        session.history.recall_index.save_to(self.recall_file(name), self.mask)
        return is_known, session

    def _attach_observers(self, name: str, session: Session, live_trace: bool, trace_content: bool) -> None:
        if live_trace or self.trace_path(name).exists():
            interval = 1 if live_trace else _TRACE_INTERVAL
            trace = Trace(self.trace_path(name), name, self.mask, interval=interval, content=trace_content)
            call_when_stored(session.log, partial(trace.append_missing, session.log))
            call_when_stored(session.log, partial(session.history.observe, trace))
            if not live_trace:
                session.call_on_close(partial(trace.append_missing, session.log))
        session.history.observe(partial(self.search_feed.add, name))
        session.call_on_close(partial(self.search_feed.finish, name))
        session.history.observe(
            make_snapshot_watcher(session, self.snapshots, session_file_key(name), session.policy.meter)
        )

    def open_conversation(self, name: str) -> LiveConversation:
        """Open a stored session without its policy, to read it or to undo edits. SessionNotFound if there is none."""
        log = self.open_log(name)
        if not log.head:
            raise session_not_found(name)
        view = fold_log(log.read)
        note = parse_model_note(view.model_note)
        return LiveConversation(
            log,
            model=note.model,
            dialect=resolve_dialect(note.wire, note.model),
            counter=TokenEstimator(),
            meter=None,
            clock=self.clock,
            view=view,
        )

    def fork(self, name: str, at: int, new: str) -> None:
        """Make the session `new` from the first `at` events of another, with the files and blobs that they refer to."""
        self.check_new(new)
        complete_unfinished(self)
        finish_removal(self, new)
        with self.locks.exclusive(new):
            check_fork_request(name, at, self.open_log(name).head, new, name_exists=self.store.head(new) > 0)
            begin_change(self, UnfinishedChange(new, "create"))
            if self.blobs is not None:
                self.blobs.set_claims(new, self.blobs.claimed_by(name))
            source, target = self.session_files(name), self.session_files(new)
            for file in source.names():
                text = source.read(file)
                if text is not None:
                    target.update(file, lambda _, text=text: text)  # type: ignore[misc] # bound now
            self.store.fork(name, at, new)
            end_creation(self, new)


_MAX_FILES_BYTES = 2 << 30
"""The most bytes that the files of one session may take together. The folder limits the size of one file."""


class DataFolderEffects:
    """Saves on disk what a policy wants saved before it leaves the view.

    A Spill becomes a plain file in the session's folder, under the path that the view mentions, where the agent's read
    tool opens it. A Flush becomes an entry of the day's note. Secrets are masked in both. If a write fails, this raises
    and the plan leaves the view unchanged. Both may be repeated: after a crash it is unknown whether the last attempt
    succeeded.
    """

    def __init__(
        self, folder: TextFolder, notes: Notes, session: str, mask: SecretMask, *, max_session: int = _MAX_FILES_BYTES
    ) -> None:
        self.folder = folder
        self.mask = mask
        self.max_total = max_session
        self._size: int | None = None
        self._note_effects = NoteEffects(notes, session)

    def __call__(self, effect: Effect) -> None:
        if isinstance(effect, Flush):
            self._note_effects(effect)
        else:
            self._write_spill(effect)

    def _write_spill(self, effect: Spill) -> None:
        """The sum of sizes is cached and computed again only before a refusal, because others may have changed the
        files.
        """
        if not effect.path:
            raise BadInput("A file needs a name.", "The policy's `folder` or `save` gives it.")
        text = self.mask(effect.text)
        size = len(text.encode("utf-8", "surrogateescape"))
        more = size if effect.append else size - self.folder.size(effect.path)
        if self._size is None or self._size + more > self.max_total:
            self._size = self.folder.size()
        if self._size + more > self.max_total:
            raise BadInput(
                f"The files of this session take {self._size:,} bytes; with {more:,} more they would be over"
                f" {self.max_total:,}. {effect.path} was not written.",
                "Remove files from its folder that are not needed, or raise max_session.",
            )
        is_new = self.folder.append(effect.path, text) if effect.append else self.folder.write(effect.path, text)
        if is_new:
            self._size += more
