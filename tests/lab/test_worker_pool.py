"""Workers of the lab end with the process that started them, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, time
from pathlib import Path
from tidegate.lab.worker_pool import run_in_processes

def wait(folder, is_stopped):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)

if __name__ == "__main__":
    list(run_in_processes(wait, [sys.argv[1]] * 4, 2))
"""


def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        time.sleep(0.02)


def is_running(process: int) -> bool:
    """Whether it still runs: one that ended but was not collected by its parent does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc whether a process runs")
@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_when_their_parent_is_killed(tmp_path: Path, kill: signal.Signals) -> None:
    program, workers = tmp_path / "program.py", tmp_path / "workers"
    program.write_text(PROGRAM)
    workers.mkdir()
    with subprocess.Popen([sys.executable, str(program), str(workers)]) as parent:
        wait_until(lambda: len(list(workers.iterdir())) == 2)
        parent.send_signal(kill)
    started = [int(file.name) for file in workers.iterdir()]
    try:
        wait_until(lambda: not any(map(is_running, started)))
    finally:
        for process in filter(is_running, started):
            os.kill(process, signal.SIGKILL)
