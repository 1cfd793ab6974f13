"""Stores on disk for the tests of the SQLite store."""

import random
from pathlib import Path

from tidegate.store.sqlite import SqliteStore

FILE = "tidegate.db"


def noise(number: int) -> bytes:
    """A record that no compression makes smaller, and that tells its number."""
    return b"record %d " % number + random.Random(number).randbytes(100 + number % 200)


def filled(folder: Path, sessions: dict[str, int]) -> Path:
    store = SqliteStore(folder)
    for name, head in sessions.items():
        store.append(name, 0, [noise(number) for number in range(1, head + 1)])
    store.close()
    return folder / FILE
