"""The built wheel works in an environment that holds it and its declared dependencies, and nothing else.

No index is asked: the dependencies are linked from the environment that runs the tests. Only the declared ones are,
so an import of something that merely happens to be installed for development fails here.
"""

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
PACKAGE = ROOT / "src" / "tidegate"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def succeed(command: Sequence[str], folder: Path) -> str:
    """Far from the checkout and with an empty environment, nothing of ours can slip in by a path."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=bare, capture_output=True, text=True, check=False, timeout=120)
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


def test_plugins_are_listed_without_an_extra(installed: Installed) -> None:
    assert installed.run("tidegate", "plugins") == "No installed package offers a plugin.\n"


PRESETS = sorted(path.stem for path in (PACKAGE / "presets").glob("*.yaml"))
RECORDING = """\
{"role": "system", "content": "Be brief."}
{"role": "user", "content": "What is the tide?"}
{"role": "assistant", "content": "Rising."}
"""


def test_there_are_presets() -> None:
    assert "default" in PRESETS


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_is_found_in_the_installed_package(installed: Installed, preset: str) -> None:
    """By way of the command, as a user would: a preset that the wheel forgot or cannot read stops the replay."""
    recording = installed.folder / "recording.jsonl"
    recording.write_text(RECORDING, "utf-8")
    arguments = ["replay", str(recording), "--policy", preset, "--window", "32000", "--json"]
    assert installed.run("tidegate", *arguments).strip()


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["chat"], "agent"),
        (["run", "Hello."], "agent"),
        (["demo", "--generated"], "chat"),
        (["tune", "recording.jsonl", "--window", "4000"], "tune"),
        (["import", "recording.jsonl", "--store", "postgresql://localhost/none"], "postgres"),
    ],
)
def test_a_command_without_its_extra_names_it(installed: Installed, arguments: list[str], extra: str) -> None:
    (installed.folder / "recording.jsonl").write_text(RECORDING, "utf-8")
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(installed.folder), "OPENAI_API_KEY": "none"}
    command = [str(installed.bin / "tidegate"), *arguments]
    done = subprocess.run(
        command,
        cwd=installed.folder,
        env=bare,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert f"pip install 'tidegate[{extra}]'" in done.stderr


def test_the_extra_is_all_that_is_missing(installed: Installed, tmp_path: Path) -> None:
    """With the packages of the extra beside it, the command runs."""
    (extra,) = PROJECT["optional-dependencies"]["agent"]
    for dependency in needed([extra]).values():
        link(dependency, tmp_path)
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    command = [str(installed.bin / "tidegate"), "run", "Hello.", "--model", "no-such-provider/model"]
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "pip install" not in done.stderr
    assert "no-such-provider" in done.stderr
