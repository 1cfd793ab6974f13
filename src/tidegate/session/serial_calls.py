"""Calls of async code that wait for a store: in a thread, and one at a time per session.

asyncio is imported by the functions that need it: loading it takes longer than loading a session.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    import asyncio

_P = ParamSpec("_P")
_T = TypeVar("_T")


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
        from asyncio import to_thread  # noqa: PLC0415 - see the top of this file

        return await self.finish(to_thread(function, *args, **kwargs))

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


async def finish(work: Coroutine[Any, Any, _T]) -> _T:
    """Await a coroutine to its end even if this task is cancelled meanwhile; the cancellation is raised then."""
    import asyncio  # noqa: PLC0415 - see the top of this file

    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as request:
            cancelled = request
    if cancelled is not None:
        task.exception()  # so that it does not count as never retrieved
        raise cancelled
    return task.result()
