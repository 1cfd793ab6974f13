"""Build the environments of the peers: one virtual environment each, with the exact versions of its requirements file.

    PYTHONPATH=src python3 -m tidegate.lab.peers.build [NAME ...]        (make peers)

Standard library only. An environment that already has what its file lists is left alone.
"""

# ruff: noqa: T201 - a command prints

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

from tidegate.lab.peers.environments import get_environments_folder
from tidegate.lab.peers.registry import REQUIREMENTS_FOLDER, list_environments

_EMBEDDINGS = "embeddings"
"""The models of bench/search.py. One of their packages has wheels for some machines only, so it may be compiled; the
packages of all peers are installed from wheels."""

ENVIRONMENT_NAMES = (*list_environments(), _EMBEDDINGS)


def find_requirements(name: str) -> Path:
    if name == _EMBEDDINGS:
        return Path(__file__).resolve().parents[4] / "bench" / "runners" / "embeddings.txt"
    return REQUIREMENTS_FOLDER / f"{name}.txt"


def _compute_stamp(requirements: Path) -> str:
    """Return the content of an environment's mark: a hash of its requirements and of this Python's version."""
    return hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()


def build_environment(name: str) -> bool:
    requirements = find_requirements(name)
    folder = get_environments_folder() / name
    mark = folder / ".built"
    wanted = _compute_stamp(requirements)
    if mark.is_file() and mark.read_text(encoding="ascii") == wanted:
        print(f"peers: {name} is ready")
        return True
    print(f"peers: building {name} ...", flush=True)
    # A requirements file lists every package, so that pip adds none (the embedding models ask for whole frameworks).
    options = ["--no-deps", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    if name != _EMBEDDINGS:
        options += ["--only-binary", ":all:"]
    steps = (
        (sys.executable, "-m", "venv", "--clear", str(folder)),
        (str(folder / "bin" / "python"), "-m", "pip", "install", *options),
    )
    for step in steps:
        if subprocess.run(step, check=False).returncode != 0:
            print(f"peers: {name} failed at: {' '.join(step)}", file=sys.stderr)
            return False
    mark.write_text(wanted, encoding="ascii")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build the environments of the libraries that tidegate is compared with."
    )
    parser.add_argument("name", nargs="*", help=f"of {', '.join(ENVIRONMENT_NAMES)}; all if none is given")
    wanted = parser.parse_args().name or ENVIRONMENT_NAMES
    if unknown := [name for name in wanted if name not in ENVIRONMENT_NAMES]:
        parser.error(f"no environment named {', '.join(unknown)}; there are: {', '.join(ENVIRONMENT_NAMES)}")
    try:
        built = [build_environment(name) for name in wanted]
    except KeyboardInterrupt:
        print("peers: stopped; run the command again to continue", file=sys.stderr)
        return 130
    return 0 if all(built) else 1


if __name__ == "__main__":
    sys.exit(main())
