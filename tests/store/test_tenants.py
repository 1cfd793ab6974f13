"""Tenants are roles of the database, kept apart by row-level security. The script gives a role only what it needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.store.conftest import run_sql
from tidegate.core.errors import NotKept
from tidegate.store.postgres import PostgresStore

SCRIPT = Path(__file__).parents[2] / "deploy/postgres/roles.sql"
TABLES = ("sessions", "records", "files", "sources", "passages")


def run_text(url: str, text: str) -> list[tuple[object, ...]]:
    return run_sql(url, text)


@contextmanager
def make_tenants(url: str) -> Iterator[list[str]]:
    """Migrate the database, run the script as its comment says, and add a role for each of two tenants."""
    PostgresStore(url).close()
    database = str(conninfo_to_dict(url)["dbname"])
    group, roles = f"app_{database}", [f"red_{database}", f"blue_{database}"]
    run_text(url, SCRIPT.read_text().replace("tidegate_app", group))
    for role, tenant in zip(roles, ("red", "blue"), strict=True):
        run_text(url, f"create role {role} login in role {group}")
        run_text(url, f"insert into tidegate_tenants values ('{role}', '{tenant}')")
    yield roles
    for role in (*roles, group):
        run_text(url, f"drop owned by {role}")
        run_text(url, f"drop role {role}")


def judge_tenants(red_url: str, blue_url: str) -> None:
    red, blue = PostgresStore(red_url), PostgresStore(blue_url)
    red.append("same name", 0, [b"red 1"])
    blue.append("same name", 0, [b"blue 1", b"blue 2"])
    assert (list(red.read("same name")), list(blue.read("same name"))) == ([b"red 1"], [b"blue 1", b"blue 2"])
    assert [info.head for info in red.sessions()] == [1]
    with red.lock_session("same name") as acquired:
        assert acquired
        assert not blue.is_session_locked("same name"), "a tenant's lock holds for that tenant"
        assert red.is_session_locked("same name")
    # Whatever SQL a tenant runs, the rows of the other one are not there.
    for table in TABLES:
        rows = run_text(red_url, f"select * from tidegate_{table}")
        assert all(b"blue" not in bytes(value) for row in rows for value in row if isinstance(value, bytes))
    assert run_text(red_url, "select count(*) from tidegate_records") == [(1,)]
    assert run_text(red_url, "update tidegate_records set data = 'x' returning seq") == [(1,)]
    assert list(blue.read("same name")) == [b"blue 1", b"blue 2"]
    for forged in (
        "insert into tidegate_sessions (tenant, name, head, size, created, used)"
        " values ('blue', 'x', 0, 0, now(), now())",
        "update tidegate_sessions set tenant = 'blue'",
        "insert into tidegate_records (session, tenant, seq, data) values (1, 'blue', 9, 'x')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run_text(red_url, forged)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):  # the session of another tenant, under its own name
        run_text(red_url, "insert into tidegate_records select max(id) + 1, 9, 'x', 'red' from tidegate_sessions")
    red.delete("same name")
    assert blue.head("same name") == 2
    red.close()
    blue.close()


def test_tenants_do_not_see_each_other(postgres_url: str) -> None:
    with make_tenants(postgres_url) as roles:
        judge_tenants(*(postgres_url.replace("postgres:@", f"{role}@") for role in roles))


def test_the_role_for_daily_work_has_no_other_rights(postgres_url: str) -> None:
    with make_tenants(postgres_url) as (role, _):
        url = postgres_url.replace("postgres:@", f"{role}@")
        for statement in (
            "create table mine (id int)",
            "drop table tidegate_records",
            "truncate tidegate_records",
            "alter table tidegate_sessions disable row level security",
            "insert into tidegate_tenants values (current_user, 'blue')",
            "delete from tidegate_migrations",
            "update tidegate_tenants set tenant = 'blue'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                run_text(url, statement)
        assert run_text(url, "select tenant from tidegate_tenants") == [("red",)], "and it sees its own row only"
        # A temporary table of the same name does not change who it is.
        with psycopg.connect(url, autocommit=True) as link:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                link.execute("create temporary table tidegate_tenants (role name, tenant text)")
            assert link.execute("select tidegate_tenant()").fetchone() == ("red",)


def test_a_role_for_daily_work_cannot_migrate_and_says_what_to_do(postgres_url: str) -> None:
    with make_tenants(postgres_url) as (role, _):
        run_text(postgres_url, "delete from tidegate_migrations where name = 'create_search'")
        with pytest.raises(NotKept, match=r"permission denied.*administrator"):
            PostgresStore(postgres_url.replace("postgres:@", f"{role}@"))
