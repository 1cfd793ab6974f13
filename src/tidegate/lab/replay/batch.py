"""Replay many recordings under one policy: one process a core, with requests written to files.

A file that cannot be read does not stop the others.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.core.config.values import SourcePosition, parse_plain_scalar
from tidegate.core.errors import BadInput
from tidegate.core.policy.policy import Policy
from tidegate.lab.importers.registry import read_recordings
from tidegate.lab.replay import recording_file
from tidegate.lab.replay.replay_report import ReplayReport
from tidegate.lab.replay.session_replay import MAIN_DIALECT, ReplaySetup, replay_session
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.worker_pool import StopCheck, never_stop, run_in_processes
from tidegate.presets import load

_encode = msgspec.json.Encoder().encode


class ReplayOrder(msgspec.Struct, frozen=True):
    """The options for all files of a replay. `requests_folder` may be empty."""

    policy: str
    window: int
    count: str = "exact"
    dialects: tuple[str, ...] = (MAIN_DIALECT,)
    settings: tuple[tuple[str, str], ...] = ()
    requests_folder: str = ""
    explain: bool = False


class UnreadRecording(msgspec.Struct, frozen=True):
    """A file that was skipped, and why."""

    path: str
    cause: str
    remedy: str


class ReplayOutcome(msgspec.Struct, frozen=True):
    """The report of a file, or why it was not read."""

    path: str
    report: ReplayReport | None = None
    unread: UnreadRecording | None = None


def replay_file(path: Path, order: ReplayOrder, should_stop: StopCheck = never_stop) -> ReplayOutcome:
    policy = load_replay_policy(order.policy, order.settings)
    setup = ReplaySetup(policy, order.window, order.count, order.dialects, explain=order.explain)
    try:
        with _open_request_file(order.requests_folder, path) as sink:
            return ReplayOutcome(
                str(path),
                replay_session(
                    recording_file.get_recording_name(path),
                    _read_recording(path),
                    setup,
                    on_request=sink,
                    should_stop=should_stop,
                ),
            )
    except BadInput as bad:
        cause = str(bad.args[0])
        return ReplayOutcome(
            str(path),
            unread=UnreadRecording(str(path), cause if str(path) in cause else f"{path}, {cause}", bad.remedy),
        )


def _read_recording(path: Path) -> Iterable[recording_file.RecordedLine]:
    """The messages of a recording in chat form, or of a file that `tidegate export` wrote."""
    if path.suffix != ".tidegate":
        return recording_file.read_chat_recording(path)
    (recording,) = read_recordings(path)
    return recording_file.list_recorded_lines(recording)


@lru_cache(maxsize=4)
def load_replay_policy(name: str, settings: tuple[tuple[str, str], ...]) -> Policy:
    """Load the policy once for all files."""
    return load_policy_with_settings(name, settings)


def load_policy_with_settings(name: str, settings: tuple[tuple[str, str], ...]) -> Policy:
    """Load a policy with overrides, written as in a policy file: 3 is a number, off a word, null nothing."""
    return load(name, {key: parse_plain_scalar(value, SourcePosition(f"setting {key}", 0)) for key, value in settings})


@contextmanager
def _open_request_file(folder: str, path: Path) -> Iterator[Callable[[ContenderRequest], None] | None]:
    """Open a temporary file that is renamed when it is complete: a request file that exists is whole."""
    if not folder:
        yield None
        return
    part = _partial_path(folder, path)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:

            def write(request: ContenderRequest) -> None:
                line = (
                    {"at": request.message_index, "error": request.error}
                    if request.error
                    else {"at": request.message_index, "messages": request.messages}
                )
                file.write(_encode(line) + b"\n")

            yield write
        part.replace(Path(folder) / f"{recording_file.get_recording_name(path)}.jsonl")
    finally:
        part.unlink(missing_ok=True)


def _partial_path(folder: str, path: Path) -> Path:
    return Path(folder) / f".{recording_file.get_recording_name(path)}.jsonl.part"


def replay_files(paths: Sequence[Path], order: ReplayOrder, jobs: int) -> Generator[ReplayOutcome, None, None]:
    """Yield the outcome of each file as it is finished. Closing the iterator early stops the processes.

    One process takes the files in order; several take the longest first, so that they finish at about the same time.
    """
    ordered = paths if jobs <= 1 else sorted(paths, key=_file_size, reverse=True)
    tasks = [_ReplayTask(path, order) for path in ordered]
    try:
        yield from run_in_processes(_run_task, tasks, jobs)
    finally:
        for path in paths if order.requests_folder else ():
            _partial_path(order.requests_folder, path).unlink(missing_ok=True)


class _ReplayTask(NamedTuple):
    path: Path
    order: ReplayOrder


def _run_task(task: _ReplayTask, stopped: StopCheck) -> ReplayOutcome:
    return replay_file(task.path, task.order, stopped)


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
