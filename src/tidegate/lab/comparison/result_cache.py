"""Results kept by what they were made from, so that a run goes on where it stopped and nothing is measured twice.

A key is a hash of everything that decides a result: the recording, the policy, the window, the count, and the code
itself. What was made by other code is simply not found. Files are written whole or not at all.
"""

import hashlib
import os
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypeVar

import msgspec

_T = TypeVar("_T")

ENGINE_MODULE = "tidegate.lab.replay.session_replay"
"""The module whose code, with all it imports, decides what a policy sends."""
SCORING_MODULE = "tidegate.lab.scoring.request_scorer"
"""The same for what is measured of it."""
RECOVERY_MODULE = "tidegate.lab.scoring.recovery"
"""The part of it that judges recall. Other tools have none, so their figures do not hang on it."""
IMPORTERS_MODULE = "tidegate.lab.importers"
"""The same for what is read of a file."""

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_find_imports = re.compile(r"^\s*(?:from|import) (tidegate(?:\.\w+)*)", re.MULTILINE).findall


class ResultCache:
    """Of one folder; what is damaged or unreadable counts as not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str, kind: type[_T]) -> _T | None:
        try:
            return msgspec.msgpack.decode(self._path(key).read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError):
            return None

    def put(self, key: str, value: object) -> None:
        """Two processes may put the same at once: each writes its own file, and the last one stays."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # pieces of sessions are in here
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with os.fdopen(os.open(part, _CREATE_FLAGS, 0o600), "wb") as file:
                file.write(msgspec.msgpack.encode(value))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.mp"


def hash_values(*parts: object) -> str:
    """Of plain values, the same in every process."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


@cache
def hash_module_code(module: str, but: str = "") -> str:
    """The hash of the source of a module and of everything of ours that it imports, directly or not.

    `but` is a module that is left out, with what is imported for its sake only.
    """
    found = hashlib.sha256()
    for name, data in sorted(collect_module_sources(module, but).items()):
        found.update(f"{name}\0{len(data)}\0".encode())
        found.update(data)
    return found.hexdigest()


def collect_module_sources(module: str, but: str = "") -> dict[str, bytes]:
    sources: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        for name, data in _read_module_sources(waiting.pop()):
            if name not in sources and name != but:
                sources[name] = data
                waiting += _find_imports(data.decode())
    return sources


def _read_module_sources(module: str) -> list[tuple[str, bytes]]:
    """The file of a module, or for a package all its files: which of them are meant is not worth finding out."""
    if module == "tidegate":
        return []
    place = resources.files("tidegate").joinpath(*module.split(".")[1:])
    if place.is_dir():
        return [(f"{module}/{each.name}", each.read_bytes()) for each in place.iterdir() if each.name.endswith(".py")]
    file = resources.files("tidegate").joinpath(*module.split(".")[1:-1], f"{module.rsplit('.', maxsplit=1)[-1]}.py")
    return [(module, file.read_bytes())] if file.is_file() else []
