"""Where the lab's work runs: an engine takes tasks and yields their outcomes as they are finished.

`ProcessEngine` uses processes of this machine, one a core, and stops cleanly when interrupted. `lab/dask_engine.py` has
the engine of a cluster.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from typing import Protocol, TypeVar

from tidegate.core.errors import TidegateError

_T = TypeVar("_T")
_R = TypeVar("_R")
StopCheck = Callable[[], bool]
Work = Callable[[_T, StopCheck], _R]
"""A function of a module: it travels to other processes by its name."""

_STOP_SECONDS = 5.0
"""Seconds a worker has to notice that it is to stop."""


class Engine(Protocol):
    is_remote: bool
    """Whether tasks run on machines without our files: then a task must contain all that it needs."""

    def run(self, work: Work[_T, _R], tasks: Sequence[_T]) -> Generator[_R, None, None]:
        """Yield the outcome of each task as it is finished. Closing the iterator early stops the work."""


class ProcessEngine:
    is_remote = False

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def run(self, work: Work[_T, _R], tasks: Sequence[_T]) -> Generator[_R, None, None]:
        return run_in_processes(work, tasks, self._jobs)


def never_stop() -> bool:
    return False


def run_in_processes(work: Work[_T, _R], tasks: Sequence[_T], jobs: int) -> Generator[_R, None, None]:
    """Yield the outcome of each task as it is finished. Closing the iterator early stops the processes.

    Tasks are started in order: put the longest first, so that all processes finish at about the same time.
    """
    jobs = min(jobs, len(tasks))
    if jobs <= 1:
        yield from (work(task, never_stop) for task in tasks)
        return
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(jobs, context, _start_worker, (stop,))
    try:
        futures = [pool.submit(_run_task, work, task) for task in tasks]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise TidegateError("A worker process died, perhaps for lack of memory.", "Try again with --jobs 1.") from None
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        _end_workers(multiprocessing.active_children())


def _end_workers(workers: Sequence[BaseProcess]) -> None:
    """Stop the workers. They stop before their next task; one that hangs is killed."""
    deadline = time.monotonic() + _STOP_SECONDS
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))
        if worker.is_alive():
            worker.terminate()


_stop_events: list[Event] = []
"""Of a worker process: set once when it starts, asked before each call."""


def _start_worker(stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and says stop
    _stop_events.append(stop)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """End this process if its parent is killed: nobody tells it to stop then."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _run_task(work: Work[_T, _R], task: _T) -> _R:
    return work(task, _stop_events[0].is_set)
