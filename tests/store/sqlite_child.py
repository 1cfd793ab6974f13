"""A process that writes to a SQLite store and says what was acknowledged, to be killed at any time.

python sqlite_child.py steps FOLDER        a process for each step of a fixed list of changes, which kills itself there
python sqlite_child.py stream FOLDER       append until you are killed
python sqlite_child.py crowd FOLDER        the same with eight threads, each with a session of its own
python sqlite_child.py race FOLDER NAME    append 60 records beside others, retrying when stale
python sqlite_child.py quota FOLDER BYTES  append until no file may grow beyond that
"""

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import cast

from tidegate.core.errors import NotKept
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


def steps(folder: Path, number: int) -> None:
    seen: list[str] = []

    def step(name: str) -> None:
        if name == "session read":  # nothing is written there
            return
        seen.append(name)
        if name == "committed":
            say(name)
        if len(seen) == number:
            say(f"at {name}")
            os.kill(os.getpid(), signal.SIGKILL)

    store = SqliteStore(folder, step=step)
    for change in CHANGES:
        change(store)
        say("done")
    store.close()
    say("whole")


def every_step(folder: Path) -> None:
    """Until one of them comes to its end."""
    code, number = -1, 0
    while code < 0:
        number += 1
        child = os.fork()
        if child == 0:
            try:
                steps(folder / str(number), number)
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
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
        Thread(target=write, args=(f"s{number}",)).start()


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


def quota(folder: Path, size: int) -> None:
    store = SqliteStore(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    head = store.head("s")
    try:
        while head < 5000:
            head = store.append("s", head, records(head + 1, head + 3))
            say(str(head))
    except NotKept:
        say("refused")
    if store.head("s") != head or len(list(store.read("s"))) != head:
        say("wrong")


if __name__ == "__main__":
    what, where, *more = sys.argv[1:]
    if what == "steps":
        every_step(Path(where))
    elif what == "stream":
        stream(Path(where))
    elif what == "crowd":
        crowd(Path(where))
    elif what == "churn":
        churn(Path(where))
    elif what == "race":
        race(Path(where), more[0])
    else:
        quota(Path(where), int(more[0]))
