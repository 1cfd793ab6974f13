"""Threads of one process, each in a session of its own, in one store: what they append may join one commit.

Which of them is where when the process is cut is chance, so there is no reference: each writer's records are numbered,
and there must be as many as were acknowledged to it, or one append more.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from tests.crash.acts import Scene
from tests.crash.cuts import Shim, Told
from tests.crash.worlds import World
from tidegate.core.errors import NotKept

WRITERS, EACH = 6, 9
T = TypeVar("T")
Tell = Callable[[bytes], None]


def _batch(writer: int, number: int) -> list[bytes]:
    return [b"%d %d %d " % (writer, number, place) * (1 + number * 5) for place in range(1 + (writer + number) % 3)]


def write_together(world: World, tell: Tell) -> None:
    shim = Shim()
    faults: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            head = 0
            for number in range(EACH):
                append = partial(store.append, str(writer), head, _batch(writer, number))
                head = _twice(append, tell)
                tell(msgspec.json.encode(Told(number, "done", head, text=str(writer), taped=shim.taped)))
        except BaseException as fault:  # noqa: BLE001 - raised by the main thread
            faults.append(fault)

    store = _twice(lambda: world.store, tell)
    shim.slow(2_000)
    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    shim.slow(0)
    store.close()


def _twice(act: Callable[[], T], tell: Tell) -> T:
    """Where the disk refused, room is made and it is tried again."""
    while True:
        try:
            return act()
        except NotKept as refusal:
            if not Shim().refused or not refusal.remedy:
                raise
            Shim().disarm()
            tell(msgspec.json.encode(Told(-1, "refused")))


def judge_together(world: World, told: list[Told]) -> None:
    store = world.store
    names = {info.name for info in store.sessions()}
    for writer in range(WRITERS):
        name = str(writer)
        found = list(store.read(name)) if name in names else []
        acknowledged = sum(line.what == "done" and line.text == name for line in told)
        wanted: list[bytes] = []
        for number in range(acknowledged):
            wanted += _batch(writer, number)
        more = [*wanted, *_batch(writer, acknowledged)] if acknowledged < EACH else wanted
        if found not in (wanted, more):
            raise AssertionError(f"writer {writer}: {len(found)} records, {len(wanted)} or {len(more)} were expected")
        if store.append(name, len(found), [b"on"]) != len(found) + 1:
            raise AssertionError(f"writer {writer} cannot go on")


TOGETHER = Scene("together", (), talks=False, free=write_together)
