"""A process that writes to a SQLite store and says what was acknowledged, to be killed at any time.

python sqlite_child.py steps FOLDER N...   a process for each of these steps of the changes, which kills itself there
python sqlite_child.py stream FOLDER       append until you are killed
python sqlite_child.py crowd FOLDER        the same with eight threads, each with a session of its own
python sqlite_child.py outlive FOLDER      append 50 records in each of four threads after the main thread has ended
python sqlite_child.py race FOLDER NAME    append 60 records beside others, retrying when stale
python sqlite_child.py churn FOLDER        append, fork and delete until you are killed
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tidegate.store.errors import StaleHead
from tidegate.store.sqlite import SqliteStore
from tidegate.store.store import RewritableStore, Store


def record(number: int) -> bytes:
    return b"%d " % number + b"the quick brown fox %d " % (number * 7919) * (number % 13)


def records(first: int, last: int) -> list[bytes]:
    return [record(number) for number in range(first, last + 1)]


def rewrite(store: Store, changes: dict[int, bytes]) -> None:
    cast(RewritableStore, store).rewrite("s", changes)


CHANGES: list[Callable[[Store], object]] = [
    lambda store: store.append("s", 0, records(1, 62)),
    lambda store: store.append("s", 62, records(63, 63)),
    lambda store: store.append("s", 63, records(64, 64)),  # packs
    lambda store: store.append("s", 64, records(65, 70)),
    lambda store: store.append("s", 70, records(71, 200)),  # packs what is loose, and itself but for two
    lambda store: store.append("s", 200, [b"x" * 300_000]),  # a large one is packed alone
    lambda store: store.fork("s", 100, "f"),
    lambda store: store.append("f", 100, records(101, 101)),
    lambda store: rewrite(store, dict.fromkeys((1, 2, 64, 65, 201), b"[gone]")),
    lambda store: store.delete("s"),
    lambda store: store.append("s", 0, records(1, 3)),
]
"""Together they come by every step there is."""


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def make_changes(folder: Path, step: Callable[[str], None]) -> None:
    """All changes, telling of every step at which something was written."""
    store = SqliteStore(folder, step=lambda name: step(name) if name != "session read" else None)
    for change in CHANGES:
        change(store)
        step("done")
    store.close()


def make_changes_until(folder: Path, last: int) -> None:
    """Until the step of this number, counted from 1; there the process kills itself."""
    left = last

    def step(name: str) -> None:
        nonlocal left
        if name in ("committed", "done"):
            say(name)
        left -= name != "done"
        if left == 0:
            say(f"at {name}")
            os.kill(os.getpid(), signal.SIGKILL)

    make_changes(folder, step)
    say("whole")


def each_step(folder: Path, numbers: list[int]) -> None:
    for number in numbers:
        child = os.fork()
        if child == 0:
            try:
                make_changes_until(folder / str(number), number)
                os._exit(0)
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        say("end")


def stream(folder: Path) -> None:
    store = SqliteStore(folder)
    head = store.head("s")
    say(f"from {head}")
    while True:
        size = 1 + head % 5
        head = store.append("s", head, records(head + 1, head + size))
        say(str(head))


def crowd(folder: Path) -> None:
    store = SqliteStore(folder)

    def write(session: str) -> None:
        head = store.head(session)
        while True:
            head = store.append(session, head, records(head + 1, head + 1 + head % 2))
            say(f"{session} {head}")

    for number in range(8):
        threading.Thread(target=write, args=(f"s{number}",)).start()


def outlive(folder: Path) -> None:
    """Threads that write together for the first time after the main thread has ended."""
    store, ended, barrier = SqliteStore(folder), threading.main_thread(), threading.Barrier(4)

    def write(session: str) -> None:
        ended.join()
        barrier.wait()
        head = 0
        while head < 50:
            head = store.append(session, head, records(head + 1, head + 1))
            say(f"{session} {head}")

    for number in range(4):
        threading.Thread(target=write, args=(f"s{number}",)).start()


def race(folder: Path, name: str) -> None:
    store = SqliteStore(folder)
    for number in range(60):
        while True:
            try:
                place = store.append("s", store.head("s"), [f"{name} {number}".encode()])
            except StaleHead:
                continue
            say(f"{place} {name} {number}")
            break
    store.close()


def churn(folder: Path) -> None:
    store = SqliteStore(folder)
    say("ready")
    while True:
        for head in range(0, 300, 3):
            store.append("s", head, records(head + 1, head + 3))
        store.fork("s", 100, "f")
        store.delete("s")
        store.delete("f")


if __name__ == "__main__":
    what, where, *more = sys.argv[1:]
    if what == "steps":
        each_step(Path(where), list(map(int, more)))
    elif what == "stream":
        stream(Path(where))
    elif what == "crowd":
        crowd(Path(where))
    elif what == "outlive":
        outlive(Path(where))
    elif what == "churn":
        churn(Path(where))
    else:
        race(Path(where), more[0])
