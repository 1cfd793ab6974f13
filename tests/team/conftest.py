"""The parts of a team's set-up: a real pgbouncer in transaction mode before the PostgreSQL of the tests.

`make test-team` gets pgbouncer from Debian. Without it these tests are skipped, with the reason.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.free_port import find_free_port
from tests.store.conftest import Server, answers, postgres, postgres_data, postgres_url, wait_until
from tests.store.proxy import Proxy

__all__ = ["postgres", "postgres_data", "postgres_url"]

FOLDER = os.environ.get("TIDEGATE_TEAM", "")
"""Where `make test-team` puts what it got."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent) + os.sep
    for item in items:
        if not FOLDER and str(item.path).startswith(here):
            item.add_marker(pytest.mark.skip(reason="run by `make test-team`"))


def find_pgbouncer() -> tuple[str, dict[str, str]] | None:
    """The program, and the environment that it needs to run."""
    own = Path(FOLDER, "usr/sbin/pgbouncer").resolve()
    if FOLDER and own.is_file():
        libraries = ":".join(str(path) for path in Path(FOLDER).resolve().glob("usr/lib/*-linux-gnu"))
        return str(own), {**os.environ, "LD_LIBRARY_PATH": libraries}
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return (found, dict(os.environ)) if found else None


class Pooler:
    """A running pgbouncer. Each database of the server is reached through it by its own name.

    With `proxy`, its own connections to the server go through that.
    """

    def __init__(self, server: Server, folder: Path, proxy: Proxy | None = None) -> None:
        self.port = find_free_port()
        given = conninfo_to_dict(server.control)
        place = f"host=127.0.0.1 port={proxy.port}" if proxy else f"host={given['host']} port={given.get('port', 5432)}"
        self.config, self.users = folder / "pgbouncer.ini", folder / "users.txt"
        self.users.write_text('"postgres" ""\n')
        self.config.write_text(
            f"[databases]\n* = {place}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\npool_mode = transaction\n"
            f"auth_type = trust\nauth_file = {self.users}\nmax_client_conn = 400\ndefault_pool_size = 6\n"
            "server_login_retry = 1\nquery_wait_timeout = 30\nadmin_users = postgres\n"
        )
        folder.chmod(0o755)
        # It does not run as root. Only the owner of the server's folder reaches the socket in it.
        owner = pwd.getpwuid(Path(str(given["host"])).stat().st_uid).pw_name
        self._as_owner = ["-u", owner] if os.geteuid() == 0 else []
        self._log = (folder / "log").open("wb")
        self.start()

    def start(self) -> None:
        program = find_pgbouncer()
        assert program is not None
        self._process = subprocess.Popen(
            [program[0], *self._as_owner, str(self.config)], env=program[1], stdout=self._log, stderr=self._log
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(120)

    def database(self, name: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{name}?sslmode=disable"

    def add_user(self, name: str) -> None:
        self.users.write_text(self.users.read_text() + f'"{name}" ""\n')
        with psycopg.connect(self.database("pgbouncer"), autocommit=True) as link:
            link.execute("reload")  # the console knows the simple protocol only, which psycopg uses without arguments
        assert wait_until(lambda: answers(self.database("postgres", name)))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(120)
        self._log.close()


@contextmanager
def start_pooler(server: Server, proxy: Proxy | None = None) -> Iterator[Pooler]:
    if find_pgbouncer() is None:
        pytest.skip("pgbouncer is not installed (`make test-team` gets it where apt works)")
    with TemporaryDirectory(prefix="tidegate-pgb-") as folder:
        pooler = Pooler(server, Path(folder), proxy)
        try:
            if not wait_until(lambda: answers(pooler.database("postgres") + "&connect_timeout=2")):
                pytest.fail(f"pgbouncer does not answer: {Path(folder, 'log').read_text()[-2000:]}")
            yield pooler
        finally:
            pooler.close()


@pytest.fixture(scope="session")
def pooler(postgres: Server) -> Iterator[Pooler]:
    with start_pooler(postgres) as pooler:
        yield pooler


@pytest.fixture
def pooled_url(pooler: Pooler, postgres_url: str) -> str:
    return pooler.database(str(conninfo_to_dict(postgres_url)["dbname"]))
