"""Store calls of the gateway: off the event loop, each with a deadline, and none at all while the store is silent.

A database can be locked, unreachable or silent. A request waits for it at most `timeout` seconds, or four times as
long if the store answers a check meanwhile. After that the gate is shut: until the store answers again, requests
learn at once that it does not, and are forwarded unmanaged or refused, as the settings say. While the gate is shut,
each request has the store checked and waits briefly for the outcome, so the first request after the store has
returned is managed again.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from tidegate.core.errors import TidegateError
from tidegate.gateway.metrics import Metrics
from tidegate.session.serial_calls import run_in_thread
from tidegate.store.errors import StoreUnreachable
from tidegate.store.store import CheckedStore, Store

_CHECK_INTERVAL: Final = 0.25
_MAX_WAITS: Final = 4
"""How often work may take the whole timeout while the store answers."""
_MAX_CHECKS: Final = 4
"""Checks that are under way at the same time: one may wait for a connection that will never answer."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
LogLine = Callable[[str], None]


class StoreGate:
    """`timeout` is how long a call may take, `check_timeout` how long a request waits for the check of the store."""

    def __init__(self, store: Store, timeout: float, check_timeout: float, metrics: Metrics, log_line: LogLine) -> None:
        self._store = store
        self._timeout = timeout
        self._check_timeout = check_timeout
        self._metrics = metrics
        self._log_line = log_line
        self._is_shut = False
        self._running_checks = 0
        self._last_check = 0.0
        self._checked = asyncio.Event()

    async def run(self, act: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function that uses the store in a thread. StoreUnreachable if it does not end in time."""
        return await self.wait(run_in_thread, partial(act, *args, **kwargs))

    async def wait(self, work: Callable[_P, Awaitable[_T]], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Await async work that uses the store. StoreUnreachable if it does not end in time; it then goes on alone."""
        if self._is_shut:
            await self.check()
        task = asyncio.ensure_future(work(*args, **kwargs))
        try:
            is_done = await self._wait_for(task)
        except asyncio.CancelledError:
            task.add_done_callback(_retrieve)
            raise
        if not is_done:
            task.add_done_callback(_retrieve)
            self._metrics.count("store_timeouts")
            self._shut(f"no answer within {self._timeout:g} s")
            raise StoreUnreachable(f"The store did not answer within {self._timeout:g} seconds.", "See /readyz.")
        try:
            return task.result()
        except StoreUnreachable as failure:
            self._shut(str(failure.args[0]))
            raise

    async def _wait_for(self, task: "asyncio.Future[Any]") -> bool:
        """Whether the work ends in time. If the store answers meanwhile, the work has more of it.

        Then it is not the store that is slow but this machine. To give up would make clients repeat requests, which
        makes it slower still.
        """
        for _ in range(_MAX_WAITS):
            finished, _ = await asyncio.wait({task}, timeout=self._timeout)
            if finished:
                return True
            try:
                await asyncio.wait_for(self.check(), self._timeout)
            except (StoreUnreachable, TimeoutError):
                break
        return task.done()

    def _shut(self, why: str) -> None:
        if not self._is_shut:
            self._is_shut = True
            self._metrics.count("store_outages")
            self._metrics.is_store_silent = True
            self._log_line(f"the store does not answer ({why}); requests go on without it")

    def _open(self) -> None:
        if self._is_shut:
            self._is_shut = False
            self._metrics.is_store_silent = False
            self._log_line("the store answers again")

    async def require(self) -> None:
        """Return if the store answers; StoreUnreachable if it was silent and still is."""
        if self._is_shut:
            await self.check()

    async def check(self) -> None:
        """Ask the store whether it can be written to. StoreUnreachable if it does not say so at once."""
        now = time.monotonic()
        if self._running_checks < _MAX_CHECKS and (
            not self._running_checks or now - self._last_check > _CHECK_INTERVAL
        ):
            self._last_check = now
            self._running_checks += 1
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._check_in_thread, args=(loop,), name="tidegate-check", daemon=True).start()
        self._checked.clear()
        try:
            await asyncio.wait_for(self._checked.wait(), self._check_timeout)
        except TimeoutError:
            raise StoreUnreachable("The store does not answer.", "See the log of the gateway.") from None

    def _check_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        failure: BaseException | None = None
        try:
            check_store(self._store)
        except (TidegateError, OSError) as error:
            failure = error
        try:
            loop.call_soon_threadsafe(self._finish_check, failure)
        except RuntimeError:
            return  # the gateway has ended

    def _finish_check(self, failure: BaseException | None) -> None:
        self._running_checks -= 1
        if failure is None:
            self._open()
            self._checked.set()


def check_store(store: Store) -> None:
    """Raise if nothing can be written to the store now."""
    if isinstance(store, CheckedStore):
        store.check()
    else:
        store.head("tidegate")


def _retrieve(task: "asyncio.Future[Any]") -> None:
    """Take the outcome of work that nobody waits for, so that it does not count as never retrieved."""
    if not task.cancelled():
        task.exception()
