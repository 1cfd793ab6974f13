"""What the owner of the tables does for tenants: the doctor looks at all, sessions and tenants are forgotten."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.calling import called
from tests.store.conftest import run_sql
from tests.store.test_tenants import make_tenants, run_text
from tidegate import DataFolder
from tidegate.core.errors import BadInput
from tidegate.store.postgres import PostgresStore

TABLES = ("sessions", "records", "files", "sources", "passages")


class Team(NamedTuple):
    owner: str
    red: str
    blue: str
    cache: Path


def write_session(url: str, cache: Path, name: str, text: str) -> None:
    with DataFolder(cache, store=url, secrets=[]) as data:
        with data.open(name, "gpt-4o") as session:
            session.add({"role": "user", "content": text})
            session.add({"role": "assistant", "content": "Noted."})
        data.notes.write("plan.md", f"The plan: {text}")
        data.session_files(name).write("large/m1", text)
        data.open_search().refresh()


@pytest.fixture
def team(postgres_url: str, tmp_path: Path) -> Iterator[Team]:
    with make_tenants(postgres_url) as (red, blue):
        team = Team(
            postgres_url,
            postgres_url.replace("postgres:@", f"{red}@"),
            postgres_url.replace("postgres:@", f"{blue}@"),
            tmp_path / "cache",
        )
        for color, url in (("red", team.red), ("blue", team.blue)):
            write_session(url, tmp_path / color, "work", f"the {color} words of today")
        team.cache.mkdir()
        yield team


def call(command: str, team: Team, *arguments: str, url: str = "") -> tuple[int, str]:
    done = called(command, "--data", team.cache, "--store", url or team.owner, *arguments)
    return done.returncode, done.stdout + done.stderr


def count_rows(team: Team, tenant: str) -> list[int]:
    found = [
        run_text(team.owner, f"select count(*) from tidegate_{table} where tenant = '{tenant}'")
        for table in TABLES
        if table != "passages"
    ]
    return [int(str(rows[0][0])) for rows in found]


def test_the_doctor_of_the_owner_looks_at_all_tenants(team: Team) -> None:
    status, printed = call("doctor", team)
    assert status == 0, printed
    for color in ("red", "blue"):
        assert f"tenant '{color}', session 'work': " in printed
    run_sql(team.owner, "update tidegate_records set data = 'x' where tenant = 'blue' and seq = 2")
    status, printed = call("doctor", team, "--json")
    broken = [each for each in json.loads(printed) if each["severity"] == "broken"]
    assert status == 1
    assert {(each["tenant"], each["session"]) for each in broken} == {("blue", "work")}
    status, printed = call("doctor", team, "--repair")
    assert "tenant 'blue', session 'work': " in printed
    assert call("doctor", team)[0] == 0
    with DataFolder(team.cache, store=team.red, secrets=[]) as data:
        assert [event.seq for event in data.open_log("work").read()] == list(range(1, data.store.head("work") + 1))


def test_the_doctor_of_a_worker_sees_only_its_tenant(team: Team) -> None:
    status, printed = call("doctor", team, url=team.red)
    assert status == 0
    assert "session 'work'" in printed
    assert "tenant" not in printed


def test_a_worker_cannot_act_for_another_tenant(team: Team) -> None:
    with pytest.raises(BadInput, match="cannot act for the tenant 'blue'"):
        PostgresStore(team.red, tenant="blue")
    with_setting = f"{team.red}&options=-c%20tidegate.tenant%3Dblue"
    assert run_text(with_setting, "select tidegate_tenant()") == [("red",)]
    assert run_text(with_setting, "select distinct tenant from tidegate_records") == [("red",)]
    status, printed = call("forget", team, "work", "--tenant", "blue", "--yes", url=team.red)
    assert (status, "cannot act for the tenant" in printed) == (2, True)
    assert count_rows(team, "blue")[0] == 1


def test_a_session_of_a_tenant_is_forgotten(team: Team) -> None:
    before = count_rows(team, "blue")
    status, printed = call("forget", team, "work", "--tenant", "red", "--dry-run")
    assert (status, "Nothing is removed" in printed, "work: " in printed) == (0, True, True)
    assert count_rows(team, "red")[0] == 1
    assert call("forget", team, "work", "--tenant", "red", "--yes")[0] == 0
    assert count_rows(team, "red")[:2] == [0, 0]
    assert count_rows(team, "blue") == before


def test_unused_sessions_of_a_tenant_are_forgotten(team: Team) -> None:
    write_session(team.red, team.cache.parent / "red", "old", "the words of last year")
    run_sql(team.owner, "update tidegate_sessions set used = now() - interval '91 days' where name = 'old'")
    run_sql(team.owner, "update tidegate_sessions set used = now() - interval '91 days' where tenant = 'blue'")
    status, printed = call("forget", team, "--tenant", "red", "--unused-for", "90", "--dry-run")
    assert (status, "old: " in printed, "work" in printed) == (0, True, False)
    assert "1 session not used for 90 days would be removed" in printed
    assert count_rows(team, "red")[0] == 2
    status, printed = call("forget", team, "--tenant", "red", "--unused-for", "90", "--yes")
    assert (status, "1 session removed" in printed) == (0, True)
    kept = "select tenant, convert_from(name, 'UTF8') from tidegate_sessions order by tenant"
    assert run_sql(team.owner, kept) == [("blue", "work"), ("red", "work")]


def test_everything_of_a_tenant_is_forgotten(team: Team) -> None:
    before = count_rows(team, "blue")
    passages = run_text(team.owner, "select count(*) from tidegate_passages")
    status, printed = call("forget", team, "--tenant", "red", "--everything", "--dry-run")
    assert (status, "1 session" in printed, "would be removed" in printed) == (0, True, True)
    assert all(count_rows(team, "red"))
    assert call("forget", team, "--tenant", "red", "--everything", "--yes")[0] == 0
    assert count_rows(team, "red") == [0, 0, 0, 0]
    assert count_rows(team, "blue") == before
    assert run_text(team.owner, "select count(*) from tidegate_passages") < passages


def test_what_is_to_be_forgotten_must_be_clear(team: Team) -> None:
    for arguments in ((), ("work", "--everything"), ("--everything",), ("--words", "--unused-for", "3")):
        status, printed = call("forget", team, *arguments, "--yes")
        assert status == 2, printed
    assert count_rows(team, "red")[0] == 1
