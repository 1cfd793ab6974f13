"""What several do at once, for checks of every part."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tidegate.store.conformance.saying import all_of, same
from tidegate.store.errors import Missing, Stale
from tidegate.store.store import Store


def at_once(works: Sequence[Callable[[], object]]) -> None:
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise AssertionError(f"one of them failed: {failures[0]!r}") from failures[0]


def race(stores: list[Store]) -> None:
    """Each writer appends its own records, and on Stale reads on and tries again."""
    each = 40

    def write(writer: int) -> None:
        for number in range(each):
            push(stores[writer], b"%d:%d" % (writer, number))

    at_once([partial(write, writer) for writer in range(len(stores))])
    found = all_of(stores[0], "s")
    same(stores[0].head("s"), len(stores) * each, "head")
    for writer in range(len(stores)):
        own = [record for record in found if record.startswith(b"%d:" % writer)]
        same(own, [b"%d:%d" % (writer, number) for number in range(each)], f"records of writer {writer}, in order")


def push(store: Store, record: bytes) -> None:
    for head in _heads(store):
        try:
            store.append("s", head, [record])
        except Stale:
            continue
        return


def _heads(store: Store) -> Iterator[int]:
    for _ in range(100_000):
        yield store.head("s")
    raise AssertionError("100,000 appends in a row were stale")


def use_and_remove(writing: Store, removing: Store) -> None:
    """One appends, the other removes the session if it ends where it was last seen to end: no append that was
    acknowledged before a removal may be news to the one who removed."""
    lives: list[int] = []
    removed: list[int] = []
    done = threading.Event()

    def write() -> None:
        try:
            while len(lives) < 20:
                lives.append(_life(writing))
        finally:
            done.set()

    def remove() -> None:
        while not done.is_set():
            head = removing.head("s")
            try:
                removing.delete("s", head)
                removed.append(head)
            except Stale:
                continue
            except Missing:
                time.sleep(0.001)

    at_once([write, remove])
    same(removed[:20], lives, "where sessions ended for who removed them, and for who wrote them")


def _life(store: Store) -> int:
    """Append until the session is gone; after some, only look. Gives how far it came."""
    head = 0
    for _ in range(1_000):
        try:
            if head < 8 or store.head("s") == 0:
                head = store.append("s", head, [b"x"])
            else:
                time.sleep(0.001)
        except Stale:
            return head
    raise AssertionError("a session that nobody writes to was not removed")
