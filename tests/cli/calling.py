"""The command without a process of its own: its status and what it printed. Half a second of starting less for each.

That a process ends with that status, prints in that order and heeds signals is tested with processes.
"""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

from tidegate.cli.main import main
from tidegate.cli.parser import make_parser


def called(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = list(map(str, arguments))
    raw = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(each, "utf-8", write_through=True) for each in raw)
    with redirect_stdout(out), redirect_stderr(err):
        status = main(command)
    printed, told = (each.getvalue().decode() for each in raw)
    assert "Traceback" not in printed + told
    return subprocess.CompletedProcess([sys.executable, *command], status, printed, told)


def run_command(*arguments: object) -> int:
    """Run a command in this process and return its status. Its errors are raised, not printed."""
    options = make_parser().parse_args(list(map(str, arguments)))
    status: int = options.run_command(options)
    return status


def list_command_names() -> set[str]:
    return set(make_parser().commands)
