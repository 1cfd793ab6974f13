"""Group commit: appends of many threads and asyncio tasks share one transaction and one fsync.

If no commit is in progress and no event loop uses the store, a thread commits its append itself and waits for no other.
All other appends enter one queue. A worker thread commits the whole queue at once and wakes the threads and tasks that
wait. After a commit of several appends it waits a moment for as many again: otherwise the first caller to return would
commit alone, and the others would wait for a second fsync.

The queue is bounded: a thread has at most one append in it, and an event loop at most MAX_QUEUED; further tasks wait.
"""

from _thread import LockType
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, RLock, get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING

import msgspec

from tidegate.core.errors import NotKept

if TYPE_CHECKING:  # loaded by the first append that needs them: commands that only read are quicker without
    import asyncio
    from concurrent.futures import Executor

MAX_QUEUED = 1024
MAX_WAIT = 0.01
"""Seconds to wait at most for the callers of the last commit, and not longer than half the time that it took."""
MAX_WOKEN = 32
"""Tasks that are woken in one round of an event loop, so that it can do other work between them."""


class Append(msgspec.Struct):
    """An append that was not answered yet. `outcome` is the new head or an error; the caller waits for `wake`."""

    session: str
    after: int
    records: list[bytes]
    time: float
    outcome: int | BaseException | None = None
    wake: "LockType | asyncio.Future[None] | None" = None
    abandoned: bool = False
    """Whether its caller was interrupted or canceled: then it must not be written any more."""

    def result(self) -> int:
        if isinstance(self.outcome, int):
            return self.outcome
        raise self.outcome or AssertionError("an append was not settled")


class GroupCommit:
    """`write` gives every append an outcome. If it raises, those without one were not written."""

    def __init__(self, lock: RLock, write: Callable[[list[Append]], None]) -> None:
        self._lock = lock
        self._write = write
        self._queue: deque[Append] = deque()
        self._slots: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self._workers: list[Executor] = []  # the first commits; it is made when it is first needed
        self._closed = False
        self._working = False  # whether the worker will look into the queue again
        self._committer = 0  # the thread that commits its own append

    def __len__(self) -> int:
        """Return how many appends are in the queue."""
        return len(self._queue)

    def has_event_loop(self) -> bool:
        """Return whether an event loop uses this store: the appends of its tasks would wait for that of a thread."""
        return bool(self._slots) and any(not loop.is_closed() for loop in list(self._slots))

    def commit(self, append: Append) -> int:
        """Return the new head when it is committed, or raise why it was not."""
        if not (self._committer or self._working or self._queue or self.has_event_loop()):
            with self._lock:
                self._committer = get_ident()
                try:
                    self._write([append])
                finally:
                    self._committer = 0
            return append.result()
        if self._committer == get_ident():  # in the handler of a signal: the commit it interrupted cannot go on
            raise NotKept("This thread is in the middle of another append.", "Try again when that is done.")
        append.wake = turn = Lock()
        turn.acquire()
        self._queue.append(append)
        try:
            self._start_worker()
            turn.acquire()
        finally:
            append.abandoned = True
        return append.result()

    async def commit_async(self, append: Append) -> int:
        """The same for an asyncio task. If it is canceled during its commit, the append may still be written."""
        import asyncio  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        slots = self._slots.get(loop) or self._add_slots(loop)
        await slots.acquire()
        try:
            append.wake = future = loop.create_future()
            self._queue.append(append)
            if not self._working:
                loop.call_soon(self._start_worker)  # after all tasks that are ready now
            await future
        finally:
            append.abandoned = True
            slots.release()
        return append.result()

    def close(self) -> None:
        self._closed = True
        for worker in self._workers:
            worker.shutdown()

    def _add_slots(self, loop: "asyncio.AbstractEventLoop") -> "asyncio.Semaphore":
        import asyncio  # noqa: PLC0415

        for other in [each for each in list(self._slots) if each.is_closed()]:
            self._slots.pop(other, None)
        return self._slots.setdefault(loop, asyncio.Semaphore(MAX_QUEUED))

    def _start_worker(self) -> None:
        if self._queue and not self._working:
            try:
                self._get_worker().submit(self._work)
            # The store is closed, and says so to each of them; or the main thread has ended while others still write:
            # then the module of the worker cannot be imported any more, and this thread commits.
            except (RuntimeError, ImportError):
                self._work()

    def _get_worker(self) -> "Executor":
        if not self._workers:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

            if self._closed:
                raise RuntimeError("closed")
            self._workers.append(ThreadPoolExecutor(1, "tidegate-store"))  # of two threads, the first one's is used
        return self._workers[0]

    def _work(self) -> None:
        """Commit until the queue is empty. Appends that enter it while `_working` is set are committed, too."""
        while self._queue:
            self._working = True
            start = monotonic()
            count = self._commit_queue()
            deadline = monotonic() + min((monotonic() - start) / 2, MAX_WAIT)
            while count > 1 and len(self._queue) < count and monotonic() < deadline:
                sleep(MAX_WAIT / 50)
            self._working = False

    def _commit_queue(self) -> int:
        """Commit all waiting appends and return their number."""
        with self._lock:
            # Only now: appends that came while another thread was committing share this commit, and a caller that was
            # interrupted may already have looked whether its append was written.
            queued = [self._queue.popleft() for _ in range(len(self._queue))]
            waiting = [append for append in queued if not append.abandoned and not _is_cancelled(append)]
            try:
                if waiting:
                    self._write(waiting)
            except BaseException as fault:  # noqa: BLE001 - raised in those who wait
                for append in waiting:
                    append.outcome = fault if append.outcome is None else append.outcome
        loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for append in waiting:
            if isinstance(append.wake, LockType):
                append.wake.release()
            elif append.wake is not None:
                loops.setdefault(append.wake.get_loop(), []).append(append.wake)
        for loop, futures in loops.items():
            with suppress(RuntimeError):  # the loop is closed, so no task waits any more
                loop.call_soon_threadsafe(_resolve, loop, futures)
        return len(waiting)


def _is_cancelled(append: Append) -> bool:
    return append.wake is not None and not isinstance(append.wake, LockType) and append.wake.cancelled()


def _resolve(loop: "asyncio.AbstractEventLoop", futures: "list[asyncio.Future[None]]") -> None:
    for future in futures[:MAX_WOKEN]:
        if not future.done():
            future.set_result(None)
    if len(futures) > MAX_WOKEN:
        loop.call_soon(_resolve, loop, futures[MAX_WOKEN:])
