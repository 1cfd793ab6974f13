"""Environments with plugin packages: installed from wheels, or laid out in a folder. They see the packages that run the
tests."""

import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.cli.command_server import shared_command_server

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugins"

_PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1"

{entry_points}

[tool.hatch.build.targets.wheel]
only-include = ["{module}.py"]
"""


class Answer(NamedTuple):
    status: int | None
    out: str
    err: str


class Environment(NamedTuple):
    """A Python with packages, and an empty home. Without `site` the packages are installed; else they lie there."""

    python: Path
    folder: Path
    site: str = ""

    def run(self, *arguments: object, expect: int | None = 0) -> Answer:
        """Run `tidegate` there, in an empty home."""
        if self.site:
            done = shared_command_server().run(arguments, self.folder, self._variables())
            return self._check(Answer(*done), expect)
        return self.run_python("-m", "tidegate", *arguments, expect=expect)

    def run_code(self, code: str, *arguments: object) -> Answer:
        """Run a program there."""
        if not self.site:
            return self.run_python("-c", code, *arguments)
        program = self.write("program.py", code)
        done = shared_command_server().run_program(program, arguments, self.folder, self._variables())
        return self._check(Answer(*done), 0)

    def run_python(self, *arguments: object, expect: int | None = 0, **variables: str) -> Answer:
        """Start Python there from nothing."""
        command = [str(self.python), *map(str, arguments)]
        environment = self._variables() | variables
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        return self._check(Answer(done.returncode, done.stdout, done.stderr), expect)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path

    def _variables(self) -> dict[str, str]:
        home = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TIDEGATE_DATA": str(self.folder / "data")}
        return home | ({"PYTHONPATH": self.site} if self.site else {})

    def _check(self, answer: Answer, expect: int | None) -> Answer:
        assert "Traceback" not in answer.err, answer.err
        assert expect is None or answer.status == expect, answer.out + answer.err
        return answer


def write_package(folder: Path, name: str, source: str, entry_points: Mapping[str, Mapping[str, str]]) -> Path:
    """Write the sources of a package with one module. The entry points are given by group and name."""
    module = name.replace("-", "_")
    tables = [
        f'[project.entry-points."{group}"]\n' + "".join(f'{key} = "{value}"\n' for key, value in entries.items())
        for group, entries in entry_points.items()
    ]
    project = folder / name
    project.mkdir()
    (project / "pyproject.toml").write_text(_PROJECT.format(name=name, module=module, entry_points="\n".join(tables)))
    (project / f"{module}.py").write_text(source, "utf-8")
    return project


def build_environment(folder: Path, *projects: Path) -> Environment:
    """Build a wheel of each project and install it into a new environment, without an index."""
    pip = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheels = folder / "wheels"
    inside = folder / "env" / "bin" / "python"
    commands = [
        [*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(wheels), *map(str, projects)],
        [sys.executable, "-I", "-m", "venv", "--without-pip", str(folder / "env")],
    ]
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, text=True)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    (site / "project.pth").write_text(f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n")
    install = [*pip, "--python", str(inside), "install", "--no-deps", "--no-index", *map(str, wheels.glob("*.whl"))]
    subprocess.run(install, check=True, capture_output=True, text=True)
    home = folder / "home"
    home.mkdir()
    return Environment(inside, home)


def lay_out_environment(folder: Path, *projects: Path) -> Environment:
    """Put the packages of the projects into a folder as an installation would, without building them.

    It takes no time, and commands run in forks of a process that has loaded their modules.
    """
    site, home = folder / "site", folder / "home"
    home.mkdir()
    for project in projects:
        with (project / "pyproject.toml").open("rb") as file:
            about = tomllib.load(file)["project"]
        name, version = about["name"], about["version"]
        module = name.replace("-", "_")
        source = project / module
        if source.is_dir():
            shutil.copytree(source, site / module, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            site.mkdir(exist_ok=True)
            shutil.copy(project / f"{module}.py", site)
        info = site / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        groups = about.get("entry-points", {})
        lines = [
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in groups.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines))
    return Environment(Path(sys.executable), home, str(site))
