"""Children that are killed: at a numbered step, or whenever."""

import os
import signal
import sys
from collections.abc import Callable

STEPS = ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.scandir", "os.listdir", "fcntl.flock")


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run in a child that kills itself before its n-th touch of the file system. False if it came to its end first."""
    pid = os.fork()
    if pid == 0:
        left = [step]

        def count(event: str, _: tuple[object, ...]) -> None:
            if event in STEPS:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        _end(work)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def started(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        _end(work)
    return pid


def ended(pid: int) -> int:
    """Its exit code; 0 is well."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _end(work: Callable[[], None]) -> None:
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)
