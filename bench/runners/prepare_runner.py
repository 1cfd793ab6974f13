"""Measure a runner, the same way for all of them; the command line of every runner module.

    python bench/runners/NAME_runner.py --size N --mode call|bytes|session|memory

prints one JSON line. Only the standard library: this file is imported in each peer's own environment.

Time is CPU time of the whole process (`time.process_time_ns`, threads included), because the machines this runs on are
shared. The clock runs from two OpenAI-chat messages in hand to a view that is held; making those messages is outside.
The garbage collector is left as a user has it.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any, Protocol

from bench_conversation import PRELUDE_MESSAGES, Chat, count_text_chars, make_message, make_messages

CALLS = 15
"""Calls after the one that warms up; their median is the figure."""

CALL_BOUND = 10.0
"""Seconds of CPU one call may take before the size is given up."""

MODE_BOUND = 60.0
"""Seconds of CPU all calls of one size may take together; fewer calls are made if they are slow."""

Figures = dict[str, Any]


class Runner(Protocol):
    """A library holding one conversation and the view of it that the model would be sent."""

    async def load(self, history: Iterable[Chat]) -> None:
        """Reach, untimed, the state the library is in once it has been led through `history`."""

    async def prepare(self, new: Sequence[Chat]) -> None:
        """Timed: take the new messages in, measure, decide, and hold the view."""

    async def render(self) -> bytes:
        """Timed in mode `bytes`: the held view as a JSON body."""

    def used(self) -> int:
        """Untimed: tokens of the held view at four characters each, as a provider would report them."""

    async def record(self, tokens: int) -> None:
        """Timed in mode `session`: tell the library what the last call used, where it can be told."""

    def visible(self) -> int:
        """Untimed: messages in the held view."""


def _seconds() -> float:
    return time.process_time_ns() / 1e9


async def _timed_calls(runner: Runner, size: int, render: bool) -> Figures:
    await runner.load(make_messages(0, size))
    seconds: list[float] = []
    body = b""
    at = size
    while len(seconds) <= CALLS:
        new = [make_message(at), make_message(at + 1)]
        began = _seconds()
        await runner.prepare(new)
        if render:
            body = await runner.render()
        seconds.append(_seconds() - began)
        at += 2
        if seconds[-1] > CALL_BOUND:
            return {"skipped": f"one call took {seconds[-1]:.1f} s of CPU; the bound is {CALL_BOUND:.0f} s"}
        await runner.record(runner.used())
        if len(seconds) > 3 and sum(seconds) > MODE_BOUND:
            break
    steady = [1e3 * second for second in seconds[1:]]
    figures: Figures = {
        "median_ms": statistics.median(steady),
        "min_ms": min(steady),
        "max_ms": max(steady),
        "calls": len(steady),
        "visible": runner.visible(),
    }
    if render:
        figures["request_bytes"] = len(body)
    return figures


async def _session(runner: Runner, size: int, limit: float) -> Figures:
    """A whole session call after call. What does not end within the bound is reported as far as it went."""
    await runner.load(())
    seconds = 0.0
    at = 0
    calls = 0
    while at < size and seconds < limit:
        upto = at + (2 if at else PRELUDE_MESSAGES)
        new = [make_message(index) for index in range(at, upto)]
        began = _seconds()
        await runner.prepare(new)
        seconds += _seconds() - began
        tokens = runner.used()
        began = _seconds()
        await runner.record(tokens)
        seconds += _seconds() - began
        at = upto
        calls += 1
    return {"cpu_s": seconds, "calls": calls, "messages": at, "partial": at < size, "visible": runner.visible()}


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _settle() -> None:
    """Give freed pages back before looking: what is measured is what is held, not what the allocator kept."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def _memory(runner: Runner, size: int) -> Figures:
    """Resident memory that the library adds to hold `size` messages and a view, less the text itself."""
    if not os.path.exists("/proc/self/statm"):
        return {"skipped": "resident memory is read from /proc, which this system does not have"}
    await runner.load(make_messages(0, PRELUDE_MESSAGES))
    await runner.prepare([make_message(PRELUDE_MESSAGES), make_message(PRELUDE_MESSAGES + 1)])
    _settle()
    before = _resident()
    payload = 0

    def counted() -> Iterable[Chat]:
        nonlocal payload
        for message in make_messages(0, size):
            payload += count_text_chars(message)
            yield message

    await runner.load(counted())
    last = [make_message(size), make_message(size + 1)]
    payload += sum(count_text_chars(message) for message in last)
    await runner.prepare(last)
    await runner.record(runner.used())
    del last
    _settle()
    resident_bytes = _resident() - before
    return {
        "held_bytes": resident_bytes,
        "payload_bytes": payload,
        "beyond_bytes": resident_bytes - payload,
        "visible": runner.visible(),
    }


async def _measure(open_runner: Callable[[], Runner], mode: str, size: int, limit: float) -> Figures:
    runner = open_runner()
    if mode == "session":
        return await _session(runner, size, limit)
    if mode == "memory":
        return await _memory(runner, size)
    return await _timed_calls(runner, size, render=mode == "bytes")


def run_prepare_runner(peer: str, package: str, open_runner: Callable[[], Runner]) -> None:
    """Answer the command line with one JSON line; a failure is a line too, so that one peer cannot end a run."""
    parser = argparse.ArgumentParser(description=f"Measure {peer} on the shared conversation.")
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--mode", choices=("call", "bytes", "session", "memory"), default="call")
    parser.add_argument("--bound", type=float, default=120.0, help="CPU seconds a session may take before it is cut")
    options = parser.parse_args()
    if options.size < PRELUDE_MESSAGES or options.size % 2:
        parser.error(f"--size must be an even number, {PRELUDE_MESSAGES} or more")
    logging.disable(logging.WARNING)
    line: Figures = {"peer": peer, "mode": options.mode, "size": options.size}
    try:
        line |= {"package": package, "version": version(package)}
        line |= asyncio.run(_measure(open_runner, options.mode, options.size, options.bound))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - one peer's failure is a line of the report, whatever it is
        line["failed"] = f"{type(error).__name__}: {error}"[:500]
    print(json.dumps(line))
