"""The connection of the PostgreSQL store is cut in the middle of an append: what it says then is true and final."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.store.conftest import run_sql, wait_for_connection, wait_until
from tests.store.proxy import MARK, Cut, Proxy
from tidegate.core.errors import NotKept
from tidegate.store.errors import StaleHead, StoreUnreachable
from tidegate.store.postgres import PostgresStore
from tidegate.store.postgres.statements import BATCH_BYTES, BATCH_RECORDS


@pytest.fixture
def proxy(store_url: str) -> Iterator[Proxy]:
    proxy = Proxy(store_url)
    yield proxy
    proxy.close()


@pytest.fixture
def store(proxy: Proxy) -> Iterator[PostgresStore]:
    store = PostgresStore(proxy.url, timeout=60)
    yield store
    store.close()


@pytest.mark.parametrize("after", [0, 1, 7])
def test_the_answer_is_lost_and_the_records_are_there(store: PostgresStore, proxy: Proxy, after: int) -> None:
    """After the commit, before the answer: the server's process is well, and idle."""
    store.append("other", 0, [b"x"])
    before = [b"%d" % number for number in range(after)]
    store.append("s", 0, before)
    proxy.cut = "answer"
    assert store.append("s", after, [MARK, b"and one more"]) == after + 2
    assert proxy.done.is_set(), "nothing was cut"
    assert list(store.read("s")) == [*before, MARK, b"and one more"]
    assert store.append("s", after + 2, [b"on"]) == after + 3


@pytest.mark.parametrize("after", [0, 1])
def test_a_request_that_is_lost_is_repeated(store: PostgresStore, proxy: Proxy, after: int) -> None:
    store.append("s", 0, [b"1"] * after)
    proxy.cut = "request"
    assert store.append("s", after, [MARK]) == after + 1
    assert proxy.done.is_set(), "nothing was cut"
    assert list(store.read("s")) == [b"1"] * after + [MARK]


@pytest.mark.parametrize("after", [0, 1])
def test_a_request_that_comes_late_is_not_done_any_more(
    store: PostgresStore, proxy: Proxy, store_url: str, after: int
) -> None:
    """It was in the network when the connection broke. Done after the repeated one, it would be there twice."""
    store.append("s", 0, [b"1"] * after)
    proxy.cut = "late"
    assert store.append("s", after, [MARK]) == after + 1
    proxy.late.set()
    assert proxy.handed.wait(120)
    others = "select 1 from pg_stat_activity where state = 'active' and datname = current_database() and query ~ 'mine'"
    assert wait_until(lambda: run_sql(store_url, others + " and pid <> pg_backend_pid()") == [])
    assert store.append("s", after + 1, [b"on"]) == after + 2
    assert list(store.read("s")) == [b"1"] * after + [MARK, b"on"]


def test_a_server_that_still_executes_the_append_does_it_once(
    store: PostgresStore, proxy: Proxy, store_url: str
) -> None:
    """The request waits for a lock on the server when the connection breaks, and the repeated one waits with it."""
    store.append("s", 0, [b"1"])
    waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    other = PostgresStore(store_url)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(store_url) as link:
        link.execute("select 1 from tidegate_sessions where name = 's' for update")
        proxy.cut = "answer"
        appending = pool.submit(store.append, "s", 1, [MARK])
        assert wait_until(lambda: run_sql(store_url, waiting) != [])
        proxy.cut_now()
        assert wait_until(lambda: len(run_sql(store_url, waiting)) == 2)
        link.rollback()
        assert appending.result(120) == 2
    assert list(other.read("s")) == [b"1", MARK]
    other.close()


def test_others_were_faster_meanwhile(store: PostgresStore, proxy: Proxy, store_url: str) -> None:
    store.append("s", 0, [b"1"])
    proxy.cut = "request"
    other = PostgresStore(store_url)
    other.append("s", 1, [b"theirs"])
    with pytest.raises(StaleHead):
        store.append("s", 1, [MARK])
    assert proxy.done.is_set(), "nothing was cut"
    assert list(other.read("s")) == [b"1", b"theirs"]
    other.close()


def fill_pool(store: PostgresStore, connections: int) -> None:
    """Have the store open so many connections: later it need not wait for one longer than its timeout."""
    wait_for_connection(store)
    store.append("long", 0, [b"x"] * (3 * BATCH_RECORDS))
    reads: list[Iterator[bytes]] = []
    while len(reads) < connections:
        try:
            reading = store.read("long")
            for _ in range(BATCH_RECORDS + 1):
                next(reading)  # from the second page on it holds a connection
        except StoreUnreachable:
            continue
        reads.append(reading)


@pytest.mark.parametrize(("cut", "timeout"), [("request", 60), pytest.param("answer", 3, marks=pytest.mark.exhaustive)])
def test_a_large_append_is_looked_for_whole(cut: Cut, timeout: float, proxy: Proxy) -> None:
    """The connection breaks in the second of its three parts: nothing of the first may pass for it. If the answer is
    lost, the server does not notice, and waits for the rest as long as the store's timeout."""
    large = [bytes(BATCH_BYTES - 5), MARK * 2, bytes(BATCH_BYTES)]
    store = PostgresStore(proxy.url, timeout=timeout)
    fill_pool(store, 4)
    proxy.cut = cut
    assert store.append("s", 0, large) == 3
    assert proxy.done.is_set(), "nothing was cut"
    assert list(store.read("s")) == large
    store.close()


def test_no_look_is_possible(store_url: str, proxy: Proxy) -> None:
    store = PostgresStore(proxy.url, timeout=0.2, connections=1)
    wait_for_connection(store)
    store.append("s", 0, [b"1"])
    proxy.cut = "answer"
    proxy.refuse()
    with pytest.raises(StoreUnreachable, match="It is not known whether the records were written"):
        store.append("s", 1, [MARK])
    with pytest.raises(NotKept, match=r"No connection.*nothing was written"):
        store.append("s", 2, [b"x"])
    store.close()
    other = PostgresStore(store_url)
    assert list(other.read("s")) == [b"1", MARK]
    other.close()


def test_a_repeated_append_that_is_lost_too_claims_nothing(store: PostgresStore, proxy: Proxy) -> None:
    assert store.append("s", 0, [b"1"]) == 1
    proxy.cut, proxy.times = "request", 2
    with pytest.raises(StoreUnreachable, match="It is not known whether the records were written"):
        store.append("s", 1, [MARK])
    assert store.append("s", 1, [MARK]) == 2
