"""Work for the workers of a cluster. They import it by its name."""

import os
import signal
from pathlib import Path

from tidegate.lab.worker_pool import StopCheck


def square_or_die_once(task: tuple[int, str], _: StopCheck) -> int:
    """The worker that takes the task with a file name first is killed in the middle of it."""
    number, mark = task
    if mark and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def always_die(_: int, stopped: StopCheck) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0
