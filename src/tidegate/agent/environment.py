"""The environment variables of this process: which of them other processes may see, and how the rest is hidden."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

ALLOWED_ENVIRONMENT: Final = tuple("PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ TMPDIR VIRTUAL_ENV".split())
"""The variables that a command of the agent may see. Any other may hold a secret: its name does not tell."""
_PR_SET_DUMPABLE: Final = 4
_ENV_START: Final = 47
"""Index of `env_start` in /proc/self/stat, counted from the field after the command name; `env_end` follows."""


def allowed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command of the agent may see."""
    return {name: environment[name] for name in ALLOWED_ENVIRONMENT if name in environment}


def hide_environment() -> None:
    """Keep commands that the agent runs from reading this process's secrets through `/proc`. Linux only.

    `/proc/PID/environ` shows the variables that a process was started with to every process of the same user. This
    erases every variable that is not in `ALLOWED_ENVIRONMENT` from that memory, and marks the process as not
    dumpable, so that only a process with CAP_SYS_PTRACE (root) can attach to it or read its memory. `os.environ` and
    `getenv` still give all values: they are read from copies.

    The commands `run`, `chat` and `demo` call this first. A program that calls `open_agent` itself should call it at
    its start, before it starts threads. It cannot hide secrets that lie elsewhere: in the environment of the shell or
    service that started the program, in files the user can read, or, from a command that runs as root, in memory.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - other commands start without it

    for name, value in os.environ.items():
        if name and name not in ALLOWED_ENVIRONMENT:
            os.environ[name] = value  # setenv: from here on C code reads a copy, too
    with suppress(OSError):  # without /proc there is nothing to read it by
        fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        address, end = int(fields[_ENV_START]), int(fields[_ENV_START + 1])
        for entry in ctypes.string_at(address, end - address).split(b"\0"):
            if os.fsdecode(entry.partition(b"=")[0]) not in ALLOWED_ENVIRONMENT:
                ctypes.memset(address, 0, len(entry))
            address += len(entry) + 1
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
