"""`make setup` prints what it does, and the output of pip only if pip fails. A script stands in for Python."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = """\
#!/bin/sh
case "$1 $2" in
  "--version ") echo "Python 3.13" ;;
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip") echo "WARNING: a mirror is not there" >&2; exit "$PIP_STATUS" ;;
esac
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("pip_status", [0, 1])
def test_pip_is_shown_only_if_it_fails(tmp_path: Path, pip_status: int) -> None:
    python, venv = tmp_path / "python", tmp_path / "venv"
    python.write_text(PYTHON)
    python.chmod(0o755)
    command = ["make", "setup", f"PYTHON={python}", f"VENV={venv}"]
    environment = {**os.environ, "PIP_STATUS": str(pip_status)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (pip_status == 0)
    assert ("a mirror is not there" in done.stdout + done.stderr) == bool(pip_status)
    assert (f". {venv}/bin/activate" in done.stdout) == (pip_status == 0)
    assert (venv / ".setup-done").exists() == (pip_status == 0)
