"""Virtual environments with plugin packages installed from wheels. They see the packages that run the tests."""

import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

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
    status: int
    out: str
    err: str


class Environment(NamedTuple):
    python: Path
    folder: Path

    def run(self, *arguments: object, expect: int | None = 0) -> Answer:
        """Run `tidegate` there, in an empty home."""
        return self.run_python("-m", "tidegate", *arguments, expect=expect)

    def run_python(self, *arguments: object, expect: int | None = 0, **variables: str) -> Answer:
        home = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TIDEGATE_DATA": str(self.folder / "data")}
        done = subprocess.run(
            [str(self.python), *map(str, arguments)],
            cwd=self.folder,
            env=home | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert expect is None or done.returncode == expect, done.stdout + done.stderr
        return Answer(done.returncode, done.stdout, done.stderr)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path


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
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    (site / "project.pth").write_text(f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n")
    install = [*pip, "--python", str(inside), "install", "--no-deps", "--no-index", *map(str, wheels.glob("*.whl"))]
    subprocess.run(install, check=True, capture_output=True, text=True, timeout=120)
    home = folder / "home"
    home.mkdir()
    return Environment(inside, home)
