"""Search in PostgreSQL as a worker under row-level security: which index it uses, whose rows it sees, and its order."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.store.conftest import run_sql
from tests.store.test_tenants import SCRIPT, make_tenants, run_text
from tidegate import DataFolder
from tidegate.datafolder.shared_index import open_shared_index
from tidegate.memory.text_pieces import TextPiece
from tidegate.memory.words import parse_query
from tidegate.store.postgres import PostgresStore

FILLER = 3_000


@pytest.fixture
def tenants(postgres_url: str) -> Iterator[list[str]]:
    """The addresses of two workers, each of its own tenant, with many passages and one that has a rare word."""
    with make_tenants(postgres_url) as roles:
        urls = [postgres_url.replace("postgres:@", f"{role}@") for role in roles]
        for url, color in zip(urls, ("red", "blue"), strict=True):
            store = PostgresStore(url)
            index = open_shared_index(store)
            assert index is not None
            filler = [TextPiece(seq, f"common build number{seq} of {color}") for seq in range(1, FILLER)]
            index.extend_session("work", [*filler, TextPiece(FILLER, f"the zanzibar secret of {color}")])
            store.close()
        run_sql(postgres_url, "vacuum analyze tidegate_passages")
        yield urls


def find(url: str, query: str, **options: object) -> list[str]:
    store = PostgresStore(url)
    index = open_shared_index(store)
    assert index is not None
    chosen = {"prefix": False, "every": True, **options}
    found = [each.passage.text for each in index.find_passages(parse_query(query, 16), 10, **chosen)]  # type: ignore[arg-type]
    store.close()
    return found


def test_a_worker_finds_a_rare_word_with_the_index_of_words(tenants: list[str], postgres_url: str) -> None:
    role = conninfo_to_dict(tenants[0])["user"]
    run_text(postgres_url, f"alter role {role} set session_preload_libraries = 'auto_explain'")
    for setting, value in (("log_min_duration", "0"), ("log_nested_statements", "on"), ("log_level", "notice")):
        run_text(postgres_url, f"alter role {role} set auto_explain.{setting} = '{value}'")
    plans: list[str] = []
    with psycopg.connect(tenants[0], autocommit=True) as link:
        link.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
        for query in (
            "select * from tidegate_find_passages('zanzibar', '{zanzibar}', '{1}', '', 100, 10)",
            "select * from tidegate_count_passages('{zanzibar}', 100)",
        ):
            plans.clear()
            link.execute(query)
            nested = next(plan for plan in plans if "tidegate_passages" in plan and "Scan" in plan)
            assert "tidegate_passages_by_word" in nested, nested
            assert "Seq Scan" not in nested, nested
        # Without the function, the policy makes the worker read all rows: the reason for it.
        plans.clear()
        link.execute("select count(*) from tidegate_passages where words @@ 'zanzibar'")
        assert not any("tidegate_passages_by_word" in plan for plan in plans)
    assert find(tenants[0], "zanzibar") == ["the zanzibar secret of red"]


def test_newest_passages_are_found_without_the_index_of_words(tenants: list[str], postgres_url: str) -> None:
    found = run_text(
        tenants[0],
        "select convert_from(body, 'UTF8') from"
        " tidegate_find_recent_passages('common', '{common}', '{1}', '', 100000, 50, 50)",
    )
    assert len(found) == 50
    assert all(str(text).endswith("of red") for (text,) in found), (
        "the newer passages of the other tenant are not there"
    )


def test_no_function_shows_the_rows_of_another_tenant(tenants: list[str], postgres_url: str) -> None:
    for url, color in zip(tenants, ("red", "blue"), strict=True):
        for query in ("zanzibar", "secret", "common", "common build", "number77"):
            assert all(text.endswith(f"of {color}") for text in find(url, query))
        assert run_text(url, "select tidegate_count_passages('{zanzibar,common,absent}', 100000)") == [
            (1,),
            (FILLER - 1,),
            (0,),
        ]


def test_a_search_path_of_the_caller_changes_nothing(tenants: list[str], postgres_url: str) -> None:
    role = conninfo_to_dict(tenants[0])["user"]
    run_text(postgres_url, f"create schema mine authorization {role}")
    with psycopg.connect(tenants[0], autocommit=True) as link:
        link.execute("create table mine.tidegate_tenants (role name, tenant text)")
        link.execute("insert into mine.tidegate_tenants values (current_user, 'blue')")
        link.execute("create function mine.ts_match_vq(tsvector, tsquery) returns bool language sql return true")
        link.execute("create operator mine.@@ (leftarg = tsvector, rightarg = tsquery, function = mine.ts_match_vq)")
        link.execute("set search_path = mine, public, pg_catalog")
        rows = link.execute("select body from tidegate_find_passages('secret', '{secret}', '{1}', '', 9, 9)").fetchall()
    assert rows == [(b"the zanzibar secret of red",)]
    run_text(postgres_url, "drop schema mine cascade")


def test_a_role_cannot_leave_its_tenant_by_the_group_of_the_workers(tenants: list[str], postgres_url: str) -> None:
    group = f"app_{conninfo_to_dict(postgres_url)['dbname']}"
    run_text(
        postgres_url,
        "insert into tidegate_sources (tenant, kind, name, hash, seen, head) values ('', 'session', 'x', '', '', 1)",
    )
    with psycopg.connect(tenants[0], autocommit=True) as link:
        link.execute(f"set role {group}")
        assert link.execute("select tidegate_tenant()").fetchone() == ("red",)
        assert link.execute("select distinct tenant from tidegate_sources").fetchall() == [("red",)]


def test_a_role_without_rights_on_the_tables_cannot_search(tenants: list[str], postgres_url: str) -> None:
    stranger = f"stranger_{conninfo_to_dict(postgres_url)['dbname']}"
    run_text(postgres_url, f"create role {stranger} login")
    url = postgres_url.replace("postgres:@", f"{stranger}@")
    for call in ("tidegate_count_passages('{common}', 9)", "tidegate_find_passages('common', '{}', '{}', '', 9, 9)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run_text(url, f"select {call}")
    run_text(postgres_url, f"drop role {stranger}")


def test_workers_can_search_after_a_migration_alone(postgres_url: str) -> None:
    """The rights of roles that could read passages are given by the migration; `roles.sql` need not be run first."""
    with make_tenants(postgres_url) as roles:
        for name in ("count_passages", "find_passages", "find_recent_passages"):
            run_text(postgres_url, f"drop function tidegate_{name}")
        run_text(postgres_url, "delete from tidegate_migrations where name = 'search_with_index'")
        PostgresStore(postgres_url).close()
        assert find(postgres_url.replace("postgres:@", f"{roles[0]}@"), "word") == []
    assert "tidegate_find_recent_passages" in SCRIPT.read_text()


def test_the_order_is_that_of_recall(store_url: str, tmp_path: Path) -> None:
    texts = [
        "The parser fails with error 17.",
        "Look at the parser.",
        "parser parser parser " + "and much other text about builds " * 40,
        "A deployment failed.",
        "The parser fails: error 17 again, in the parser tests.",
    ]
    with DataFolder(tmp_path / "data", store=store_url, secrets=[]) as data:
        with data.open("s", "gpt-4o") as session:
            for text in texts:
                session.add({"role": "user", "content": text})
            recalled = [hit.seq for hit in session.history.recall_index.find(session.log, "parser error")]
        found = [hit.place for hit in data.open_search().search("parser error", kind="session")]
    assert found == [seq for seq in recalled if seq in found]
    assert len(found) >= 3
