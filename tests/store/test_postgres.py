"""The store in PostgreSQL, on a real server: its promises beside other processes, lost connections and odd settings."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import LiteralString

import psycopg
import pytest

from tests.store.conftest import run_sql, wait_for_connection, wait_until
from tidegate.core.errors import BadInput, NotKept
from tidegate.store.conformance import suite
from tidegate.store.errors import DamagedData, SessionNotFound, StaleHead, StoreUnreachable
from tidegate.store.memory import MemoryStore
from tidegate.store.postgres import MAX_RECORD, PostgresStore
from tidegate.store.postgres.migrations import MIGRATION_LOCK, MIGRATIONS
from tidegate.store.postgres.statements import BATCH_BYTES, BATCH_RECORDS
from tidegate.store.store import Store

ALL_BYTES = bytes(range(256))


@pytest.fixture
def store(store_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(store_url)
    yield store
    store.close()


@pytest.fixture
def new_store(postgres_url: str) -> Iterator[PostgresStore]:
    """A store in a database of its own, for tests that change more than records."""
    store = PostgresStore(postgres_url)
    yield store
    store.close()


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


@pytest.mark.parametrize("name", [check.name for check in suite(MemoryStore, lambda store: store)])
def test_the_published_suite(name: str, store_url: str) -> None:
    def again(_: Store) -> Store:
        return PostgresStore(store_url)

    {check.name: check for check in suite(lambda: PostgresStore(store_url), again)}[name].run()


# Append and read.


def test_what_is_appended_is_read_by_another_store(store: PostgresStore, store_url: str) -> None:
    assert store.append("s", 0, [b"", b"\0", ALL_BYTES]) == 3
    assert store.append("s", 3, [b"last"]) == 4
    other = PostgresStore(store_url)
    assert list(other.read("s")) == [b"", b"\0", ALL_BYTES, b"last"]
    assert other.head("s") == 4
    other.close()


@pytest.mark.parametrize("after", [-1, 0, 1, 3])
def test_a_stale_writer_writes_nothing(store: PostgresStore, after: int) -> None:
    store.append("s", 0, numbered(1, 2))
    with pytest.raises(StaleHead, match=f"ends with record 2, not {after}"):
        store.append("s", after, [b"x"])
    assert list(store.read("s")) == numbered(1, 2)


def test_an_empty_append_makes_nothing_but_is_checked(store: PostgresStore) -> None:
    assert store.append("s", 0, []) == 0
    assert store.sessions() == []
    store.append("s", 0, [b"1"])
    assert store.append("s", 1, []) == 1
    with pytest.raises(StaleHead):
        store.append("s", 0, [])


def test_a_large_append_is_whole_or_not_at_all(store: PostgresStore) -> None:
    large = [bytes([65 + place]) * (BATCH_BYTES // 2 + 1) for place in range(3)]
    assert store.append("s", 0, large) == 3
    with pytest.raises(StaleHead):
        store.append("s", 2, large)
    assert store.append("s", 3, large) == 6
    assert list(store.read("s")) == large + large


def test_a_large_append_that_fails_in_its_last_part_leaves_nothing(new_store: PostgresStore, postgres_url: str) -> None:
    large = [bytes([65 + place]) * (BATCH_BYTES // 2 + 1) for place in range(3)]
    run_sql(postgres_url, "alter table tidegate_records add check (get_byte(data, 0) <> 67)")
    new_store.append("s", 0, [b"1"])
    with pytest.raises(NotKept, match=r"violates check constraint.*Nothing was written") as caught:
        new_store.append("s", 1, large)
    assert "CCC" not in str(caught.value)
    assert list(new_store.read("s")) == [b"1"]
    assert new_store.append("s", 1, large[:2]) == 3


def test_a_record_the_database_cannot_hold_is_refused_before_it_is_sent(store: PostgresStore) -> None:
    with pytest.raises(BadInput, match="1000000001 bytes"):
        store.append("s", 0, [b"1", bytes(MAX_RECORD + 1)])
    assert store.head("s") == 0


@pytest.mark.parametrize("count", [1, BATCH_RECORDS - 1, BATCH_RECORDS, BATCH_RECORDS + 1, 3 * BATCH_RECORDS])
def test_reading_from_every_kind_of_place(store: PostgresStore, count: int) -> None:
    store.append("s", 0, numbered(1, count))
    for start in {-3, 0, 1, 2, count // 2, count - BATCH_RECORDS, count, count + 1, count + 9}:
        assert list(store.read("s", start)) == numbered(max(1, start), count)


def test_a_missing_session_is_told_at_once(store: PostgresStore) -> None:
    for act in (lambda: store.read("s"), lambda: store.delete("s"), lambda: store.fork("s", 1, "new")):
        with pytest.raises(SessionNotFound, match="no session 's'"):
            act()
    assert store.head("s") == 0


def test_reading_the_end_touches_only_the_end(postgres_url: str) -> None:
    """Rows that the server fetched, by its own count: what is new, however long the session."""

    def counted(columns: LiteralString) -> int:
        counts = run_sql(postgres_url, f"select {columns} from pg_stat_user_tables where relname = 'tidegate_records'")
        return int(str(counts[0][0]))

    def rows() -> int:
        return counted("idx_tup_fetch + seq_tup_read")

    # A server process reports its counts when it ends, which is some time after the connection was closed.
    writer = PostgresStore(postgres_url, connections=1)
    writer.append("s", 0, numbered(1, 20_000))
    writer.close()
    assert wait_until(lambda: counted("n_tup_ins") == 20_000)
    run_sql(postgres_url, "analyze")
    reader = PostgresStore(postgres_url, connections=1)
    before = rows()
    assert list(reader.read("s", 19_996)) == numbered(19_996, 20_000)
    reader.close()
    assert wait_until(lambda: rows() > before), "the server counts nothing"
    assert rows() - before <= 10


def test_a_long_read_is_one_snapshot(store: PostgresStore) -> None:
    count = 3 * BATCH_RECORDS
    store.append("s", 0, numbered(1, count))
    reading = store.read("s")
    begun = list(islice(reading, BATCH_RECORDS + 1))
    store.delete("s")
    assert begun + list(reading) == numbered(1, count)


def test_a_session_deleted_before_its_second_page_is_missing_not_shorter(store: PostgresStore) -> None:
    store.append("s", 0, numbered(1, 3 * BATCH_RECORDS))
    reading = store.read("s")
    next(reading)
    store.delete("s")
    store.append("s", 0, numbered(1, 5))
    with pytest.raises(SessionNotFound, match="deleted while it was read"):
        list(reading)


def test_reads_that_were_dropped_give_their_connections_back(store: PostgresStore, store_url: str) -> None:
    store.append("s", 0, numbered(1, 3 * BATCH_RECORDS))
    store = PostgresStore(store_url, connections=1, timeout=0.1)
    wait_for_connection(store)
    for _ in range(3):
        reading = store.read("s")
        list(islice(reading, BATCH_RECORDS + 1))
        with pytest.raises(StoreUnreachable, match=r"finish the reads"):
            store.head("s")
        del reading
        assert store.head("s") == 3 * BATCH_RECORDS
    store.close()


# Sessions, fork, delete.


def test_sessions_are_listed_the_last_used_first(store: PostgresStore) -> None:
    for name in ("a", "b", "Ünï 💧", "a"):
        store.append(name, store.head(name), [b"12345"])
    infos = store.sessions()
    assert [(info.name, info.head, info.size) for info in infos] == [("a", 2, 10), ("Ünï 💧", 1, 5), ("b", 1, 5)]
    assert all(0 <= info.used - info.created < 60 for info in infos)


def test_a_fork_goes_its_own_way(store: PostgresStore) -> None:
    store.append("s", 0, numbered(1, 5))
    store.fork("s", 3, "new")
    store.append("new", 3, [b"other"])
    store.delete("s")
    assert list(store.read("new")) == [*numbered(1, 3), b"other"]
    assert [(info.name, info.head, info.size) for info in store.sessions()] == [("new", 4, 8)]


def test_a_fork_that_cannot_be_changes_nothing(store: PostgresStore) -> None:
    store.append("s", 0, numbered(1, 2))
    store.append("t", 0, [b"x"])
    for at, new in ((0, "new"), (-1, "new"), (3, "new"), (1, "t"), (1, "s"), (1, ""), (1, "a\0b")):
        with pytest.raises(BadInput):
            store.fork("s", at, new)
    assert sorted(info.name for info in store.sessions()) == ["s", "t"]
    assert list(store.read("t")) == [b"x"]


def test_a_deleted_session_leaves_no_record(store: PostgresStore, store_url: str) -> None:
    store.append("s", 0, numbered(1, 9))
    store.delete("s")
    assert run_sql(store_url, "select count(*) from tidegate_records") == [(0,)]
    assert store.append("s", 0, [b"anew"]) == 1


# Settings, migrations, damage.


def settings_of_an_append(url: str) -> list[tuple[object, ...]]:
    """Append one record, and let the server note under which settings it does so."""
    store = PostgresStore(url)
    run_sql(url, "create table seen (durability text, isolation text)")
    run_sql(
        url,
        "create function note_settings() returns trigger language plpgsql as $$ begin"
        " insert into seen values (current_setting('synchronous_commit'), current_setting('transaction_isolation'));"
        " return new; end $$",
    )
    run_sql(url, "create trigger note after insert on tidegate_records for each row execute function note_settings()")
    store.append("s", 0, [b"1"])
    store.close()
    return run_sql(url, "select * from seen")


def test_an_append_is_durable_whatever_the_database_defaults_to(postgres_url: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    for setting in ("synchronous_commit = off", "default_transaction_isolation = 'serializable'"):
        run_sql(postgres_url, f"alter database {name} set {setting}")
    assert settings_of_an_append(postgres_url) == [("on", "read committed")]


def test_a_stronger_setting_is_left_alone(postgres_url: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    run_sql(postgres_url, f"alter database {name} set synchronous_commit = remote_apply")
    assert settings_of_an_append(postgres_url) == [("remote_apply", "read committed")]


def test_many_start_at_once_and_migrate_once(postgres_url: str) -> None:
    """The lock is held while they start, so that all of them are at the same place when it is let go."""
    with psycopg.connect(postgres_url) as gate, ThreadPoolExecutor(6) as pool:
        gate.execute("select pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        opening = [pool.submit(PostgresStore, postgres_url, connections=1) for _ in range(6)]
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        assert wait_until(lambda: run_sql(postgres_url, waiting) == [(6,)])
        gate.commit()
        stores = [each.result() for each in opening]
    for store in stores:
        store.append("s", store.head("s"), [b"x"])
        store.close()
    assert run_sql(postgres_url, "select name from tidegate_migrations") == [(step.__name__,) for step in MIGRATIONS]


def test_tables_of_a_newer_version_are_left_alone(new_store: PostgresStore, postgres_url: str) -> None:
    run_sql(postgres_url, "insert into tidegate_migrations (name) values ('of_the_future')")
    with pytest.raises(DamagedData, match=r"newer tidegate.*of_the_future.*Upgrade"):
        PostgresStore(postgres_url)


def test_a_role_without_the_right_to_create_can_work(new_store: PostgresStore, postgres_url: str) -> None:
    new_store.append("s", 0, [b"1"])
    role = "r_" + str(psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"])
    run_sql(postgres_url, f"create role {role} login")
    run_sql(postgres_url, f"grant select, insert, update, delete on tidegate_sessions, tidegate_records to {role}")
    run_sql(postgres_url, f"grant select on tidegate_migrations, tidegate_tenants to {role}")
    other = PostgresStore(postgres_url.replace("postgres:@", f"{role}@"))
    assert other.append("s", 1, [b"2"]) == 2
    run_sql(postgres_url, f"revoke insert on tidegate_records from {role}")
    with pytest.raises(NotKept, match=r"permission denied.*Nothing was written"):
        other.append("s", 2, [b"3"])
    assert list(new_store.read("s")) == [b"1", b"2"]
    other.close()
    run_sql(postgres_url, f"drop owned by {role}")
    run_sql(postgres_url, f"drop role {role}")


@pytest.mark.parametrize("gone", [1, 2, BATCH_RECORDS + 5, 2 * BATCH_RECORDS])
def test_a_hole_does_not_pass_for_the_end(store: PostgresStore, store_url: str, gone: int) -> None:
    store.append("s", 0, numbered(1, 2 * BATCH_RECORDS))
    run_sql(store_url, f"delete from tidegate_records where seq = {gone}")
    got: list[bytes] = []
    with pytest.raises(DamagedData, match=f"Record {gone} of session 's'"):
        got.extend(store.read("s"))
    reading = store.read("s")
    assert list(islice(reading, gone - 1)) == numbered(1, gone - 1)
    assert list(store.read("s", gone + 1)) == numbered(gone + 1, 2 * BATCH_RECORDS)


def test_a_hole_says_where_it_ends_and_can_be_filled(store: PostgresStore, store_url: str) -> None:
    store.append("s", 0, numbered(1, 20))
    store.append("t", 0, numbered(1, 20))
    run_sql(store_url, "delete from tidegate_records where seq between 5 and 9 or seq > 18")
    for start, gap in ((1, (5, 9)), (7, (7, 9)), (10, (19, 20))):
        with pytest.raises(
            DamagedData, match=rf"Records {gap[0]} to {gap[1]} of.*continue from record {gap[1] + 1}"
        ) as hole:
            list(store.read("s", start))
        assert (hole.value.first_record, hole.value.last_record) == gap
    store.rewrite("s", dict.fromkeys((5, 6, 7, 8, 9, 19, 20), b"lost"))
    assert list(store.read("s")) == [*numbered(1, 4), *[b"lost"] * 5, *numbered(10, 18), b"lost", b"lost"]
    assert store.append("s", 20, [b"on"]) == 21
    with pytest.raises(DamagedData):
        list(store.read("t"))


def test_a_record_of_many_batches(store: PostgresStore) -> None:
    large = b"%09d" * 100 % tuple(range(100)) * (3 * BATCH_BYTES // 900)
    assert store.append("s", 0, [b"before", large, b"after"]) == 3
    assert list(store.read("s")) == [b"before", large, b"after"]
    store.rewrite("s", {2: b"gone"})
    assert [info.size for info in store.sessions()] == [15]


def test_what_was_rewritten_leaves_no_row_behind(new_store: PostgresStore, postgres_url: str) -> None:
    """Also no dead one that a tool which reads the server's pages could show: vacuum has been there."""
    new_store.append("s", 0, [b"a secret"] * 50)
    new_store.rewrite("s", dict.fromkeys(range(1, 51), b"[forgotten]"))
    run_sql(postgres_url, "create extension pageinspect")
    rows = "select t_data from heap_page_items(get_raw_page('tidegate_records', 0)) where t_data is not null"
    found = [bytes(data) for (data,) in run_sql(postgres_url, rows) if isinstance(data, bytes)]
    assert len(found) == 50
    assert all(b"[forgotten]" in data for data in found)


def test_a_role_that_may_not_vacuum_can_rewrite(new_store: PostgresStore, postgres_url: str) -> None:
    new_store.append("s", 0, [b"1", b"2"])
    role = "v_" + str(psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"])
    run_sql(postgres_url, f"create role {role} login")
    run_sql(postgres_url, f"grant select, insert, update, delete on tidegate_sessions, tidegate_records to {role}")
    run_sql(postgres_url, f"grant select on tidegate_migrations, tidegate_tenants to {role}")
    other = PostgresStore(postgres_url.replace("postgres:@", f"{role}@"))
    other.rewrite("s", {1: b"one"})
    other.close()
    assert list(new_store.read("s")) == [b"one", b"2"]
    run_sql(postgres_url, f"drop owned by {role}")
    run_sql(postgres_url, f"drop role {role}")
