"""Calls of async code that wait for a store: in a thread, and one at a time per session.

asyncio and thread pools are imported by the functions that need them: loading them takes longer than loading a session.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

_P = ParamSpec("_P")
_T = TypeVar("_T")
RunFold = Callable[[Callable[[], object]], Awaitable[object]]

CALL_THREADS = 16
"""Threads of an event loop for calls of sessions that may wait for the store."""
READ_THREADS = 4
"""Threads of an event loop that look for events of other writers. These calls are short and many: more threads would
mostly wait for each other."""
PLANNING_THREADS = 2
"""Threads of an event loop for planning and rendering. These compute, and each thread that computes makes the event
loop wait longer for the interpreter's lock."""


class _Outcome(NamedTuple):
    """How a call ended, for the task that waits for its future."""

    future: "asyncio.Future[Any]"
    result: object = None
    error: BaseException | None = None

    def pass_on(self) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class _CallThreads:
    """Up to `most` threads for one kind of calls of an event loop. The one that was used last is used first.

    A thread runs all calls that wait, one after the other, and the event loop learns at once of all that have ended:
    for a short call, waking a thread and the event loop takes longer than the call itself. Each thread has a queue of
    its own. If idle threads share a queue, each call wakes up a second one for nothing.
    """

    def __init__(self, most: int, name: str) -> None:
        self._name = f"tidegate-{name}"
        self._unmade = most
        self._idle: list[ThreadPoolExecutor] = []
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[[], object]]] = deque()
        self._ended: deque[_Outcome | ThreadPoolExecutor] = deque()  # calls, and threads that found no more of them
        self._is_start_due = self._is_end_due = False

    def run(self, function: Callable[[], _T]) -> "asyncio.Future[_T]":
        """Run a function in a thread. Call this in the event loop."""
        import asyncio  # noqa: PLC0415 - see the top of this file

        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        self._waiting.append((future, function))
        if not self._is_start_due and (self._idle or self._unmade):
            self._is_start_due = True
            loop.call_soon(self._start, loop)  # after all tasks that are ready now
        return future

    def _start(self, loop: "asyncio.AbstractEventLoop") -> None:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see the top of this file

        self._is_start_due = False
        for _ in range(len(self._waiting)):
            if not self._idle and self._unmade:
                self._unmade -= 1
                self._idle.append(ThreadPoolExecutor(1, self._name))
            if not self._idle:
                return
            thread = self._idle.pop()
            try:
                thread.submit(self._work, thread, loop)
            except RuntimeError as ending:  # the interpreter ends, and starts no threads any more
                while self._waiting:
                    _Outcome(self._waiting.popleft()[0], error=ending).pass_on()
                return

    def _work(self, thread: "ThreadPoolExecutor", loop: "asyncio.AbstractEventLoop") -> None:
        outcome: _Outcome | None = None
        with suppress(IndexError):  # no call waits
            while True:
                call = self._waiting.popleft()
                if outcome is not None:
                    self._report(loop, outcome)
                outcome = _run(*call)
        # The thread first: who waits for its last call finds it idle.
        self._report(loop, thread, *([outcome] if outcome is not None else []))

    def _report(self, loop: "asyncio.AbstractEventLoop", *ends: "_Outcome | ThreadPoolExecutor") -> None:
        self._ended.extend(ends)
        if not self._is_end_due:
            self._is_end_due = True
            with suppress(RuntimeError):  # the loop is closed, so no task waits any more
                loop.call_soon_threadsafe(self._finish, loop)

    def _finish(self, loop: "asyncio.AbstractEventLoop") -> None:
        self._is_end_due = False  # before looking: what ends from now on is reported again
        while self._ended:
            end = self._ended.popleft()
            if isinstance(end, _Outcome):
                end.pass_on()
            else:
                self._idle.append(end)
                self._start(loop)  # for a call that came when the thread had stopped looking


def _run(future: "asyncio.Future[Any]", function: Callable[[], object]) -> _Outcome:
    try:
        return _Outcome(future, function())
    except BaseException as error:  # noqa: BLE001 - raised in the task that waits for this call
        return _Outcome(future, error=error)


class _LoopThreads:
    """The threads of one event loop. Short calls have threads of their own: they do not wait for long ones."""

    def __init__(self) -> None:
        self.calls = _CallThreads(CALL_THREADS, "session")
        self.reads = _CallThreads(READ_THREADS, "read")
        self.plans = _CallThreads(PLANNING_THREADS, "plan")
        self.folds = _CallThreads(1, "fold")


_threads: "WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopThreads]" = WeakKeyDictionary()


def _get_threads() -> _LoopThreads:
    import asyncio  # noqa: PLC0415 - see the top of this file

    loop = asyncio.get_running_loop()
    threads = _threads.get(loop)
    if threads is None:
        threads = _threads[loop] = _LoopThreads()
    return threads


def run_in_thread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> "asyncio.Future[_T]":
    """`asyncio.to_thread` with the threads of sessions, so that programs and sessions do not wait for each other."""
    return _get_threads().calls.run(partial(copy_context().run, function, *args, **kwargs))


def run_read(function: Callable[[], _T]) -> "asyncio.Future[_T]":
    """Run a function that reads the newest events of a session in a thread."""
    return _get_threads().reads.run(function)


def run_planning(function: Callable[[], _T]) -> "asyncio.Future[_T]":
    """Run a function that plans or renders in a thread, after those that were given before it."""
    return _get_threads().plans.run(partial(copy_context().run, function))


def run_fold(function: Callable[[], _T]) -> "asyncio.Future[_T]":
    """Run a fold of what was appended in a thread, with the observers, which may write files."""
    return _get_threads().folds.run(function)


class SerialCalls:
    """Runs the async calls of one session in turn, so that its log and view are never changed by two at a time.

    A call that has begun is always finished: if its task is cancelled, the cancellation is raised afterwards. So a
    cancelled call has either done all of its work or none, and the next call finds the session whole.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock | None = None

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function in a thread."""
        async with self._get_lock():
            return await finish(run_in_thread(function, *args, **kwargs))

    async def read(self, function: Callable[[], _T]) -> _T:
        """Run a function that reads the newest events of the session."""
        async with self._get_lock():
            return await finish(run_read(function))

    async def finish(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end, whether or not this task is cancelled meanwhile."""
        lock = self._get_lock()
        try:
            await lock.acquire()
        except BaseException:
            work.close()
            raise
        try:
            return await finish(work)
        finally:
            lock.release()

    def _get_lock(self) -> "asyncio.Lock":
        """Return the lock of the running event loop: a session may be used in one loop after another."""
        import asyncio  # noqa: PLC0415 - see the top of this file

        loop = asyncio.get_running_loop()
        if self._lock is None or loop is not self._loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock


async def finish(work: "Coroutine[Any, Any, _T] | asyncio.Future[_T]") -> _T:
    """Await a coroutine to its end even if this task is cancelled meanwhile; the cancellation is raised then."""
    import asyncio  # noqa: PLC0415 - see the top of this file

    loop = asyncio.get_running_loop()
    task = work if isinstance(work, asyncio.Future) else loop.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        end: asyncio.Future[None] = loop.create_future()
        task.add_done_callback(lambda _, end=end: end.done() or end.set_result(None))  # type: ignore[misc]
        try:
            await end
        except asyncio.CancelledError as request:
            cancelled = request
    if cancelled is not None:
        task.exception()  # so that it does not count as never retrieved
        raise cancelled
    return task.result()
