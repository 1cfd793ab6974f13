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
from tidegate.core.estimate import Estimate
from tidegate.core.events import Event
from tidegate.core.policy import Policy
from tidegate.core.secrets import Mask, keys_of
from tidegate.core.view import project
from tidegate.disk.folder import Folder, key_of
from tidegate.disk.writing import make_folder, not_kept
from tidegate.keep.files import Files
from tidegate.keep.retention import Removed, due, mark, retain, settle
from tidegate.keep.snapshots import Snapshots, keeper
from tidegate.keep.trace import Trace
from tidegate.memory.logs import Line, lines_of
from tidegate.memory.notes import Notes
from tidegate.memory.search import Search
from tidegate.presets import load
from tidegate.session.live import Live
from tidegate.session.past import sent_as
from tidegate.session.session import Session
from tidegate.store.blobs import Blobs
from tidegate.store.errors import Broken
from tidegate.store.kept import KeptLog
from tidegate.store.memory import check_fork, missing
from tidegate.store.open import open_store
from tidegate.store.store import Store
from tidegate.wire.tools import dialect_for

_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_FILE = 64 * 1024 * 1024


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
        self.folder = Path(folder)
        self.clock = clock
        self.store: Store = open_store(store or self.folder, clock) if isinstance(store, str) else store
        self.blobs = None if store else Blobs(self.folder / "blobs")
        self.mask = Mask(keys_of(os.environ) if secrets is None else secrets)
        self.notes = Notes(self.folder / "memory", mask=self.mask, clock=clock)
        self.snapshots = Snapshots(self.folder / "views", self.mask)
        self.retention = Folder(self.folder / "retention", max_file=10_000)
        self.removed: list[Removed] = []
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
        settle(self, name)
        closing = self.hold(name)
        try:
            mark(self, name, policy.retention)
            if due(self):
                self.removed += retain(self)
            session = self._opened(name, model, policy, restore, options)
        except BaseException:
            closing()
            raise
        session.on_close.insert(0, closing)  # the last to go
        return session

    def _opened(self, name: str, model: str, policy: Policy, restore: bool, options: dict[str, Any]) -> Session:
        key, log = key_of(name), self.log(name)
        known = log.head
        view = self.snapshots.load(key, log, policy.meter) if known else None
        options = {"carry": Files(self.files(name), self.notes, name, self.mask), "clock": self.clock, **options}
        session = Session(model, policy=policy, log=log, view=view, mask=self.mask, **options)
        session.note_model()
        trace = Trace(self.trace(name), name, self.mask)
        trace.follow(log)
        keep = keeper(session, self.snapshots, key, policy.meter)

        def watch(event: Event) -> None:
            trace(event)
            keep(event)

        session.watch = watch
        session.on_close.append(trace.close)
        if known and restore and policy.moments.get("restore"):
            session.restore()
        return session

    def look(self, name: str) -> Live:
        """A kept session without its policy: to look at, to undo in. Missing if there is none of this name."""
        log = self.log(name)
        if not log.head:
            raise missing(name)
        view = project(log.read)
        noted = sent_as(view.model_note)
        return Live(
            log,
            model=noted.model,
            dialect=dialect_for(noted.wire, noted.model),
            counter=Estimate(),
            meter=None,
            clock=self.clock,
            view=view,
        )

    def check_new(self, name: str) -> None:
        """BadInput if a new session may not have this name: files are named for it."""
        if self.mask(name) != name and not self.store.head(name):
            raise BadInput("The name of this session holds a secret.", "Give it another name: files are named for it.")

    def log(self, name: str) -> KeptLog:
        return KeptLog(self.store, name, self.blobs)

    def files(self, name: str) -> Folder:
        """Plain files of a session. What the view says of a file is its name in here."""
        return Folder(self.folder / f"sessions/{key_of(name)}", max_file=MAX_FILE)

    def trace(self, name: str) -> Path:
        return self.folder / f"traces/{key_of(name)}.jsonl"

    def fork(self, name: str, at: int, new: str) -> None:
        """A new session that begins as another was at `at`, with all that its view may name."""
        self.check_new(new)
        settle(self, new)
        with self.alone(new):
            check_fork(name, at, self.log(name).head, new, taken=self.store.head(new) > 0)
            if self.blobs is not None:
                self.blobs.claim(new, self.blobs.claims(name))
            source, target = self.files(name), self.files(new)
            for file in source.names():
                text = source.read(file)
                if text is not None:
                    target.update(file, lambda _, text=text: text)  # type: ignore[misc] # bound now
            self.store.fork(name, at, new)

    # --- who has what open ----------------------------------------------------------------------------------------

    def hold(self, name: str) -> Callable[[], None]:
        """Say that a session is in use, until the returned function is called or the process ends."""
        lock = self._lock(name, fcntl.LOCK_SH)
        if lock is None:
            raise NotKept(f"Session {name!r} is being removed.", "Try again in a moment.")
        return lambda: os.close(lock)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Nobody has the session open and nobody opens it meanwhile. BadInput if someone has."""
        lock = self._lock(name, fcntl.LOCK_EX)
        if lock is None:
            raise BadInput(f"Session {name!r} is in use.", "Close it first, in every program that has it open.")
        try:
            yield
        finally:
            os.close(lock)

    def in_use(self, name: str) -> bool:
        lock = self._lock(name, fcntl.LOCK_EX)
        if lock is not None:
            os.close(lock)
        return lock is None

    def _lock(self, name: str, kind: int) -> int | None:
        path = f"{self.folder}/locks/{key_of(name)}"
        try:
            try:
                lock = os.open(path, _LOCK, 0o600)
            except FileNotFoundError:
                make_folder(self.folder / "locks")
                lock = os.open(path, _LOCK, 0o600)
        except OSError as failure:
            raise not_kept("The lock of the session", failure) from failure
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    # --- memory ---------------------------------------------------------------------------------------------------

    def search(self) -> Search:
        """Search over the notes and over all logs, as they are when it is asked."""
        if self._search is None:
            self._search = Search(self.notes, self._lines, path=self.folder / "search.db", mask=self.mask)
        return self._search

    def _lines(self, read_to: Callable[[str], int]) -> Iterator[Line]:
        for info in self.store.sessions():
            known = read_to(info.name)
            if known > info.head:  # removed and begun anew
                yield Line(info.name, 0, "", afresh=True)
                known = 0
            if known < info.head:
                with suppress(Broken):  # the others are still found; `doctor` tells of this one
                    yield from lines_of(info.name, self.log(info.name).read(known + 1))

    def close_search(self) -> None:
        if self._search is not None:
            self._search.close()
            self._search = None

    def close(self) -> None:
        self.close_search()
        self.store.close()
