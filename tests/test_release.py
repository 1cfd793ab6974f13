"""What a release consists of: one version, a changelog section for it, a license expression, a bill of materials."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tidegate import __version__
from tidegate.cli.extras import list_extras

ROOT = Path(__file__).parents[1]
BILL = ROOT / "bench" / "bill_of_materials.py"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_version_is_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/tidegate/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_the_changelog_has_a_dated_section_for_the_version() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(__version__)} - \d{{4}}-\d\d-\d\d", sections[1])


def test_version_lists_the_extras_of_the_package() -> None:
    """Those of the frameworks are left out: each adapter says itself what is missing."""
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(list_extras()) <= set(extras)
    assert {"agent", "chat", "gateway", "mcp", "postgres"} <= set(list_extras())


@pytest.mark.skipif(not BILL.exists(), reason="the programs of bench/ are not in the source distribution")
def test_the_bill_of_materials_lists_every_dependency(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.spdx.json"
    subprocess.run([sys.executable, str(BILL), str(path)], check=True, timeout=300)
    bill = json.loads(path.read_text("utf-8"))
    packages = {package["name"]: package for package in bill["packages"]}
    declared = {re.split(r"[^\w.-]", line)[0].replace(".", "-") for line in PROJECT["project"]["dependencies"]}
    assert bill["spdxVersion"] == "SPDX-2.3"
    assert declared <= set(packages)
    assert packages["tidegate"]["licenseDeclared"] == "Apache-2.0"
    assert packages["tidegate"]["versionInfo"] == __version__
    needed = {
        each["relatedSpdxElement"] for each in bill["relationships"] if each["spdxElementId"] == "SPDXRef-tidegate"
    }
    assert needed == {f"SPDXRef-{name}" for name in declared}
