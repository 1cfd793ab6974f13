"""PostgreSQL behind pgbouncer in transaction mode: the promises are the same as without it."""

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.crash.crowd import run_crowd
from tests.store.conftest import run_sql
from tests.store.test_many_writers import judge_crowd
from tests.store.test_tenants import judge_tenants, make_tenants
from tests.team.conftest import Pooler
from tidegate import DataFolder
from tidegate.datafolder.forget.forget import forget_session
from tidegate.store.conformance import suite
from tidegate.store.memory import MemoryStore
from tidegate.store.postgres import PostgresStore
from tidegate.store.store import Store


@pytest.mark.parametrize("name", [check.name for check in suite(MemoryStore, lambda store: store)])
def test_the_published_suite_through_a_pooler(name: str, pooled_url: str) -> None:
    def again(_: Store) -> Store:
        return PostgresStore(pooled_url)

    {check.name: check for check in suite(lambda: PostgresStore(pooled_url), again)}[name].run()


def test_eight_processes_write_and_compact_one_session_through_a_pooler(pooled_url: str) -> None:
    judge_crowd(pooled_url, run_crowd(pooled_url, 8, 3, 0.05))


def test_no_state_is_left_on_a_connection_of_the_pooler(pooled_url: str, tmp_path: Path) -> None:
    """With such state, the next client of the connection would have it, and this one would miss it."""
    with DataFolder(tmp_path, store=pooled_url, secrets=[]) as data:
        with data.open("s", "gpt-4o") as session:
            for number in range(12):  # more than psycopg waits before it prepares a statement
                session.add({"role": "user", "content": f"message {number}"})
        data.notes.write("a.md", "hello")
        assert data.open_search().search("hello")
        with data.locks.exclusive("s"):
            pass
        forget_session(data, "s")
    assert run_sql(pooled_url, "select count(*) from pg_prepared_statements") == [(0,)]
    assert run_sql(pooled_url, "select count(*) from pg_locks where locktype = 'advisory'") == [(0,)]
    changed = run_sql(pooled_url, "select name, setting from pg_settings where source = 'session'")
    assert [
        row for row in changed if row[0] not in ("application_name", "client_encoding", "TimeZone", "DateStyle")
    ] == []


def test_tenants_stay_apart_through_a_pooler(pooler: Pooler, postgres_url: str) -> None:
    """The pooler has connections of its own for each role, so none carries another tenant's rows."""
    database = str(conninfo_to_dict(postgres_url)["dbname"])
    with make_tenants(postgres_url) as roles:
        for role in roles:
            pooler.add_user(role)
        judge_tenants(*(pooler.database(database, role) for role in roles))
