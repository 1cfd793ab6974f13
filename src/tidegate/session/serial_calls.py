"""Calls of async code that wait for a store: in a thread, and one at a time per session.

asyncio and thread pools are imported by the functions that need them: loading them takes longer than loading a session.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

_P = ParamSpec("_P")
_T = TypeVar("_T")
RunFold = Callable[[Callable[[], object]], Awaitable[None]]

MAX_THREADS = 16
"""Threads of an event loop for calls of sessions that may wait for the store."""
PLANNING_THREADS = 2
"""Threads of an event loop for planning and rendering. These compute, and each thread that computes makes the event
loop wait longer for the interpreter's lock."""


class _CallThreads:
    """Up to MAX_THREADS threads for calls that may wait for the store. The one that was used last is used first.

    Each has a queue of its own. If idle threads share a queue, each call wakes up a second one for nothing, which then
    competes with the first for the interpreter's lock.
    """

    def __init__(self) -> None:
        self._idle: list[ThreadPoolExecutor] = []
        self._count = 0
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[[], object]]] = deque()

    def run(self, future: "asyncio.Future[Any]", function: Callable[[], object]) -> None:
        """Run a function in a thread; the future gets what it returns or raises. Call this in the event loop."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see the top of this file

        if not self._idle and self._count == MAX_THREADS:
            self._waiting.append((future, function))
            return
        if not self._idle:
            self._count += 1
            self._idle.append(ThreadPoolExecutor(1, "tidegate-session"))
        thread = self._idle.pop()
        thread.submit(self._work, thread, future, function)

    def _work(
        self, thread: "ThreadPoolExecutor", future: "asyncio.Future[Any]", function: Callable[[], object]
    ) -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as failure:  # noqa: BLE001 - raised in the task that waits for this call
            error = failure
        with suppress(RuntimeError):  # the loop is closed, so no task waits any more
            future.get_loop().call_soon_threadsafe(self._finish, thread, future, result, error)

    def _finish(
        self, thread: "ThreadPoolExecutor", future: "asyncio.Future[Any]", result: object, error: BaseException | None
    ) -> None:
        self._idle.append(thread)
        while self._waiting and self._idle:
            waiting, function = self._waiting.popleft()
            if not waiting.done():
                self.run(waiting, function)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class _LoopThreads:
    """The threads of one event loop. Short calls have threads of their own: they do not wait for long ones."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see the top of this file

        self.calls = _CallThreads()
        self.planning_pool = ThreadPoolExecutor(PLANNING_THREADS, "tidegate-plan")
        self.short_call_pool = ThreadPoolExecutor(1, "tidegate-fold")
        self.short_calls: list[tuple[Callable[[], object], asyncio.Future[None]]] = []


_threads: "WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopThreads]" = WeakKeyDictionary()


def _get_threads(loop: "asyncio.AbstractEventLoop") -> _LoopThreads:
    found = _threads.get(loop)
    if found is None:
        found = _threads[loop] = _LoopThreads()
    return found


def run_in_thread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> "asyncio.Future[_T]":
    """`asyncio.to_thread` with the threads of sessions, so that programs and sessions do not wait for each other."""
    from asyncio import get_running_loop  # noqa: PLC0415 - see the top of this file

    loop = get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()
    _get_threads(loop).calls.run(future, partial(copy_context().run, function, *args, **kwargs))
    return future


async def run_planning(function: Callable[[], _T]) -> _T:
    """Run a function that plans or renders in a thread, after those that were given before it."""
    from asyncio import get_running_loop  # noqa: PLC0415 - see the top of this file

    loop = get_running_loop()
    return await loop.run_in_executor(_get_threads(loop).planning_pool, copy_context().run, function)


async def run_short_call(function: Callable[[], object]) -> None:
    """Run a short function in a thread, together with those of all tasks that are ready now.

    One change of threads for many calls: for a fold and a line of a trace, the change takes longer than the call.
    """
    from asyncio import get_running_loop  # noqa: PLC0415 - see the top of this file

    loop = get_running_loop()
    threads = _get_threads(loop)
    if not threads.short_calls:
        loop.call_soon(_start_short_calls, loop, threads)
    future: asyncio.Future[None] = loop.create_future()
    threads.short_calls.append((function, future))
    await future


def _start_short_calls(loop: "asyncio.AbstractEventLoop", threads: _LoopThreads) -> None:
    calls, threads.short_calls = threads.short_calls, []

    def work() -> list[BaseException | None]:
        return [_find_error(function) for function, _ in calls]

    def resolve(done: "asyncio.Future[list[BaseException | None]]") -> None:
        for (_, future), error in zip(calls, done.result(), strict=True):
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    loop.run_in_executor(threads.short_call_pool, work).add_done_callback(resolve)


def _find_error(function: Callable[[], object]) -> BaseException | None:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - raised in the task that waits for this call
        return error
    return None


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
    task = asyncio.ensure_future(work)
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
