"""Group commit for the tasks of an event loop: what many of them append meanwhile shares one transaction.

No thread waits for each of them: those who come while a commit is under way go together with the next one, and the loop
is free all the time.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from weakref import WeakKeyDictionary, ref

from tidegate.core.errors import BadInput
from tidegate.store.sqlite_line import Pending

Place = tuple[Pending, "asyncio.Future[int | None]"]
"""In the line: what is to be written, and who is told."""


Commit = Callable[[Sequence[Pending]], None]


class Loops:
    """The tasks of a store, by their event loops, and the one thread that writes for all of them."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._tasks: WeakKeyDictionary[asyncio.AbstractEventLoop, Tasks] = WeakKeyDictionary()
        self._latest: Tasks | None = None  # mostly there is one loop

    def of(self, loop: asyncio.AbstractEventLoop) -> "Tasks":
        tasks = self._latest
        if tasks is None or tasks.loop() is not loop:
            with self._lock:
                self._pool = self._pool or ThreadPoolExecutor(1, "tidegate-store")
                tasks = self._tasks.get(loop)
                if tasks is None:
                    tasks = self._tasks[loop] = Tasks(loop, self._commit, self._pool)
                self._latest = tasks
        return tasks

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class Tasks:
    """Of one event loop. `commit` is called in a thread of the pool, with one batch at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, commit: Commit, pool: ThreadPoolExecutor) -> None:
        self.loop = ref(loop)
        self._commit = commit
        self._pool = pool
        self._waiting: list[Place] = []
        self._busy = False

    def through(self, mine: Pending, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[int | None]":
        """Done when `mine` has its outcome, with the new head if that is one. Cancelled while it is being written, it
        may be written all the same."""
        told: asyncio.Future[int | None] = loop.create_future()
        self._waiting.append((mine, told))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._go, loop)  # whoever is ready now comes along
        return told

    def _go(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = [place for place in self._waiting if not place[1].cancelled()]
        self._waiting = []
        if not batch:
            self._busy = False
            return
        try:
            self._pool.submit(self._work, batch, loop)
        except RuntimeError:  # the pool is shut down with the store
            for pending, _ in batch:
                pending.fail(BadInput(f"The store is closed (session {pending.session!r}).", "Open it again."))
            self._tell(batch, None)
            self._busy = False

    def _work(self, batch: list[Place], loop: asyncio.AbstractEventLoop) -> None:
        """In a thread of the pool."""
        fault: BaseException | None = None
        try:
            self._commit([pending for pending, _ in batch])
        except BaseException as raised:  # noqa: BLE001 - whoever has no outcome is told
            fault = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(self._done, batch, fault, loop)

    def _done(self, batch: list[Place], fault: BaseException | None, loop: asyncio.AbstractEventLoop) -> None:
        self._tell(batch, fault)
        self._go(loop)

    def _tell(self, batch: list[Place], fault: BaseException | None) -> None:
        for pending, told in batch:
            if told.cancelled():
                continue
            fate = pending.fate
            if fate is None or not fate.known:
                told.set_exception(fault or RuntimeError("the commit ended without an outcome"))
            else:
                outcome = fate.outcomes[pending.place]
                told.set_result(outcome if isinstance(outcome, int) else None)
