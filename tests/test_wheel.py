"""The built wheel works in an environment that holds it and its declared dependencies, and nothing else.

No index is asked: the dependencies are linked from the environment that runs the tests. Only the declared ones are,
so an import of something that merely happens to be installed for development fails here.
"""

import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from tidegate import __version__

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.exhaustive
PACKAGE = ROOT / "src" / "tidegate"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def succeed(command: Sequence[str], folder: Path, **environment: str) -> str:
    """Far from the checkout and with an empty environment, nothing of ours can slip in by a path."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment}
    done = subprocess.run(
        command,
        cwd=folder,
        env=bare,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


class Installed(NamedTuple):
    folder: Path
    wheel: Path
    bin: Path
    site: Path

    def run(self, program: str, *arguments: str) -> str:
        return succeed([str(self.bin / program), *arguments], self.folder)


def needed(requirements: Sequence[str]) -> dict[str, Distribution]:
    """The declared dependencies and what they need in turn, on this machine, without extras."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if not applies or requirement.name in found:
            continue
        found[requirement.name] = distribution(requirement.name)
        waiting += [Requirement(text) for text in found[requirement.name].requires or []]
    return found


def link(dependency: Distribution, site: Path) -> None:
    tops = {file.parts[0] for file in dependency.files or [] if file.parts[0] not in {"..", "__pycache__"}}
    assert tops, f"{dependency.name} lists no files"
    for top in tops:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(dependency.locate_file(top))))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    python = [sys.executable, "-I", "-m"]
    succeed([*python, "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)], folder)
    (wheel,) = folder.glob("*.whl")
    succeed([*python, "venv", "--without-pip", str(folder / "env")], folder)
    inside = folder / "env" / "bin" / "python"
    succeed([*python, "pip", "--python", str(inside), "install", "--no-deps", "--no-index", str(wheel)], folder)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    for dependency in needed(PROJECT["dependencies"]).values():
        link(dependency, site)
    return Installed(folder, wheel, inside.parent, site)


def test_wheel_holds_what_the_package_holds(installed: Installed) -> None:
    """Presets, data, and the mark that says the types may be trusted; and nothing from outside the package."""
    kept = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    expected = {str(path.relative_to(PACKAGE.parent)) for path in kept}
    names = zipfile.ZipFile(installed.wheel).namelist()
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert "tidegate/py.typed" in expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_environment_is_clean(installed: Installed) -> None:
    """The proof below is worth something only if the code comes from the wheel and the tools stayed outside."""
    probe = "import importlib.util as u, tidegate; print(tidegate.__file__, *map(u.find_spec, ('pytest', 'ruff')))"
    home, *tools = installed.run("python", "-I", "-c", probe).split()
    assert Path(home).is_relative_to(installed.site)
    assert tools == ["None", "None"]


def test_command_tells_its_version(installed: Installed) -> None:
    assert __version__ in installed.run("tidegate", "--version").split()


PRESETS = sorted(path.stem for path in (PACKAGE / "presets").glob("*.yaml"))
RECORDING = """\
{"role": "system", "content": "Be brief."}
{"role": "user", "content": "What is the tide?"}
{"role": "assistant", "content": "Rising."}
"""
CALLS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from tidegate.cli.main import main

found = []
for arguments in json.loads(sys.argv[1]):
    raw = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(each, "utf-8", write_through=True) for each in raw)
    with redirect_stdout(out), redirect_stderr(err):
        status = main(arguments)
    found.append([status, raw[0].getvalue().decode(), raw[1].getvalue().decode()])
print(json.dumps(found))
"""
"""Commands, one after the other in one process of the installed package: each start takes half a second."""


class Done(NamedTuple):
    status: int
    printed: str
    errors: str


def call_installed(installed: Installed, calls: Sequence[Sequence[str]], **environment: str) -> list[Done]:
    (installed.folder / "recording.jsonl").write_text(RECORDING, "utf-8")
    command = [str(installed.bin / "python"), "-c", CALLS, json.dumps(calls)]
    return [Done(*found) for found in json.loads(succeed(command, installed.folder, **environment))]


def test_every_preset_is_found_in_the_installed_package(installed: Installed) -> None:
    """By way of the command, as a user would: a preset that the wheel forgot or cannot read stops the replay."""
    assert "default" in PRESETS
    replay = ["replay", "recording.jsonl", "--window", "32000", "--json", "--policy"]
    plugins, *replays = call_installed(installed, [["plugins"], *([*replay, preset] for preset in PRESETS)])
    assert plugins == (0, "No installed package offers a plugin.\n", "")
    for preset, done in zip(PRESETS, replays, strict=True):
        assert done.status == 0, f"{preset}: {done.errors}"
        assert done.printed.strip(), preset


NEEDING_AN_EXTRA = (
    ("agent", ["chat"]),
    ("agent", ["run", "Hello."]),
    ("chat", ["demo"]),
    ("tune", ["tune", "recording.jsonl", "--window", "4000"]),
    ("postgres", ["import", "recording.jsonl", "--store", "postgresql://localhost/none"]),
)


def test_a_command_without_its_extra_names_it(installed: Installed) -> None:
    found = call_installed(installed, [arguments for _, arguments in NEEDING_AN_EXTRA], OPENAI_API_KEY="none")
    for (extra, arguments), done in zip(NEEDING_AN_EXTRA, found, strict=True):
        assert done.status == 2, (arguments, done.errors)
        assert f"pip install 'tidegate[{extra}" in done.errors, arguments


def test_the_lab_says_where_the_other_libraries_are(installed: Installed) -> None:
    (done,) = call_installed(installed, [["lab", "recording.jsonl", "--window", "4000", "--peers"]])
    assert done.status == 2, done.printed
    assert "not in the installed package" in done.errors


@pytest.mark.exhaustive
def test_the_extra_is_all_that_is_missing(installed: Installed, tmp_path: Path) -> None:
    """With the packages of the extra beside it, the command runs."""
    (extra,) = PROJECT["optional-dependencies"]["agent"]
    for dependency in needed([extra]).values():
        link(dependency, tmp_path)
    arguments = ["run", "Hello.", "--model", "no-such-provider/model"]
    (done,) = call_installed(installed, [arguments], PYTHONPATH=str(tmp_path))
    assert done.status == 2
    assert "pip install" not in done.errors
    assert "no-such-provider" in done.errors
