"""Several gateway processes on one port: `tidegate serve --workers N`.

The processes share a listening socket and the store, and nothing else: any of them can serve any session. One that dies
is started again. The store must be one that several processes can use, which SQLite and PostgreSQL are.
"""

import multiprocessing
import multiprocessing.connection
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from typing import Final

from tidegate.core.errors import TidegateError

_YOUNG_SECONDS: Final = 5.0
_MAX_YOUNG_DEATHS: Final = 5
"""If so many processes in a row end so soon after their start, something is wrong that a restart does not cure."""

ServeOn = Callable[[socket.socket], None]


class Workers:
    """Processes that each run `serve(listener)`, a function of a module or a partial of one."""

    def __init__(
        self,
        serve: ServeOn,
        listener: socket.socket,
        count: int,
        log_line: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._serve = serve
        self._listener = listener
        self._count = count
        self._log_line = log_line
        self._clock = clock
        self._running: dict[BaseProcess, float] = {}
        self._stopping = False

    def run(self, shutdown_timeout: float) -> None:
        """Run until a signal, then let the processes finish their answers."""
        before = {each: signal.signal(each, self._stop) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._supervise()
        finally:
            self._end(shutdown_timeout)
            for number, action in before.items():
                signal.signal(number, action)

    def _stop(self, *_: object) -> None:
        self._stopping = True
        for process in self._running:
            with suppress(ValueError, ProcessLookupError):
                process.terminate()

    def _is_stopping(self) -> bool:
        return self._stopping  # a signal sets it at any time

    def _start(self) -> None:
        process = self._context.Process(target=_serve_worker, args=(self._serve, self._listener), daemon=True)
        process.start()
        self._running[process] = self._clock()

    def _supervise(self) -> None:
        young_deaths = 0
        while not self._is_stopping():
            while len(self._running) < self._count and not self._is_stopping():
                self._start()
            multiprocessing.connection.wait([process.sentinel for process in self._running], timeout=0.5)
            dead_workers = [each for each in self._running if not each.is_alive()]
            for process in () if self._is_stopping() else dead_workers:
                age = self._clock() - self._running.pop(process)
                self._log_line(f"tidegate: worker {process.pid} ended with {process.exitcode}; starting another")
                if process.exitcode != -signal.SIGKILL:  # killed from outside: that says nothing about its start
                    young_deaths = young_deaths + 1 if age < _YOUNG_SECONDS else 0
                if young_deaths >= _MAX_YOUNG_DEATHS:
                    raise TidegateError(
                        f"{young_deaths} workers in a row ended soon after their start.",
                        "Run it without --workers to see why.",
                    )

    def _end(self, shutdown_timeout: float) -> None:
        self._stop()
        deadline = time.monotonic() + shutdown_timeout + _YOUNG_SECONDS
        for process in self._running:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def _serve_worker(serve: ServeOn, listener: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the parent hears it and ends us
    serve(listener)
