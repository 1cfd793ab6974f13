"""Many recordings under one policy: one process a core, requests written to files, one bad file never in the way of
the others."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.expression import Place, read_plain
from tidegate.core.policy import Policy
from tidegate.lab import traces
from tidegate.lab.replay import MAIN, Asked, Setup, replay
from tidegate.lab.tally import SessionReport
from tidegate.presets import load

PATIENCE = 5.0
"""Seconds a worker has to notice that it is to stop."""

_encode = msgspec.json.Encoder().encode


class Order(msgspec.Struct, frozen=True):
    """What to do with each file. Plain values: it travels to other processes. `requests` is a folder, or empty."""

    policy: str
    window: int
    count: str = "exact"
    wires: tuple[str, ...] = (MAIN,)
    settings: tuple[tuple[str, str], ...] = ()
    requests: str = ""


class Unread(msgspec.Struct, frozen=True):
    """A file that was skipped, and why."""

    path: str
    cause: str
    remedy: str


class Done(msgspec.Struct, frozen=True):
    """One of both is there."""

    path: str
    report: SessionReport | None = None
    unread: Unread | None = None


def replay_path(path: Path, order: Order, stopped: Callable[[], bool] = lambda: False) -> Done:
    setup = Setup(policy_of(order.policy, order.settings), order.window, order.count, order.wires)
    try:
        with _request_file(order.requests, path) as sink:
            return Done(str(path), replay(traces.stem_of(path), traces.read(path), setup, sink=sink, stopped=stopped))
    except BadInput as bad:
        cause = str(bad.args[0])
        return Done(
            str(path), unread=Unread(str(path), cause if str(path) in cause else f"{path}, {cause}", bad.remedy)
        )


@lru_cache(maxsize=4)
def policy_of(name: str, settings: tuple[tuple[str, str], ...]) -> Policy:
    """Values are written as in a policy file: 3 is a number, off a word, null nothing."""
    return load(name, {key: read_plain(value, Place(f"setting {key}", 0)) for key, value in settings})


@contextmanager
def _request_file(folder: str, path: Path) -> Iterator[Callable[[Asked], None] | None]:
    """Written line by line beside its place and moved there when complete: a file that is there is whole."""
    if not folder:
        yield None
        return
    part = _part(folder, path)
    try:
        with part.open("wb") as file:

            def write(asked: Asked) -> None:
                line = (
                    {"at": asked.at, "error": asked.error}
                    if asked.error
                    else {"at": asked.at, "messages": asked.messages}
                )
                file.write(_encode(line) + b"\n")

            yield write
        part.replace(Path(folder) / f"{traces.stem_of(path)}.jsonl")
    finally:
        part.unlink(missing_ok=True)


def _part(folder: str, path: Path) -> Path:
    return Path(folder) / f".{traces.stem_of(path)}.jsonl.part"


def replay_paths(paths: Sequence[Path], order: Order, jobs: int) -> Generator[Done, None, None]:
    """Each file's outcome, as it comes. Closing the iterator early stops the processes."""
    jobs = min(jobs, len(paths))
    if jobs <= 1:
        yield from (replay_path(path, order) for path in paths)
        return
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(jobs, context, _start_worker, (stop,))
    try:
        # The longest first: the last process to finish then finishes soon after the others.
        futures = [pool.submit(_work, path, order) for path in sorted(paths, key=_bytes, reverse=True)]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise TidegateError("A worker process died, perhaps for lack of memory.", "Try again with --jobs 1.") from None
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        _end(multiprocessing.active_children())
        for path in paths if order.requests else ():
            _part(order.requests, path).unlink(missing_ok=True)


def _end(workers: Sequence[BaseProcess]) -> None:
    """Workers stop by themselves before their next call; one that hangs in a call is ended."""
    deadline = time.monotonic() + PATIENCE
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))
        if worker.is_alive():
            worker.terminate()


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


_stop: list[Event] = []
"""Of a worker process: set once when it starts, asked before each call."""


def _start_worker(stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and says stop
    _stop.append(stop)


def _work(path: Path, order: Order) -> Done:
    return replay_path(path, order, _stop[0].is_set)
