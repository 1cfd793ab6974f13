"""A folder of results, so that an interrupted run continues where it stopped and nothing is measured twice.

The key of a result is a hash of everything that decides it: the content of the recording, the policy and its settings,
the window, the token count, and the versions below. Results of another version are not found. Files are written whole
or not at all.
"""

import hashlib
import os
from pathlib import Path
from typing import TypeVar

import msgspec

_T = TypeVar("_T")


class ResultVersions(msgspec.Struct, frozen=True):
    """The versions of the code that makes results. Raise a number when that code gives other results than before.

    `engine`: the requests that a policy sends (core, session, replay). `scoring`: signals and measures (lab/scoring).
    `importers`: the recordings read from a file (lab/importers). `peers`: the scripts in bench/peers.
    tests/lab/comparison/test_result_versions.py fails when results change and no number was raised.
    """

    engine: int = 22
    scoring: int = 3
    importers: int = 1
    peers: int = 1


CURRENT_VERSIONS = ResultVersions()

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class ResultCache:
    """The results in one folder. A damaged or unreadable file counts as missing, and is measured again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str, kind: type[_T]) -> _T | None:
        try:
            return msgspec.msgpack.decode(self._path(key).read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError):
            return None

    def put(self, key: str, value: object) -> None:
        """Store a result. Two processes may store the same one: each writes its own file, and the last one stays."""
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
    """Return the hash of plain values, the same in every process."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
