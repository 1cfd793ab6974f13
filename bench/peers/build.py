"""Build the environments of the peers: one virtual environment each, with the exact versions of its requirements file.

    python3 bench/peers/build.py [NAME ...]        (make peers)

Standard library only: it runs before anything is installed. An environment that already has what its file lists is
left alone.
"""

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = Path(os.environ.get("TIDEGATE_PEERS") or HERE.parent / ".envs")
ENVIRONMENT_NAMES = tuple(sorted(path.stem for path in (HERE / "requirements").glob("*.txt")))
_EMBEDDINGS = "embeddings"
"""The models of bench/search.py. One of their packages has wheels for some machines only, so it may be compiled; the
packages of all peers are installed from wheels."""


def _compute_stamp(requirements: Path) -> str:
    """Return the content of an environment's mark: a hash of its requirements and of this Python's version."""
    return hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()


def build_environment(name: str) -> bool:
    requirements = HERE / "requirements" / f"{name}.txt"
    folder = ENVIRONMENTS / name
    mark = folder / ".built"
    stamp = _compute_stamp(requirements)
    if mark.is_file() and mark.read_text(encoding="ascii") == stamp:
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
    mark.write_text(stamp, encoding="ascii")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build the environments of the libraries that tidegate is compared with."
    )
    parser.add_argument("name", nargs="*", help=f"of {', '.join(ENVIRONMENT_NAMES)}; all if none is given")
    options = parser.parse_args().name or ENVIRONMENT_NAMES
    if unknown := [name for name in options if name not in ENVIRONMENT_NAMES]:
        parser.error(f"no environment named {', '.join(unknown)}; there are: {', '.join(ENVIRONMENT_NAMES)}")
    try:
        results = [build_environment(name) for name in options]
    except KeyboardInterrupt:
        print("peers: stopped; run the command again to continue", file=sys.stderr)
        return 130
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
