"""The work of `bench/savers.py` and its figures, the same for tidegate and LangGraph. Standard library only."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Protocol

DOCS = Path(__file__).resolve().parents[2] / "docs"
MESSAGE_CHARS = 300
RARE_WORD = "zanzibar"
REPEATS = 5


class Saver(Protocol):
    def open(self) -> None: ...

    def close(self) -> None: ...

    def take_turn(self, name: str, request: str, answer: str) -> None: ...

    def search(self, word: str) -> int:
        """The number of messages with this word."""

    def reopen(self, name: str) -> int:
        """Open a session as its next turn needs it, and return the number of its messages."""

    def measure_bytes(self) -> int: ...


def make_texts() -> Iterator[str]:
    chance, text = random.Random(3), "\n".join(path.read_text() for path in sorted(DOCS.glob("*.md")))
    while True:
        start = chance.randrange(len(text) - MESSAGE_CHARS)
        yield f"{chance.getrandbits(32):x} {text[start : start + MESSAGE_CHARS]}"


def take_time(act: Callable[[], object]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def run_saver(make: Callable[[str, str], Saver]) -> None:
    folder, url, sessions, turns = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    texts = make_texts()
    saver = make(folder, url)
    saver.open()
    times: list[float] = []
    cpu = time.process_time()
    for turn in range(turns):
        for number in range(sessions):
            answer = next(texts)
            if (turn, number) == (turns // 2, sessions // 2):
                answer = f"{RARE_WORD} {answer}"
            request = next(texts)
            times.append(take_time(lambda: saver.take_turn(f"s{number}", request, answer)))  # noqa: B023
    cpu = (time.process_time() - cpu) / len(times) * 1000
    assert saver.search(RARE_WORD) == 1  # indexes, if there is an index
    search = median(take_time(lambda: saver.search(RARE_WORD)) for _ in range(REPEATS))
    saver.close()
    reopens = []
    for number in range(min(REPEATS, sessions)):
        name = f"s{number}"

        def reopen(name: str = name) -> None:
            saver.open()
            assert saver.reopen(name) == 2 * turns

        reopens.append(take_time(reopen))
        saver.close()
    size = saver.measure_bytes() / (2 * len(times))
    figures = {"turn": median(times), "cpu": cpu, "bytes": size, "search": search, "reopen": median(reopens)}
    print(json.dumps(figures))


def measure_folder(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


TABLE_BYTES = (
    "select sum(pg_total_relation_size(c.oid))::bigint from pg_class c join pg_namespace n on n.oid = relnamespace"
    " where relkind = 'r' and nspname = 'public'"
)
