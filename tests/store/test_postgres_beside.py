"""The store in PostgreSQL beside others: other writing processes, forks and deletes under appends, killed servers."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from tests.store.conftest import answers, run_sql, wait_until
from tidegate.core.errors import BadInput, NotKept
from tidegate.store.errors import SessionNotFound, StaleHead, StoreUnreachable
from tidegate.store.postgres import PostgresStore
from tidegate.store.postgres.statements import BATCH_RECORDS
from tidegate.store.store import Store

WRITER = Path(__file__).with_name("appending.py")
OTHERS = "pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'"


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    yield store
    store.close()


def test_four_processes_append_to_one_session(store: PostgresStore, postgres_url: str) -> None:
    count = 60
    command = [sys.executable, str(WRITER), postgres_url, "s"]
    writers = [
        subprocess.Popen([*command, name, str(count)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in "abcd"
    ]
    outputs = [writer.communicate(timeout=60) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4, outputs
    records = [record.decode() for record in store.read("s")]
    acknowledged = [line.split() for output, _ in outputs for line in output.splitlines()]
    assert sorted(int(seq) for seq, _ in acknowledged) == list(range(1, 4 * count + 1))
    assert all(records[int(seq) - 1] == record for seq, record in acknowledged)
    assert len(records) == len(set(records)) == 4 * count
    for name in "abcd":  # each writer's own order is kept
        assert [record for record in records if record[0] == name] == [f"{name}-{number}" for number in range(count)]
    turns = sum(one[0] != other[0] for one, other in pairwise(records))
    assert turns > 4, "the writers did not run at the same time"


def terminate(url: str, wait: int = 0) -> None:
    """`wait`: milliseconds until they are gone; a signal alone may come after what it was to cut."""
    run_sql(url, f"select pg_terminate_backend(pid, {wait}) from pg_stat_activity where {OTHERS}")


def kill(url: str) -> None:
    """The postmaster then drops every connection, and comes back from its write-ahead log."""
    for (pid,) in run_sql(url, f"select pid from pg_stat_activity where {OTHERS} limit 1"):
        os.kill(int(str(pid)), signal.SIGKILL)


class Writing:
    """A writer on its own thread, and what it was told. It repeats what was not kept, and looks if it is not known."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.acknowledged: list[tuple[int, bytes]] = []
        self.losses: list[str] = []
        self.stop = Event()

    def run(self) -> None:
        head = 0
        while not self.stop.is_set():
            record = b"%d" % (len(self.acknowledged) + 1)
            try:
                head = self.store.append("s", head, [record])
            except NotKept as error:
                self.losses.append(str(error))
                continue
            except StoreUnreachable as error:
                self.losses.append(str(error))
                if not self.landed(head, record):
                    continue
                head += 1
            self.acknowledged.append((head, record))

    def landed(self, head: int, record: bytes) -> bool:
        """After a lost connection a careful caller looks before it writes again. The only writer: one record on."""
        while True:
            try:
                return self.store.head("s") > head and list(self.store.read("s", head + 1)) == [record]
            except StoreUnreachable:
                continue

    def reaches(self, count: int) -> bool:
        return wait_until(lambda: len(self.acknowledged) >= count, 60)


@pytest.mark.parametrize(("cut", "times"), [(terminate, 8), (kill, 1)])
def test_what_was_acknowledged_survives(
    store: PostgresStore, postgres_url: str, cut: Callable[[str], None], times: int
) -> None:
    writing = Writing(store)
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(writing.run)
        try:
            while len(writing.losses) < times:
                assert writing.reaches(len(writing.acknowledged) + 10), end.exception(1)
                cut(postgres_url)
        finally:
            writing.stop.set()
        end.result(60)
    assert wait_until(lambda: answers(postgres_url), 60)
    told = ("Nothing was written.", "It is not known whether the records were written: read from your last record on.")
    assert [loss for loss in writing.losses if not any(word in loss for word in told)] == []
    fresh = PostgresStore(postgres_url)
    records = list(fresh.read("s"))
    fresh.close()
    assert [(seq, records[seq - 1]) for seq, _ in writing.acknowledged] == writing.acknowledged
    assert records == [b"%d" % number for number in range(1, len(records) + 1)]


def test_a_connection_lost_at_rest_costs_nothing(store: PostgresStore, postgres_url: str) -> None:
    store.append("s", 0, [b"1"])
    for head in range(1, 4):
        terminate(postgres_url, wait=10_000)  # the pool may be about to open another by itself: that one stays
        assert store.append("s", head, [b"next"]) == head + 1


def test_a_connection_lost_under_a_long_read_is_told(store: PostgresStore, postgres_url: str) -> None:
    records = [b"%d" % number for number in range(4 * BATCH_RECORDS)]
    store.append("s", 0, records)
    reading = store.read("s")
    got = [next(reading) for _ in range(BATCH_RECORDS + 1)]
    terminate(postgres_url, wait=10_000)
    with pytest.raises(StoreUnreachable, match=r"Read again\. The next call connects again"):
        got.extend(reading)
    assert list(store.read("s")) == records


def test_forks_beside_appends_are_whole(store: PostgresStore) -> None:
    count = 150

    def write() -> None:
        for head in range(count):
            store.append("s", head, [b"%d" % (head + 1)])

    def fork() -> list[tuple[str, int]]:
        made: list[tuple[str, int]] = []
        while (head := store.head("s")) < count:
            if head:
                store.fork("s", head, name := f"fork {len(made)}")
                made.append((name, head))
        return made

    with ThreadPoolExecutor(2) as pool:
        writing, forking = pool.submit(write), pool.submit(fork)
        writing.result()
        forks = forking.result()
    assert len({head for _, head in forks}) > 1, "no fork was made while the writer wrote"
    for name, head in forks:
        assert list(store.read(name)) == [b"%d" % number for number in range(1, head + 1)]
    assert store.head("s") == count


def test_one_of_many_forks_to_the_same_name_is_made(store: PostgresStore) -> None:
    store.append("s", 0, [b"1", b"2"])

    def fork(at: int) -> bool:
        try:
            store.fork("s", at, "new")
        except BadInput:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(fork, [1, 2, 1, 2])) == 1
    assert list(store.read("new")) in ([b"1"], [b"1", b"2"])


def test_deletes_beside_appends_leave_nothing_half(store: PostgresStore, postgres_url: str) -> None:
    """After a delete a session begins anew at 1: whatever is there is the work of one life, whole."""
    stop = Event()

    def write() -> int:
        number = 0
        head = 0
        while not stop.is_set():
            try:
                head = store.append("s", head, [b"%d" % head])
                number += 1
            except StaleHead:
                head = store.head("s")
        return number

    def delete() -> int:
        gone = 0
        while gone < 25:
            try:
                store.delete("s")
                gone += 1
            except SessionNotFound:
                continue
        return gone

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write) for _ in range(2)]
        try:
            assert pool.submit(delete).result(timeout=40) == 25
        finally:
            stop.set()
        assert all(writer.result() > 0 for writer in writers)
    store.append("s", store.head("s"), [b"%d" % store.head("s")])
    assert list(store.read("s")) == [b"%d" % place for place in range(store.head("s"))]
    assert run_sql(postgres_url, "select count(*) from tidegate_records") == [(store.head("s"),)]
