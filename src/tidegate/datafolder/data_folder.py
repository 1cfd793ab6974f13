"""The data folder: everything that is kept, in one place, and the way to open a session from it.

    data = DataFolder("data")
    with data.open("build-fix", "gpt-4o") as session:
        session.add(...)

    tidegate.db   the logs            search.db   full-text index        memory/    notes for people and agents
    blobs/        large records       sessions/   files a policy asked for, per session
    traces/       what happened       views/      snapshots               locks/     who has what open
                                      retention/  which sessions leave, and when

Only the logs, the blobs, the notes and the files are truth. Trace, snapshots and index are made again from them.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tidegate.core.errors import BadInput, NotKept
from tidegate.core.events import Event
from tidegate.core.policy.policy import Policy
from tidegate.core.text.secrets import SecretMask, keys_of
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.core.view import fold_log
from tidegate.datafolder.effects import DataFolderEffects
from tidegate.datafolder.retention import (
    RemovedSession,
    finish_removal,
    is_retention_due,
    remove_expired_sessions,
    set_retention,
)
from tidegate.datafolder.snapshots import Snapshots, make_snapshot_watcher
from tidegate.datafolder.trace.writer import Trace
from tidegate.disk.atomic_files import make_folder, make_write_error
from tidegate.disk.folder import Folder, session_file_key
from tidegate.memory.log_lines import LogLine, extract_log_lines
from tidegate.memory.notes import Notes
from tidegate.memory.search import Search
from tidegate.presets import load
from tidegate.session.conversation import LiveConversation
from tidegate.session.request import parse_model_note
from tidegate.session.session import Session
from tidegate.store.blobs import Blobs
from tidegate.store.errors import DamagedData
from tidegate.store.memory import check_fork_request, session_not_found
from tidegate.store.open import open_store
from tidegate.store.session_log import KeptLog
from tidegate.store.store import Store
from tidegate.wire.registry import resolve_dialect

_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_FILE_BYTES = 64 * 1024 * 1024


class DataFolder:
    """`store` is another place for the logs (a URL); large records then stay in them, for other hosts to read.

    `secrets` are values that are masked in everything but the logs; without them those of the environment.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        store: str | Store = "",
        secrets: list[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = Path(folder)
        self.clock = clock
        self.store: Store = open_store(store or self.root, clock) if isinstance(store, str) else store
        self.blobs = None if store else Blobs(self.root / "blobs")
        self.mask = SecretMask(keys_of(os.environ) if secrets is None else secrets)
        self.notes = Notes(self.root / "memory", mask=self.mask, clock=clock)
        self.snapshots = Snapshots(self.root / "views", self.mask)
        self.retention_folder = Folder(self.root / "retention", max_file=10_000)
        self.removed_sessions: list[RemovedSession] = []
        """What retention removed since this folder was opened."""
        self._search: Search | None = None

    # --- sessions -------------------------------------------------------------------------------------------------

    def open(
        self, name: str, model: str = "", *, policy: str | Policy = "default", restore: bool = True, **options: Any
    ) -> Session:
        """Open a session, new or kept, as its policy restores it. Close it, or let it end with the process.

        Without `restore` it goes on as it was: only its model or its policy is another. The options are those of
        `Session`.
        """
        policy = load(policy) if isinstance(policy, str) else policy
        self.check_new(name)
        finish_removal(self, name)
        closing = self.hold_session(name)
        try:
            set_retention(self, name, policy.retention)
            if is_retention_due(self):
                self.removed_sessions += remove_expired_sessions(self)
            session = self._open_session(name, model, policy, restore, options)
        except BaseException:
            closing()
            raise
        session.on_close.insert(0, closing)  # the last to go
        return session

    def _open_session(self, name: str, model: str, policy: Policy, restore: bool, options: dict[str, Any]) -> Session:
        key, log = session_file_key(name), self.open_log(name)
        known = log.head
        view = self.snapshots.load(key, log, policy.meter) if known else None
        options = {
            "carry": DataFolderEffects(self.session_files(name), self.notes, name, self.mask),
            "clock": self.clock,
            **options,
        }
        session = Session(model, policy=policy, log=log, view=view, mask=self.mask, **options)
        session.record_model()
        trace = Trace(self.trace_path(name), name, self.mask)
        trace.append_missing(log)
        keep = make_snapshot_watcher(session, self.snapshots, key, policy.meter)

        def watch(event: Event) -> None:
            trace(event)
            keep(event)

        session.on_event = watch
        session.on_close.append(trace.close)
        if known and restore and policy.moments.get("restore"):
            session.run_restore_rules()
        return session

    def open_conversation(self, name: str) -> LiveConversation:
        """A kept session without its policy: to look at, to undo in. Missing if there is none of this name."""
        log = self.open_log(name)
        if not log.head:
            raise session_not_found(name)
        view = fold_log(log.read)
        noted = parse_model_note(view.model_note)
        return LiveConversation(
            log,
            model=noted.model,
            dialect=resolve_dialect(noted.wire, noted.model),
            counter=TokenEstimator(),
            meter=None,
            clock=self.clock,
            view=view,
        )

    def check_new(self, name: str) -> None:
        """BadInput if a new session may not have this name: files are named for it."""
        if self.mask(name) != name and not self.store.head(name):
            raise BadInput("The name of this session holds a secret.", "Give it another name: files are named for it.")

    def open_log(self, name: str) -> KeptLog:
        return KeptLog(self.store, name, self.blobs)

    def session_files(self, name: str) -> Folder:
        """Plain files of a session. What the view says of a file is its name in here."""
        return Folder(self.root / f"sessions/{session_file_key(name)}", max_file=_MAX_FILE_BYTES)

    def trace_path(self, name: str) -> Path:
        return self.root / f"traces/{session_file_key(name)}.jsonl"

    def fork(self, name: str, at: int, new: str) -> None:
        """A new session that begins as another was at `at`, with all that its view may name."""
        self.check_new(new)
        finish_removal(self, new)
        with self.lock_session(new):
            check_fork_request(name, at, self.open_log(name).head, new, taken=self.store.head(new) > 0)
            if self.blobs is not None:
                self.blobs.set_claims(new, self.blobs.claimed_by(name))
            source, target = self.session_files(name), self.session_files(new)
            for file in source.names():
                text = source.read(file)
                if text is not None:
                    target.update(file, lambda _, text=text: text)  # type: ignore[misc] # bound now
            self.store.fork(name, at, new)

    # --- who has what open ----------------------------------------------------------------------------------------

    def hold_session(self, name: str) -> Callable[[], None]:
        """Say that a session is in use, until the returned function is called or the process ends."""
        lock = self._lock(name, fcntl.LOCK_SH)
        if lock is None:
            raise NotKept(f"Session {name!r} is being removed.", "Try again in a moment.")
        return lambda: os.close(lock)

    @contextmanager
    def lock_session(self, name: str) -> Iterator[None]:
        """Nobody has the session open and nobody opens it meanwhile. BadInput if someone has."""
        lock = self._lock(name, fcntl.LOCK_EX)
        if lock is None:
            raise BadInput(f"Session {name!r} is in use.", "Close it first, in every program that has it open.")
        try:
            yield
        finally:
            os.close(lock)

    def is_in_use(self, name: str) -> bool:
        lock = self._lock(name, fcntl.LOCK_EX)
        if lock is not None:
            os.close(lock)
        return lock is None

    def _lock(self, name: str, kind: int) -> int | None:
        path = f"{self.root}/locks/{session_file_key(name)}"
        try:
            try:
                lock = os.open(path, _LOCK_FLAGS, 0o600)
            except FileNotFoundError:
                make_folder(self.root / "locks")
                lock = os.open(path, _LOCK_FLAGS, 0o600)
        except OSError as failure:
            raise make_write_error("The lock of the session", failure) from failure
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    # --- memory ---------------------------------------------------------------------------------------------------

    def open_search(self) -> Search:
        """Search over the notes and over all logs, as they are when it is asked."""
        if self._search is None:
            self._search = Search(self.notes, self._read_log_lines, path=self.root / "search.db", mask=self.mask)
        return self._search

    def _read_log_lines(self, read_to: Callable[[str], int]) -> Iterator[LogLine]:
        for info in self.store.sessions():
            known = read_to(info.name)
            if known > info.head:  # removed and begun anew
                yield LogLine(info.name, 0, "", reindex=True)
                known = 0
            if known < info.head:
                with suppress(DamagedData):  # the others are still found; `doctor` tells of this one
                    yield from extract_log_lines(info.name, self.open_log(info.name).read(known + 1))

    def close_search(self) -> None:
        if self._search is not None:
            self._search.close()
            self._search = None

    def close(self) -> None:
        self.close_search()
        self.store.close()
