"""The work of `bench/teams.py` and its figures, the same for tidegate and the peers. Standard library only.

Every session is a task that adds messages one after the other, and reads (tidegate: prepares a request) after every
tenth. The tasks begin at different places of these ten, so that they do not all read at the same time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles

TEXT = "The build failed in module parser with error 17; the log is in build/out.txt. " * 4
_TICK = 0.02


def find_percentiles(values: list[float]) -> tuple[float, float]:
    """Return p50 and p99 in milliseconds."""
    cuts = quantiles(values, n=100) if len(values) > 1 else [0.0] * 99
    return cuts[49] * 1000, cuts[98] * 1000


@dataclass
class Figures:
    """Milliseconds are p50 and p99. Memory and descriptors are taken after a quarter of the time and at the end."""

    seconds: float = 0.0
    appends: int = 0
    cpu_seconds: float = 0.0
    add: tuple[float, float] = (0.0, 0.0)
    read: tuple[float, float] = (0.0, 0.0)
    longest_stall: float = 0.0
    memory: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.appends / self.seconds

    def take_sizes(self) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.memory.append(pages * resource.getpagesize())
        self.descriptors.append(len(os.listdir("/proc/self/fd")))

    def print_json(self) -> None:
        print(json.dumps(asdict(self)))

    def describe(self, name: str, reading: str) -> str:
        return (
            f"{name}: {self.rate:,.0f} appends/s ({self.cpu_seconds / max(1, self.appends) * 1e6:.0f} us CPU each); "
            f"add p50 {self.add[0]:.0f} ms, p99 {self.add[1]:.0f} ms; "
            f"{reading} p50 {self.read[0]:.0f} ms, p99 {self.read[1]:.0f} ms; "
            f"event loop late by {self.longest_stall:.0f} ms at most; "
            f"memory {' -> '.join(f'{each / 1e6:.0f}' for each in self.memory)} MB; "
            f"descriptors {' -> '.join(map(str, self.descriptors))}"
        )


async def run_team(
    sessions: int,
    seconds: float,
    add: Callable[[int, str, int], Awaitable[object]],
    read: Callable[[int], Awaitable[object]],
) -> Figures:
    figures = Figures()
    adds: list[float] = []
    reads: list[float] = []
    gc.collect()
    begin = time.monotonic()
    end = begin + seconds
    cpu = time.process_time()

    async def work(number: int) -> None:
        turn = number % 10
        while (start := time.monotonic()) < end:
            await add(number, f"{turn} {TEXT}", turn)
            adds.append(time.monotonic() - start)
            turn += 1
            if turn % 10 == 0:
                start = time.monotonic()
                await read(number)
                reads.append(time.monotonic() - start)

    async def watch() -> None:
        while (now := time.monotonic()) < end:
            await asyncio.sleep(_TICK)
            # The first second is left out: all tasks begin at the same moment.
            if now > begin + 1:
                figures.longest_stall = max(figures.longest_stall, (time.monotonic() - now - _TICK) * 1000)
            if not figures.memory and now > end - seconds * 3 / 4:
                figures.take_sizes()
        figures.take_sizes()

    await asyncio.gather(watch(), *map(work, range(sessions)))
    figures.seconds = time.monotonic() - begin
    figures.appends = len(adds)
    figures.cpu_seconds = time.process_time() - cpu
    figures.add, figures.read = find_percentiles(adds), find_percentiles(reads)
    return figures


def allow_descriptors() -> None:
    """Raise the limit: OpenAI Agents opens a file for each session and thread."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def watch_idle_loop(seconds: float) -> float:
    """Return the longest stall of an event loop that does nothing: what other work on the machine does to any loop."""
    longest, end = 0.0, time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        await asyncio.sleep(_TICK)
        longest = max(longest, (time.monotonic() - now - _TICK) * 1000)
    return longest
