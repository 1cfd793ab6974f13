"""Make the peers' environments: one virtual environment each under bench/.envs, with the exact versions of <env>.txt.

    python3 bench/peers/build.py [ENV ...]

An environment that already has what its file lists is left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

from rows import ENVS, HERE, ROWS

LAB = ("agent_framework", "strands")
"""Those that only the lab plays recordings through; it plays the others, too."""

NAMES = (*dict.fromkeys(row.env for row in ROWS), *LAB, "embeddings")
"""The peers of bench/prepare.py and bench/store.py, of the lab, and the models of bench/search.py."""

FROM_SOURCE = frozenset({"embeddings"})
"""One of its packages has wheels for some machines only. All else is installed from wheels: nothing is compiled."""


def stamp(requirements: Path) -> str:
    """What an environment must carry to count as built: these requirements, under this Python."""
    return hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()


def build(name: str) -> bool:
    requirements = HERE / f"{name}.txt"
    folder = ENVS / name
    mark = folder / ".built"
    wanted = stamp(requirements)
    if mark.is_file() and mark.read_text(encoding="ascii") == wanted:
        print(f"peers: {name} is ready")
        return True
    print(f"peers: building {name} ...", flush=True)
    # The files are whole: nothing else is wanted, least of all the frameworks that the embedding models ask for.
    options = ["--no-deps", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    if name not in FROM_SOURCE:
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
    parser = argparse.ArgumentParser(description="Make the environments of the peers that are measured here.")
    parser.add_argument("env", nargs="*", help=f"all if none is named: {', '.join(NAMES)}")
    wanted = parser.parse_args().env or NAMES
    if unknown := [name for name in wanted if name not in NAMES]:
        parser.error(f"no peer named {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    try:
        built = [build(name) for name in wanted]
    except KeyboardInterrupt:
        print("peers: stopped; run it again to go on", file=sys.stderr)
        return 130
    return 0 if all(built) else 1


if __name__ == "__main__":
    sys.exit(main())
