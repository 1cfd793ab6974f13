"""The reference of the site is generated from the code and has all of it. The site builds without a warning."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate
from tests.cli.calling import list_command_names
from tidegate.agent.config.settings import FileSettings
from tidegate.core.policy.parser import POLICY_KEYS
from tidegate.core.policy.policy import METRICS, MOMENTS
from tidegate.core.stages import STAGES
from tidegate.gateway.metrics import Metrics

ROOT = Path(__file__).parents[1]
MKDOCS = ROOT / ".envs" / "docs" / "bin" / "mkdocs"

pytestmark = pytest.mark.skipif(not (ROOT / "mkdocs.yml").exists(), reason="the site is not in the distribution")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, str(ROOT / "docs" / "reference.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {path.stem: path.read_text("utf-8") for path in folder.glob("*.md")}


def headings(page: str) -> set[str]:
    return set(re.findall(r"^## (.+)$", page, re.MULTILINE))


def test_every_public_name_has_a_section(reference: dict[str, str]) -> None:
    assert set(tidegate.__all__) - {"__version__"} <= headings(reference["python"])
    assert "### Session.prepare_async" in reference["python"]
    assert "TidegateMiddleware(" in reference["python"]


def test_every_command_has_a_section(reference: dict[str, str]) -> None:
    assert {f"tidegate {name}" for name in list_command_names()} <= headings(reference["command-line"])


def test_every_key_of_the_configuration_is_listed(reference: dict[str, str]) -> None:
    assert "serializable objects" not in reference["configuration"], "the docstring of msgspec instead of ours"
    for key in (*FileSettings.__struct_fields__, "allow_commands", "on_store_failure", "context_pressure"):
        assert re.search(rf"`(?:type: )?{key}`", reference["configuration"]), key


def test_stages_policies_metrics_and_tools_are_listed(reference: dict[str, str]) -> None:
    assert headings(reference["stages"]) == set(STAGES)
    for name in (*POLICY_KEYS, *METRICS, *MOMENTS):
        assert f"| `{name}` |" in reference["policies"]
    for name in re.findall(r"^# TYPE (\S+)", Metrics().render(), re.MULTILINE):
        assert f"| `{name}` |" in reference["metrics"]
    assert headings(reference["mcp"]) == {"recall", "search", "notes", "status", "write_note"}


def test_every_error_is_listed_with_remedies(reference: dict[str, str]) -> None:
    names = {name for name in tidegate.__all__ if name.startswith("Bad")}
    assert names | {"NotKept", "SessionNotFound", "DamagedData"} <= headings(reference["errors"])
    remedies = re.findall(r"^\| .+ \| (.+) \|$", reference["errors"], re.MULTILINE)
    assert len(remedies) > 100


def test_the_reference_is_the_same_on_every_machine(reference: dict[str, str]) -> None:
    for name, page in reference.items():
        assert str(Path.home()) not in page, name
        assert not re.search(r"0x[0-9a-f]{6,}", page), name


@pytest.mark.skipif(not MKDOCS.exists(), reason="no mkdocs: run `make docs` once")
def test_the_site_builds_without_a_warning(tmp_path: Path, reference: dict[str, str]) -> None:
    """Strict: a broken link or a page outside the menu is an error, as is anything loaded from another host."""
    folder = ROOT / "build" / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in reference.items():
        (folder / f"{name}.md").write_text(page, "utf-8")
    done = subprocess.run(
        [str(MKDOCS), "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    index = (tmp_path / "site" / "search" / "search_index.json").read_text("utf-8")
    assert '"location":"reference/errors.html' in index


def test_nothing_of_the_site_is_in_the_requirements_of_developers() -> None:
    assert "mkdocs" not in (ROOT / "requirements" / "dev.txt").read_text("utf-8")
    assert "mkdocs-material==" in (ROOT / "requirements" / "docs.txt").read_text("utf-8")
    assert importlib.util.find_spec("mkdocs") is None
