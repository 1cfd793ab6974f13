"""The store in PostgreSQL beside others: other writing processes, forks and deletes under appends, killed servers."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import psycopg
import pytest

from tests.scale import scaled
from tests.store.conftest import answers, run_sql, wait_until
from tidegate.core.errors import BadInput, NotKept
from tidegate.store.errors import SessionNotFound, StaleHead, StoreUnreachable
from tidegate.store.postgres import PostgresStore
from tidegate.store.postgres.statements import BATCH_RECORDS
from tidegate.store.store import Store

WRITER = Path(__file__).with_name("appending.py")
OTHERS = "pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'"


@pytest.fixture
def store(store_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(store_url)
    yield store
    store.close()


@pytest.mark.exhaustive
def test_four_processes_append_to_one_session(store: PostgresStore, store_url: str) -> None:
    """They write in three rounds and wait for each other in between, so that none of them is done before another."""
    count, rounds = 20, 3
    command = [sys.executable, str(WRITER), store_url, "s"]
    writers = [
        subprocess.Popen(
            [*command, name, str(rounds), str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in "abcd"
    ]
    acknowledged: list[list[str]] = []
    for _ in range(rounds):
        for writer in writers:
            assert writer.stdout is not None
            acknowledged += [line.split() for line in iter(writer.stdout.readline, "ready\n") if line]
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
    acknowledged += [line.split() for writer in writers for line in writer.communicate()[0].splitlines()]
    assert [writer.returncode for writer in writers] == [0] * 4
    records = [record.decode() for record in store.read("s")]
    total = rounds * count
    assert sorted(int(seq) for seq, _ in acknowledged) == list(range(1, 4 * total + 1))
    assert all(records[int(seq) - 1] == record for seq, record in acknowledged)
    assert len(records) == len(set(records)) == 4 * total
    for name in "abcd":  # each writer's own order is kept
        assert [record for record in records if record[0] == name] == [f"{name}-{number}" for number in range(total)]


def terminate(url: str) -> None:
    """End all connections of others, and wait until they are gone: a signal alone may come after what it was to cut."""
    run_sql(url, f"select pg_terminate_backend(pid, 60000) from pg_stat_activity where {OTHERS}")


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

    def goes_on(self) -> bool:
        """Whether it writes some more."""
        count = len(self.acknowledged) + 5
        return wait_until(lambda: len(self.acknowledged) >= count)


def judge(writing: Writing, url: str) -> None:
    told = ("Nothing was written.", "It is not known whether the records were written: read from your last record on.")
    assert [loss for loss in writing.losses if not any(word in loss for word in told)] == []
    fresh = PostgresStore(url)
    records = list(fresh.read("s"))
    fresh.close()
    assert [(seq, records[seq - 1]) for seq, _ in writing.acknowledged] == writing.acknowledged
    assert records == [b"%d" % number for number in range(1, len(records) + 1)]


def wait_for_append(url: str) -> int:
    """The number of the server process whose append waits for the lock of its session."""
    waiting = f"select pid from pg_stat_activity where wait_event_type = 'Lock' and state = 'active' and {OTHERS}"
    found: list[tuple[object, ...]] = []

    def look() -> bool:
        found[:] = run_sql(url, waiting)
        return bool(found)

    assert wait_until(look), "nothing is appended"
    return int(str(found[0][0]))


def cut_appends(url: str, writing: Writing, *, times: int) -> None:
    """End the connection of an append in the midst of its execution, and that of the repeated one, too, if `times` is
    2. A lock on its session keeps it there."""
    with closing(psycopg.connect(url)) as gate:
        gate.execute("select 1 from tidegate_sessions for update")
        losses = len(writing.losses)
        for _ in range(times):
            run_sql(url, f"select pg_terminate_backend({wait_for_append(url)}, 60000)")
        if times > 1:
            assert wait_until(lambda: len(writing.losses) > losses), "the caller was not told"


def is_dropped(link: psycopg.Connection) -> bool:
    try:
        link.execute("select 1")
    except psycopg.OperationalError:
        return True
    return False


def kill_append(url: str, writing: Writing, *, times: int) -> None:
    """Kill the process of an append. The server drops all connections and comes back from its write-ahead log."""
    for _ in range(times):
        with closing(psycopg.connect(url)) as gate:
            gate.execute("select 1 from tidegate_sessions for update")
            os.kill(wait_for_append(url), signal.SIGKILL)
            assert wait_until(lambda: is_dropped(gate))
    assert wait_until(lambda: answers(url))


@pytest.mark.parametrize(("cut", "rounds"), [(cut_appends, 3), (kill_append, 1)])
def test_what_was_acknowledged_survives(
    store: PostgresStore, store_url: str, cut: Callable[..., None], rounds: int
) -> None:
    writing = Writing(store)
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(writing.run)
        try:
            for number in range(rounds):
                assert writing.goes_on(), end.exception(1)
                cut(store_url, writing, times=1 + number % 2)
            assert writing.goes_on(), end.exception(1)
        finally:
            writing.stop.set()
        end.result(600)
    judge(writing, store_url)


@pytest.mark.exhaustive
def test_what_was_acknowledged_survives_wherever_it_is_cut(store: PostgresStore, store_url: str) -> None:
    """Connections end at any time: between appends, in the midst of one, or after its commit."""
    writing = Writing(store)
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(writing.run)
        try:
            for _ in range(scaled(30)):
                assert writing.goes_on(), end.exception(1)
                run_sql(store_url, f"select pg_terminate_backend(pid) from pg_stat_activity where {OTHERS}")
        finally:
            writing.stop.set()
        end.result(600)
    judge(writing, store_url)


def test_a_connection_lost_at_rest_costs_nothing(store: PostgresStore, store_url: str) -> None:
    store.append("s", 0, [b"1"])
    for head in range(1, 4):
        terminate(store_url)  # the pool may be about to open another by itself: that one stays
        assert store.append("s", head, [b"next"]) == head + 1


def test_a_connection_lost_under_a_long_read_is_told(store: PostgresStore, store_url: str) -> None:
    records = [b"%d" % number for number in range(4 * BATCH_RECORDS)]
    store.append("s", 0, records)
    reading = store.read("s")
    got = [next(reading) for _ in range(BATCH_RECORDS + 1)]
    terminate(store_url)
    with pytest.raises(StoreUnreachable, match=r"Read again\. The next call connects again"):
        got.extend(reading)
    assert list(store.read("s")) == records


def test_forks_beside_appends_are_whole(store: PostgresStore) -> None:
    """The writer does not stop before there are forks of several places."""
    forks: dict[int, str] = {}
    enough = Event()

    def write() -> int:
        head = 0
        while not enough.is_set():
            head = store.append("s", head, [b"%d" % (head + 1)])
        return head

    def fork() -> None:
        try:
            while len(forks) < 6:
                head = store.head("s")
                if head and head not in forks:
                    store.fork("s", head, f"fork at {head}")
                    forks[head] = f"fork at {head}"
        finally:
            enough.set()

    with ThreadPoolExecutor(2) as pool:
        writing, forking = pool.submit(write), pool.submit(fork)
        forking.result()
        count = writing.result()
    for head, name in forks.items():
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


def test_deletes_beside_appends_leave_nothing_half(store: PostgresStore, store_url: str) -> None:
    """After a delete a session begins anew at 1: whatever is there is the work of one life, whole."""
    stop = Event()
    writing = [Event(), Event()]

    def write(has_written: Event) -> None:
        head = 0
        while not stop.is_set():
            try:
                head = store.append("s", head, [b"%d" % head])
                has_written.set()
            except StaleHead:
                head = store.head("s")

    def delete() -> None:
        gone = 0
        while gone < 25 or not all(writer.is_set() for writer in writing):
            try:
                store.delete("s")
                gone += 1
            except SessionNotFound:
                continue

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, writer) for writer in writing]
        try:
            pool.submit(delete).result(timeout=600)
        finally:
            stop.set()
        for writer in writers:
            writer.result()
    store.append("s", store.head("s"), [b"%d" % store.head("s")])
    assert list(store.read("s")) == [b"%d" % place for place in range(store.head("s"))]
    assert run_sql(store_url, "select count(*) from tidegate_records") == [(store.head("s"),)]
