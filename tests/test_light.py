"""The library is light: quick to import, few dependencies."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
ROUNDS = 7
CPU_OF_IMPORT = (
    "import sys, time; start = time.process_time(); __import__(sys.argv[1]); print(time.process_time() - start)"
)


def cpu_of_import(module: str, bytecode: Path) -> float:
    # Both modules write their bytecode to the same fresh place, so that neither pays for a read-only checkout.
    command = [sys.executable, "-I", "-X", f"pycache_prefix={bytecode}", "-c", CPU_OF_IMPORT, module]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_import_costs_no_more_than_httpx(tmp_path: Path) -> None:
    """CPU time, the best of several rounds taken in turn: a busy machine slows both alike."""
    cpu_of_import("tidegate", tmp_path)
    cpu_of_import("httpx", tmp_path)
    rounds = [(cpu_of_import("tidegate", tmp_path), cpu_of_import("httpx", tmp_path)) for _ in range(ROUNDS)]
    ours, theirs = (min(times) for times in zip(*rounds, strict=True))
    assert ours / theirs <= 1, f"import tidegate takes {ours / theirs:.2f} times the CPU of import httpx"


def test_few_dependencies() -> None:
    dependencies = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["dependencies"]
    names = {re.split("[<>=]", each)[0] for each in dependencies}
    assert names == {"httpx", "isal", "msgspec", "ruamel.yaml", "splintr-rs"}
