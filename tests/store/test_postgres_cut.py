"""The connection of the PostgreSQL store is cut in the middle of an append: what it says then is true and final."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.store.conftest import run_sql, wait_until
from tests.store.proxy import MARK, Proxy
from tidegate.core.errors import NotKept
from tidegate.store.errors import StaleHead, StoreUnreachable
from tidegate.store.postgres import PostgresStore
from tidegate.store.postgres.statements import BATCH_BYTES


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    proxy = Proxy(postgres_url)
    yield proxy
    proxy.close()


@pytest.fixture
def store(proxy: Proxy) -> Iterator[PostgresStore]:
    store = PostgresStore(proxy.url, timeout=5)
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
def test_the_request_is_lost_and_can_be_repeated(store: PostgresStore, proxy: Proxy, after: int) -> None:
    store.append("s", 0, [b"1"] * after)
    proxy.cut = "request"
    with pytest.raises(NotKept, match=r"Nothing was written\. Try again"):
        store.append("s", after, [MARK])
    assert proxy.done.is_set(), "nothing was cut"
    assert store.head("s") == after
    assert store.append("s", after, [MARK]) == after + 1
    assert list(store.read("s")) == [b"1"] * after + [MARK]


@pytest.mark.parametrize("after", [0, 1])
def test_a_request_that_comes_late_is_not_done_any_more(store: PostgresStore, proxy: Proxy, after: int) -> None:
    """It lay in the network when the connection broke. Done after the look, it would be there twice."""
    store.append("s", 0, [b"1"] * after)
    proxy.cut = "late"
    with pytest.raises(NotKept, match="Nothing was written"):
        store.append("s", after, [MARK])
    proxy.late.set()
    assert proxy.handed.wait(20)
    assert store.append("s", after, [MARK, b"again"]) == after + 2
    assert list(store.read("s")) == [b"1"] * after + [MARK, b"again"]


def test_a_server_that_is_still_at_it_is_stopped_first(store: PostgresStore, proxy: Proxy, postgres_url: str) -> None:
    """The request waits for a lock on the server when the connection breaks; the lock is let go after the look."""
    store.append("s", 0, [b"1"])
    waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    other = PostgresStore(postgres_url)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(postgres_url) as link:
        link.execute("select 1 from tidegate_sessions where name = 's' for update")
        proxy.cut = "answer"
        appending = pool.submit(store.append, "s", 1, [MARK])
        assert wait_until(lambda: run_sql(postgres_url, waiting) != [])
        proxy.cut_now()
        assert isinstance(appending.exception(30), NotKept)
    assert store.append("s", 1, [MARK]) == 2
    assert list(other.read("s")) == [b"1", MARK]
    other.close()


def test_others_were_faster_meanwhile(store: PostgresStore, proxy: Proxy, postgres_url: str) -> None:
    store.append("s", 0, [b"1"])
    proxy.cut = "request"
    other = PostgresStore(postgres_url)
    other.append("s", 1, [b"theirs"])
    with pytest.raises(NotKept):
        store.append("s", 1, [MARK])
    with pytest.raises(StaleHead):
        store.append("s", 1, [MARK])
    other.close()


def test_a_large_append_is_looked_for_whole(store: PostgresStore, proxy: Proxy) -> None:
    """The connection breaks in the second of its three parts: nothing of the first may pass for it."""
    large = [bytes(BATCH_BYTES - 5), MARK * 2, bytes(BATCH_BYTES)]
    proxy.cut = "answer"
    with pytest.raises(NotKept):
        store.append("s", 0, large)
    assert store.head("s") == 0
    assert store.append("s", 0, large) == 3


def test_no_look_is_possible(postgres_url: str, proxy: Proxy) -> None:
    store = PostgresStore(proxy.url, timeout=0.5, connections=1)
    store.append("s", 0, [b"1"])
    proxy.cut = "answer"
    proxy.refuse()
    with pytest.raises(StoreUnreachable, match="It is not known whether the records were written"):
        store.append("s", 1, [MARK])
    with pytest.raises(NotKept, match=r"No connection.*nothing was written"):
        store.append("s", 2, [b"x"])
    store.close()
    other = PostgresStore(postgres_url)
    assert list(other.read("s")) == [b"1", MARK]
    other.close()


def test_behind_a_pooler_nothing_is_claimed(proxy: Proxy) -> None:
    """The process that it names is its own: whether the server's is at an end cannot be seen."""
    proxy.pools = True
    store = PostgresStore(proxy.url, timeout=5)
    assert store.append("s", 0, [b"1"]) == 1
    proxy.cut = "request"
    with pytest.raises(StoreUnreachable, match="It is not known whether the records were written"):
        store.append("s", 1, [MARK])
    assert store.append("s", 1, [MARK]) == 2
    store.close()
