"""A migration while workers of the version before use the database, and before others of that version start."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pytest

from tests.store.conftest import run_sql, wait_until
from tests.store.test_tenants import make_tenants
from tidegate.store.errors import DamagedData
from tidegate.store.postgres import PostgresStore
from tidegate.store.postgres.connection import Link
from tidegate.store.postgres.migrations import BREAKING, MIGRATIONS, migrate


def extend_tables(link: Link) -> None:
    """What the next version may do: new columns, tables, indexes, and the body of a function."""
    link.execute("alter table tidegate_sessions add column title text not null default ''")
    link.execute("alter table tidegate_records add column kind smallint not null default 0")
    link.execute("create index tidegate_sessions_by_use on tidegate_sessions (tenant, used)")
    link.execute("create table tidegate_titles (session bigint references tidegate_sessions on delete cascade)")
    (body,) = link.execute("select pg_get_functiondef('tidegate_tenant()'::regprocedure)").fetchone() or ("",)
    link.execute(body)


@pytest.fixture
def worker_url(postgres_url: str) -> Iterator[str]:
    with make_tenants(postgres_url) as (red, _):
        yield postgres_url.replace("postgres:@", f"{red}@")


def test_workers_go_on_during_a_migration_and_start_after_it(worker_url: str, postgres_url: str) -> None:
    migrated = Event()

    def work(name: str) -> int:
        store = PostgresStore(worker_url)
        done = after = 0
        while after < 20:  # some appends after the migration, too
            done = store.append(name, done, [b"%d" % (done + 1)])
            assert len(list(store.read(name))) == done
            after += migrated.is_set()
        store.close()
        return done

    with ThreadPoolExecutor(3) as pool, psycopg.connect(postgres_url, autocommit=True) as link:
        workers = [pool.submit(work, f"s{number}") for number in range(3)]
        try:
            assert wait_until(
                lambda: run_sql(postgres_url, "select min(head) > 20 from tidegate_sessions") == [(True,)]
            )
            migrate(link, (*MIGRATIONS, extend_tables))
        finally:
            migrated.set()
        heads = [worker.result() for worker in workers]
    after = PostgresStore(worker_url)  # as a worker that is started again: it does not know the new migration
    for number, head in enumerate(heads):
        assert list(after.read(f"s{number}")) == [b"%d" % seq for seq in range(1, head + 1)]
    after.close()


def test_appends_do_not_wait_behind_a_migration_that_waits_for_a_long_read(worker_url: str, postgres_url: str) -> None:
    store = PostgresStore(worker_url)
    store.append("s", 0, [b"1"])
    waiting = "select count(*) > 0 from pg_locks where not granted and mode = 'AccessExclusiveLock'"
    with ThreadPoolExecutor(1) as pool, psycopg.connect(postgres_url) as reader:
        reader.execute("select count(*) from tidegate_sessions")

        def migrate_next() -> None:
            with psycopg.connect(postgres_url, autocommit=True) as link:
                migrate(link, (*MIGRATIONS, extend_tables))

        migration = pool.submit(migrate_next)
        try:
            assert wait_until(lambda: run_sql(postgres_url, waiting) == [(True,)])
            assert store.append("s", 1, [b"2"]) == 2  # an error after ten seconds, if the migration kept its place
            assert not migration.done()
        finally:
            reader.rollback()
        migration.result()
    assert store.append("s", 2, [b"3"]) == 3
    store.close()


def test_a_version_that_cannot_work_with_a_migration_refuses(worker_url: str, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as link:
        migrate(link, (*MIGRATIONS, extend_tables))
    PostgresStore(worker_url).close()
    run_sql(postgres_url, "update tidegate_migrations set breaking = true where name = 'extend_tables'")
    with pytest.raises(DamagedData, match=r"newer tidegate.*extend_tables"):
        PostgresStore(worker_url)
    run_sql(postgres_url, "delete from tidegate_migrations where name = 'extend_tables'")


@pytest.mark.parametrize("known", range(1, len(MIGRATIONS)))
def test_every_earlier_schema_is_migrated(known: int, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as link:
        migrate(link, MIGRATIONS[:known])
    store = PostgresStore(postgres_url)
    assert store.append("s", 0, [b"1"]) == 1
    store.close()
    rows = run_sql(postgres_url, "select name from tidegate_migrations where breaking")
    assert {name for (name,) in rows} == BREAKING
