"""Runs a process in its own group, within a time limit, and then ends the whole group."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Literal

import msgspec

GROUP_GRACE_SECONDS = 0.5
"""Seconds between SIGTERM and SIGKILL, and for reading the rest of the pipe."""
_POLL_SECONDS = 0.02
_CHUNK_BYTES = 1 << 16


ProcessLimit = Literal["", "time", "output"]


class ProcessResult(msgspec.Struct, frozen=True):
    """`exit_code` is None if it was stopped. `left_processes` is True if processes it had left running were ended."""

    exit_code: int | None
    exceeded_limit: ProcessLimit = ""
    left_processes: bool = False


async def run_process_group(
    command: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    seconds: float,
    max_bytes: int,
    on_output: Callable[[bytes], None],
) -> ProcessResult:
    """Run a command without input, pass its output to `on_output`, and always end its whole group.

    It is over when the process ends, not when its pipe closes: a process in the background may keep the pipe open.
    """
    process = start_process_group(command, cwd, environment)
    left = False
    stopped: ProcessLimit = ""
    reader = asyncio.StreamReader()
    pump: asyncio.Task[bool] | None = None
    pipe: asyncio.BaseTransport | IO[bytes] | None = process.stdout
    try:
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        pump = asyncio.create_task(_copy_output(reader, on_output, max_bytes))
        stopped = await _wait_for_end(process, pump, seconds)
        left = await asyncio.shield(end_process_group(process)) and not stopped
        await asyncio.wait([pump], timeout=GROUP_GRACE_SECONDS)
    finally:
        if pump is not None:
            pump.cancel()
        if pipe is not None:
            pipe.close()  # before anything that waits: a second cancellation would skip it
        if process.returncode is None:
            await asyncio.shield(end_process_group(process))
    return ProcessResult(None if stopped else process.returncode, stopped, left)


def start_process_group(
    command: Sequence[str],
    cwd: str | None,
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.STDOUT,
) -> subprocess.Popen[bytes]:
    """Start a process as the leader of its own group. Its output is a pipe."""
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(environment),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
    )


async def _copy_output(reader: asyncio.StreamReader, take: Callable[[bytes], None], most: int) -> bool:
    """Copy the output. Return whether there was more than `most` bytes."""
    while data := await reader.read(_CHUNK_BYTES):
        most -= len(data)
        take(data)
        if most < 0:
            return True
    return False


async def _wait_for_end(process: subprocess.Popen[bytes], pump: asyncio.Task[bool], seconds: float) -> ProcessLimit:
    until = time.monotonic() + seconds
    while process.poll() is None:
        if pump.done() and pump.result():
            return "output"
        if time.monotonic() > until:
            return "time"
        await asyncio.sleep(_POLL_SECONDS)
    return ""


async def end_process_group(process: subprocess.Popen[bytes]) -> bool:
    """End the group with SIGTERM, then with SIGKILL. Return whether any of its processes was still running."""
    left = signal_process_group(process, signal.SIGTERM)
    until = time.monotonic() + GROUP_GRACE_SECONDS
    try:
        while signal_process_group(process, 0) and time.monotonic() < until:
            process.poll()
            await asyncio.sleep(_POLL_SECONDS)
    except asyncio.CancelledError:  # end it at once
        signal_process_group(process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GROUP_GRACE_SECONDS)
        raise
    signal_process_group(process, signal.SIGKILL)
    until = time.monotonic() + 4 * GROUP_GRACE_SECONDS
    while process.poll() is None and time.monotonic() < until:
        await asyncio.sleep(_POLL_SECONDS)
    return left


def signal_process_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """Return whether there was anything left of the group to receive the signal."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
