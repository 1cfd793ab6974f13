"""Group commit: appends of many threads and asyncio tasks share one transaction and one fsync.

Every append enters one queue, and a commit takes all that is in it. A thread that finds nobody committing commits
itself: an append that is alone hands nothing over and waits for nobody. All others are committed by one worker thread,
which wakes the threads and tasks that wait. After a commit of several appends the worker waits a moment for as many
again: otherwise the first caller to return would commit alone, and the others wait for a second fsync.

The queue is bounded: a thread has at most one append in it, and an event loop at most MAX_QUEUED; further tasks wait
their turn. An append stays in the queue until it is over, so a thread that is interrupted while it commits leaves
nobody behind.
"""

import asyncio
from _thread import LockType
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, RLock, get_ident
from time import monotonic, sleep

import msgspec

from tidegate.core.errors import NotKept
from tidegate.store.sqlite.connection import Transaction

MAX_QUEUED = 1024
MAX_WAIT = 0.01
"""Seconds to wait for those who shared the last commit, at most; and not longer than half of what that took."""
_COMMITTED = Transaction(committed=True)


class Append(msgspec.Struct):
    """An append on its way. `abandoned`: its caller was interrupted or cancelled, so it must not be written any more."""

    session: str
    after: int
    records: list[bytes]
    time: float
    abandoned: bool = False
    wake: LockType | asyncio.Future[None] | None = None
    outcome: int | BaseException = 0
    transaction: Transaction | None = None

    def settle(self, outcome: int | BaseException, transaction: Transaction = _COMMITTED) -> None:
        """Set the new head, or why there is none. It counts once the transaction is committed."""
        self.outcome, self.transaction = outcome, transaction

    @property
    def is_settled(self) -> bool:
        return self.transaction is not None and self.transaction.committed

    @property
    def is_over(self) -> bool:
        return self.abandoned or self.is_settled


class GroupCommit:
    """`write` settles every append it is given. If it raises, those that are not settled were not written."""

    def __init__(self, lock: RLock, write: Callable[[list[Append]], None]) -> None:
        self._lock = lock
        self._write = write
        self._queue: deque[Append] = deque()
        self._slots: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self._worker = ThreadPoolExecutor(1, "tidegate-store")  # starts its thread when it is first needed
        self._working = False  # whether the worker will look into the queue again
        self._committer = 0  # the thread that is committing

    def __len__(self) -> int:
        """Return how many appends are in the queue."""
        return len(self._queue)

    def commit(self, append: Append) -> int:
        """Return the new head when it is committed, or raise why it was not."""
        if self._committer == get_ident():  # in the handler of a signal: the commit it interrupted cannot go on
            raise NotKept("This thread is in the middle of another append.", "Try again when that is done.")
        self._queue.append(append)
        try:
            if not (self._working or self._committer):
                with self._lock:
                    self._commit_queue()
            if not append.is_over:
                turn = Lock()
                turn.acquire()
                append.wake = turn
                if not append.is_over:  # else it was settled before there was someone to wake
                    self._start_worker()
                    turn.acquire()
        finally:
            append.abandoned = True
        return _result(append)

    async def commit_async(self, append: Append) -> int:
        """The same for a task. Cancelled during its commit, it may be written all the same."""
        loop = asyncio.get_running_loop()
        async with self._slots.get(loop) or self._add_slots(loop):
            append.wake = future = loop.create_future()
            self._queue.append(append)
            if not self._working:
                loop.call_soon(self._start_worker)  # after all tasks that are ready now
            try:
                await future
            finally:
                append.abandoned = True
        return _result(append)

    def close(self) -> None:
        self._worker.shutdown()

    def _add_slots(self, loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
        for other in [known for known in list(self._slots) if known.is_closed()]:
            self._slots.pop(other, None)
        return self._slots.setdefault(loop, asyncio.Semaphore(MAX_QUEUED))

    def _start_worker(self) -> None:
        if self._queue and not self._working:
            try:
                self._worker.submit(self._work)
            except RuntimeError:  # the store is closed, and says so to each of them
                self._work()

    def _work(self) -> None:
        """Commit until nobody comes any more. Whoever enters the queue while `_working` is set will be seen."""
        while self._queue:
            self._working = True
            begun = monotonic()
            with self._lock:
                try:
                    count = self._commit_queue()
                except BaseException as fault:  # noqa: BLE001 - raised in those who wait
                    for append in [each for each in list(self._queue) if not each.is_over]:
                        append.settle(fault)
                    count = self._commit_queue()
            deadline = monotonic() + min((monotonic() - begun) / 2, MAX_WAIT)
            while count > 1 and len(self._queue) < count and monotonic() < deadline:
                sleep(MAX_WAIT / 50)
            self._working = False

    def _commit_queue(self) -> int:
        """Commit all that wait, with the lock held; return how many. Interrupted anywhere, it can be repeated."""
        self._committer = get_ident()
        try:
            queued = list(self._queue)
            for append in queued:
                if isinstance(append.wake, asyncio.Future) and append.wake.cancelled():
                    append.abandoned = True
            waiting = [append for append in queued if not append.is_over]
            if waiting:
                self._write(waiting)
            _wake([append for append in queued if append.is_over])
            while self._queue and self._queue[0].is_over:
                self._queue.popleft()
            return len(waiting)
        finally:
            self._committer = 0


def _wake(appends: list[Append]) -> None:
    """Wake each thread, and each event loop once for all its tasks."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for append in appends:
        if isinstance(append.wake, asyncio.Future):
            loops.setdefault(append.wake.get_loop(), []).append(append.wake)
        elif append.wake is not None and append.wake.locked():
            append.wake.release()
    for loop, futures in loops.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: "list[asyncio.Future[None]]") -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def _result(append: Append) -> int:
    if isinstance(append.outcome, BaseException):
        raise append.outcome
    return append.outcome
