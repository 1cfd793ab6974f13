"""Many recordings under one policy: one process a core, requests written to files, one bad file never in the way of
the others."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.expression import Place, read_plain
from tidegate.core.policy import Policy
from tidegate.lab import traces
from tidegate.lab.asked import Asked
from tidegate.lab.replay import MAIN, Setup, replay
from tidegate.lab.tally import SessionReport
from tidegate.lab.workers import Stopped, never, spread
from tidegate.presets import load

_encode = msgspec.json.Encoder().encode


class Order(msgspec.Struct, frozen=True):
    """What to do with each file. Plain values: it travels to other processes. `requests` is a folder, or empty."""

    policy: str
    window: int
    count: str = "exact"
    wires: tuple[str, ...] = (MAIN,)
    settings: tuple[tuple[str, str], ...] = ()
    requests: str = ""
    explain: bool = False


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


def replay_path(path: Path, order: Order, stopped: Stopped = never) -> Done:
    policy = policy_of(order.policy, order.settings)
    setup = Setup(policy, order.window, order.count, order.wires, explain=order.explain)
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
    """Read once for all the files of an order."""
    return read_policy(name, settings)


def read_policy(name: str, settings: tuple[tuple[str, str], ...]) -> Policy:
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
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:

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
    """Each file's outcome, as it comes. Closing the iterator early stops the processes.

    One process takes them in their order; for several the longest come first, so that they end at about the same time.
    """
    ordered = paths if jobs <= 1 else sorted(paths, key=_bytes, reverse=True)
    tasks = [_Task(path, order) for path in ordered]
    try:
        yield from spread(_work, tasks, jobs)
    finally:
        for path in paths if order.requests else ():
            _part(order.requests, path).unlink(missing_ok=True)


class _Task(NamedTuple):
    path: Path
    order: Order


def _work(task: _Task, stopped: Stopped) -> Done:
    return replay_path(task.path, task.order, stopped)


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
