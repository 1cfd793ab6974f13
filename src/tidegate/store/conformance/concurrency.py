"""Concurrent actions for the checks."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tidegate.store.conformance.assertions import expect_equal, read_records
from tidegate.store.errors import SessionNotFound, StaleHead
from tidegate.store.store import Store


def run_in_threads(works: Sequence[Callable[[], object]]) -> None:
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - raised again by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise AssertionError(f"one of them failed: {failures[0]!r}") from failures[0]


def check_racing_appends(stores: list[Store]) -> None:
    """Each writer appends its own records, and on StaleHead reads on and tries again."""
    each = 40

    def write(writer: int) -> None:
        for number in range(each):
            append_with_retry(stores[writer], b"%d:%d" % (writer, number))

    run_in_threads([partial(write, writer) for writer in range(len(stores))])
    records = read_records(stores[0], "s")
    expect_equal(stores[0].head("s"), len(stores) * each, "head")
    for writer in range(len(stores)):
        own = [record for record in records if record.startswith(b"%d:" % writer)]
        expect_equal(
            own, [b"%d:%d" % (writer, number) for number in range(each)], f"records of writer {writer}, in order"
        )


def append_with_retry(store: Store, record: bytes) -> None:
    for head in _heads(store):
        try:
            store.append("s", head, [record])
        except StaleHead:
            continue
        return


def _heads(store: Store) -> Iterator[int]:
    for _ in range(100_000):
        yield store.head("s")
    raise AssertionError("100,000 appends in a row were stale")


def check_removal_during_use(writing: Store, removing: Store) -> None:
    """One thread appends, another removes the session if its head is the one last seen. An append that was acknowledged
    before the removal must have been seen by the thread that removed."""
    lives: list[int] = []
    last_heads: list[int] = []
    writer_ended = threading.Event()

    def write() -> None:
        try:
            while len(lives) < 20:
                lives.append(_append_until_removed(writing))
        finally:
            writer_ended.set()

    def remove() -> None:
        while not writer_ended.is_set():
            head = removing.head("s")
            try:
                removing.delete("s", head)
                last_heads.append(head)
            except StaleHead:
                continue
            except SessionNotFound:
                time.sleep(0.001)

    run_in_threads([write, remove])
    expect_equal(last_heads[:20], lives, "where sessions ended for who removed them, and for who wrote them")


def _append_until_removed(store: Store) -> int:
    """Append until the session is removed; after some records, only read. Return the last head."""
    head = 0
    for _ in range(1_000):
        try:
            if head < 8 or store.head("s") == 0:
                head = store.append("s", head, [b"x"])
            else:
                time.sleep(0.001)
        except StaleHead:
            return head
    raise AssertionError("a session that nobody writes to was not removed")
