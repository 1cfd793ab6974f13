"""What a search costs a worker under row-level security: rare words, common words and several words.

    python bench/team_search.py                      100,000 events in 1,000 sessions, SQLite and PostgreSQL
    python bench/team_search.py --events 1000000     minutes

Half of the sessions belong to another tenant. The index is filled in bulk. Each query runs `--rounds` times; the median
and the slowest are printed. "index" is the time to index 1,000 new events of a session.
"""

import argparse
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psycopg
from growth import start_postgres

from tidegate.datafolder.shared_index import open_shared_index
from tidegate.memory.index import PassageIndex, SearchIndex
from tidegate.memory.search import Search
from tidegate.memory.text_pieces import TextPiece
from tidegate.store.postgres import PostgresStore

ROLES = Path(__file__).resolve().parents[1] / "deploy/postgres/roles.sql"
SESSION_EVENTS = 100
WORDS = [f"word{number}" for number in range(20_000)]
QUERIES = {
    "rare word": "zanzibar",
    "absent word": "absentword",
    "common word": "build",
    "three words": "build failed zanzibar",
    "common words": "build failed parser",
}


def make_pieces(chance: random.Random) -> list[TextPiece]:
    """Texts of about 400 characters: common words, and others that are rarer the higher their number."""
    pieces = []
    for seq in range(1, SESSION_EVENTS + 1):
        some = [WORDS[int(len(WORDS) * chance.random() ** 3)] for _ in range(45)]
        pieces.append(TextPiece(seq, f"The build failed in parser, step {seq}: {' '.join(some)}"))
    return pieces


def fill(index: PassageIndex, sessions: int, tenant: str) -> None:
    chance = random.Random(tenant)
    for number in range(sessions):
        pieces = make_pieces(chance)
        if number in (0, sessions // 2, sessions - 1):
            pieces[50] = TextPiece(51, f"the build failed: zanzibar of {tenant}")
        index.extend_session(f"s{number}", pieces)


def report(name: str, index: PassageIndex, rounds: int) -> None:
    search = Search(index=index)
    for what, query in QUERIES.items():
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            hits = search.search(query)
            times.append((time.perf_counter() - start) * 1000)
        print(f"{name} {what}: {median(times):.1f} ms, at most {max(times):.1f} ms, {len(hits)} hits", flush=True)
    chance = random.Random(1)
    start = time.perf_counter()
    for number in range(10):
        index.extend_session(f"new{number}", make_pieces(chance))
    print(f"{name} index: {time.perf_counter() - start:.2f} s for 1,000 events")


@contextmanager
def make_workers(control: str) -> Iterator[Callable[[str], str]]:
    """A new database with two workers, each of its own tenant; the addresses by their names."""
    name = f"search_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(control, autocommit=True) as link:
        link.execute(f"create database {name}")
    url = control.replace("/postgres?", f"/{name}?")
    PostgresStore(url).close()
    with psycopg.connect(url, autocommit=True) as link:
        link.execute(ROLES.read_text().replace("tidegate_app", f"app_{name}"))
        for tenant in ("red", "blue"):
            link.execute(f"create role {tenant}_{name} login in role app_{name}")
            link.execute("insert into tidegate_tenants values (%s, %s)", (f"{tenant}_{name}", tenant))
    yield lambda tenant: url.replace("postgres:@", f"{tenant}_{name}@") if tenant else url


def run_postgres(sessions: int, rounds: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-pg-") as place,
        start_postgres(Path(place)) as control,
        make_workers(control) as address,
    ):
        for tenant in ("blue", "red"):
            store = PostgresStore(address(tenant))
            index = open_shared_index(store)
            assert index is not None
            start = time.monotonic()
            fill(index, sessions // 2, tenant)
            print(
                f"postgres: indexed {sessions // 2 * SESSION_EVENTS:,} events of {tenant} in"
                f" {time.monotonic() - start:.0f} s",
                flush=True,
            )
            store.close()
        with psycopg.connect(address(""), autocommit=True) as link:
            link.execute("vacuum analyze tidegate_passages")
            row = link.execute("select pg_total_relation_size('tidegate_passages')").fetchone()
            print(
                f"postgres: {int(row[0]) / sessions / SESSION_EVENTS:.0f} bytes of index for each event" if row else ""
            )
        store = PostgresStore(address("red"))
        index = open_shared_index(store)
        assert index is not None
        report("postgres", index, rounds)
        store.close()


def run_sqlite(sessions: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = SearchIndex(Path(folder) / "search.db", 10)
        fill(index, sessions // 2, "red")
        report("sqlite", index, rounds)
        index.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="sqlite,postgres")
    options = parser.parse_args()
    sessions = options.events // SESSION_EVENTS
    for name in options.only.split(","):
        {"sqlite": run_sqlite, "postgres": run_postgres}[name](sessions, options.rounds)


if __name__ == "__main__":
    main()
