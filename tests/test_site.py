"""The reference of the site is generated from the code and has all of it. The site builds without a warning."""

import importlib.util
import os
import re
import shutil
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


WRITE = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import reference
for name in set(reference.PAGES) - {"errors"}:
    pathlib.Path(sys.argv[2], f"{name}.md").write_text(reference.PAGES[name](), "utf-8")
"""
"""All pages but that of the errors, for which every file of the package is parsed."""


def run_python(*arguments: object) -> None:
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def read_pages(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text("utf-8") for path in folder.glob("*.md")}


def headings(page: str) -> set[str]:
    return set(re.findall(r"^## (.+)$", page, re.MULTILINE))


def test_the_reference_has_all_of_the_code(tmp_path: Path) -> None:
    run_python("-c", WRITE, ROOT / "docs", tmp_path)
    pages = read_pages(tmp_path)
    check_pages(pages)
    assert set(tidegate.__all__) - {"__version__"} <= headings(pages["python"])
    assert "### Session.prepare_async" in pages["python"]
    assert "TidegateMiddleware(" in pages["python"]
    assert {f"tidegate {name}" for name in list_command_names()} <= headings(pages["command-line"])
    assert headings(pages["stages"]) == set(STAGES)
    for name in (*POLICY_KEYS, *METRICS, *MOMENTS):
        assert f"| `{name}` |" in pages["policies"]
    for name in re.findall(r"^# TYPE (\S+)", Metrics().render(), re.MULTILINE):
        assert f"| `{name}` |" in pages["metrics"]
    assert headings(pages["mcp"]) == {"recall", "search", "notes", "status", "write_note"}
    check_configuration(pages["configuration"])


def check_pages(pages: dict[str, str]) -> None:
    """They are the same on every machine."""
    for name, page in pages.items():
        assert str(Path.home()) not in page, name
        assert not re.search(r"0x[0-9a-f]{6,}", page), name


def check_configuration(page: str) -> None:
    assert "serializable objects" not in page, "the docstring of msgspec instead of ours"
    for key in (*FileSettings.__struct_fields__, "allow_commands", "on_store_failure", "context_pressure"):
        assert re.search(rf"`(?:type: )?{key}`", page), key


def test_an_error_is_listed_with_its_remedies(tmp_path: Path) -> None:
    """The page of the errors of a package called tidegate that has three files."""
    package = tmp_path / "tidegate"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copyfile(ROOT / "src" / "tidegate" / "core" / "errors.py", package / "errors.py")
    (package / "reader.py").write_text('raise BadInput(f"{path.name} is too large.", "Split the file.")\n', "utf-8")
    write = "import reference_errors; print(reference_errors.write_error_page())"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'docs'}"}
    command = [sys.executable, "-c", write]
    page = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True).stdout
    assert {name for name in tidegate.__all__ if name.startswith("Bad")} <= headings(page)
    assert "| {name} is too large. | Split the file. |" in page.splitlines()


@pytest.fixture(scope="module")
def reference() -> Path:
    """The whole reference, where mkdocs looks for it."""
    folder = ROOT / "build" / "reference"
    run_python(ROOT / "docs" / "reference.py", folder)
    return folder


@pytest.mark.exhaustive
def test_every_error_of_the_package_is_listed(reference: Path) -> None:
    pages = read_pages(reference)
    check_pages(pages)
    names = {name for name in tidegate.__all__ if name.startswith("Bad")}
    assert names | {"NotKept", "SessionNotFound", "DamagedData"} <= headings(pages["errors"])
    remedies = re.findall(r"^\| .+ \| (.+) \|$", pages["errors"], re.MULTILINE)
    assert len(remedies) > 100


@pytest.mark.exhaustive
@pytest.mark.usefixtures("reference")
@pytest.mark.skipif(not MKDOCS.exists(), reason="no mkdocs: run `make docs` once")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Strict: a broken link or a page outside the menu is an error, as is anything loaded from another host."""
    done = subprocess.run(
        [str(MKDOCS), "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    index = (tmp_path / "site" / "search" / "search_index.json").read_text("utf-8")
    assert '"location":"reference/errors.html' in index


def test_nothing_of_the_site_is_in_the_requirements_of_developers() -> None:
    assert "mkdocs" not in (ROOT / "requirements" / "dev.txt").read_text("utf-8")
    assert "mkdocs-material==" in (ROOT / "requirements" / "docs.txt").read_text("utf-8")
    assert importlib.util.find_spec("mkdocs") is None
