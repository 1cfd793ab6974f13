"""Appends of many asyncio tasks share a statement in PostgreSQL. Each of them is accepted or refused for itself."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.store.conftest import run_sql
from tests.store.proxy import MARK, Cut, Proxy
from tidegate.store.errors import StaleHead
from tidegate.store.postgres import PostgresStore
from tidegate.store.postgres.statements import BATCH_BYTES


@pytest.fixture
def store(store_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(store_url)
    yield store
    store.close()


async def append_all(store: PostgresStore, appends: list[tuple[str, int, list[bytes]]]) -> list[int | BaseException]:
    return await asyncio.gather(*(store.append_async(*each) for each in appends), return_exceptions=True)


def test_each_append_of_a_group_has_its_own_outcome(store: PostgresStore) -> None:
    store.append("known", 0, [b"1"])
    appends = [
        ("known", 1, [b"2", b"3"]),
        ("new", 0, [b"a"]),
        ("stale", 3, [b"x"]),
        ("known", 1, [b"too late"]),
        ("empty", 0, []),
        ("large", 0, [bytes(BATCH_BYTES + 1)]),
        *((f"s{number}", 0, [b"%d" % number]) for number in range(200)),
    ]
    outcomes = asyncio.run(append_all(store, appends))
    assert outcomes[0:2] == [3, 1]
    assert isinstance(outcomes[2], StaleHead)
    assert isinstance(outcomes[3], StaleHead)
    assert outcomes[4:] == [0, 1, *([1] * 200)]
    assert list(store.read("known")) == [b"1", b"2", b"3"]
    assert [list(store.read(f"s{number}")) for number in range(200)] == [[b"%d" % number] for number in range(200)]
    with pytest.raises(StaleHead, match="3"):
        asyncio.run(store.append_async("known", 2, [b"x"]))


def test_a_group_takes_few_transactions(store: PostgresStore, store_url: str) -> None:
    committed = "select count(distinct xmin::text) from tidegate_sessions"
    asyncio.run(append_all(store, [(f"s{number}", 0, [b"x"]) for number in range(300)]))
    assert run_sql(store_url, committed)[0][0] in range(1, 60)


@pytest.mark.parametrize("cut", ["request", "answer", "late"])
def test_a_group_whose_connection_is_lost_is_stored_once(store_url: str, cut: Cut) -> None:
    proxy = Proxy(store_url)
    store = PostgresStore(proxy.url, timeout=60)
    store.append("s1", 0, [b"1"])
    proxy.cut = cut
    appends = [("s0", 0, [b"a"]), ("s1", 1, [MARK]), ("s2", 0, [b"c", b"d"])]
    assert asyncio.run(append_all(store, appends)) == [1, 2, 2]
    assert proxy.done.is_set(), "nothing was cut"
    proxy.late.set()
    assert [list(store.read(name)) for name in ("s0", "s1", "s2")] == [[b"a"], [b"1", MARK], [b"c", b"d"]]
    store.close()
    proxy.close()
