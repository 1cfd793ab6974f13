"""Recordings named by a pattern or by a URL of `fsspec`, such as s3://bucket/sessions/*.jsonl, as local files.

Files of a URL are copied into the cache once. A copy is named for the URL and for what the storage says about the file
(size, checksum or time), so a file that changed is copied again.
"""

import glob
import hashlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from tidegate.core.errors import BadInput
from tidegate.disk.atomic_files import make_folder, write_private

_PATTERN_CHARS = "*?["


def fetch_recordings(names: Sequence[str], cache: Path) -> list[Path]:
    """The files and folders of these names. BadInput for a pattern or URL that names nothing."""
    recordings: list[Path] = []
    for name in names:
        if "://" in name:
            recordings += _fetch_url(name, cache / "recordings")
        elif any(char in name for char in _PATTERN_CHARS) and not Path(name).exists():
            matches = sorted(map(Path, glob.glob(name, recursive=True)))
            if not matches:
                raise BadInput(f"No file matches {name}.", "Check the pattern; ** matches folders at any depth.")
            recordings += matches
        else:
            recordings.append(Path(name))
    return recordings


def _fetch_url(url: str, cache: Path) -> list[Path]:
    try:
        fsspec: Any = import_module("fsspec")
    except ImportError:
        raise BadInput(
            "A URL of recordings needs a package that is not installed: fsspec.", "Run: pip install 'tidegate[cluster]'"
        ) from None
    try:
        storage, path = fsspec.core.url_to_fs(url)
        if any(char in path for char in _PATTERN_CHARS):
            details = storage.glob(path, detail=True)
        elif storage.isdir(path):
            details = storage.find(path, detail=True)
        else:
            details = {path: storage.info(path)}
        files = [details[name] for name in sorted(details) if details[name]["type"] == "file"]
        if not files:
            raise BadInput(f"There is no file at {url}.", "Check the URL; * and ** match names.")
        return [_copy(storage, url.partition("://")[0], file, cache) for file in files]
    except (OSError, ValueError, ImportError) as failure:
        raise BadInput(f"{url} cannot be read: {failure}.", "Check the URL and the credentials.") from failure


def _copy(storage: Any, scheme: str, file: dict[str, Any], cache: Path) -> Path:
    """Copy a file. The copies of a folder are ordered by their names, as the files of a local folder are."""
    path = PurePosixPath(file["name"])
    version = [file.get("size"), *(str(file.get(key, "")) for key in ("ETag", "mtime", "created"))]
    target = cache / _hash([scheme, str(path.parent)]) / path.name / _hash(version) / path.name
    if not target.exists():
        make_folder(target.parent)
        write_private(target, storage.cat_file(file["name"]))
    return target


def _hash(values: list[object]) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
