"""A process and all it starts: in a group of its own, within a time, and gone when we are done with it."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Literal

import msgspec

GRACE = 0.5
"""Seconds between asking a group to end and ending it, and for what is still in the pipe."""
_LOOK = 0.02
_PIECE = 1 << 16


Stopped = Literal["", "time", "output"]


class Ran(msgspec.Struct, frozen=True):
    """`code` is None if it was stopped. `left` says that it had left something running, which was ended."""

    code: int | None
    stopped: Stopped = ""
    left: bool = False


async def run_group(
    command: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    seconds: float,
    most: int,
    take: Callable[[bytes], None],
) -> Ran:
    """Run it with no input, give `take` what it writes, and end its whole group whatever happens.

    It is over when the process is, not when its pipe closes: something it left in the background may hold that.
    """
    process = start_group(command, cwd, environment)
    left = False
    stopped: Stopped = ""
    reader = asyncio.StreamReader()
    pump: asyncio.Task[bool] | None = None
    pipe: asyncio.BaseTransport | IO[bytes] | None = process.stdout
    try:
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        pump = asyncio.create_task(_pump(reader, take, most))
        stopped = await _over(process, pump, seconds)
        left = await asyncio.shield(end_group(process)) and not stopped
        await asyncio.wait([pump], timeout=GRACE)
    finally:
        if pump is not None:
            pump.cancel()
        if pipe is not None:
            pipe.close()  # before anything that waits: who cancels twice gets no further than that
        if process.returncode is None:
            await asyncio.shield(end_group(process))
    return Ran(None if stopped else process.returncode, stopped, left)


def start_group(
    command: Sequence[str],
    cwd: str | None,
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.STDOUT,
) -> subprocess.Popen[bytes]:
    """Start a process as the leader of a group of its own. Its output is a pipe."""
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(environment),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
    )


async def _pump(reader: asyncio.StreamReader, take: Callable[[bytes], None], most: int) -> bool:
    """True if there was too much of it."""
    while data := await reader.read(_PIECE):
        most -= len(data)
        take(data)
        if most < 0:
            return True
    return False


async def _over(process: subprocess.Popen[bytes], pump: asyncio.Task[bool], seconds: float) -> Stopped:
    until = time.monotonic() + seconds
    while process.poll() is None:
        if pump.done() and pump.result():
            return "output"
        if time.monotonic() > until:
            return "time"
        await asyncio.sleep(_LOOK)
    return ""


async def end_group(process: subprocess.Popen[bytes]) -> bool:
    """End the group: first as a wish, then by force. True if there was anything left of it."""
    left = signal_group(process, signal.SIGTERM)
    until = time.monotonic() + GRACE
    try:
        while signal_group(process, 0) and time.monotonic() < until:
            process.poll()
            await asyncio.sleep(_LOOK)
    except asyncio.CancelledError:  # nobody waits any more
        signal_group(process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        raise
    signal_group(process, signal.SIGKILL)
    until = time.monotonic() + 4 * GRACE
    while process.poll() is None and time.monotonic() < until:
        await asyncio.sleep(_LOOK)
    return left


def signal_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """Return whether there was anything left of the group to receive the signal."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
