"""Checks for data that belongs to no session: files, traces, snapshots and claims without a log, and unused blobs.

A removal deletes all of these, or is finished later. So if something is left without a removal, the log itself may have
been lost: nothing is deleted then but what could be rebuilt from a log.
"""

import os
from collections.abc import Iterator, Set
from pathlib import Path

from tidegate.core.errors import TidegateError
from tidegate.core.text.plural import format_count
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.doctor.finding import Finding
from tidegate.datafolder.doctor.folder_files import DAMAGED_FOLDER, is_regular_file, move_to_damaged
from tidegate.datafolder.recall_files import is_recall_file
from tidegate.datafolder.trace.lines import decode_trace_line
from tidegate.disk.atomic_files import make_folder
from tidegate.disk.folder import session_file_key
from tidegate.store.blob_claims import BlobClaims


def check_orphaned_files(data: FolderContents, unfinished: Set[str], repair: bool) -> Iterator[Finding]:
    """Find files of sessions that no longer exist. Only run if the list of sessions is reliable.

    `unfinished` are sessions that a fork, an import or a removal has yet to make or to remove.
    """
    root, known = data.root, _session_keys(data) | set(map(session_file_key, unfinished))
    found: list[tuple[str, str, Path]] = []
    for path in _entries(root / "sessions"):
        found += [("files", path.name, path)] if _is_folder(path) else []
    for path in _entries(root / "traces"):
        ours = path.suffix == ".jsonl" and decode_trace_line(_read_start(path).partition(b"\n")[0]) is not None
        found += [("trace", path.stem, path)] if ours else []
    for path in _entries(root / "views"):
        found += [("snapshot", path.name, path)] if _read_start(path).startswith(b"tidegate view") else []
    found += [("recall index", path.name, path) for path in _entries(root / "recall") if is_recall_file(path)]
    # Any file among the claims counts: while one of them cannot be read, no blob is ever deleted.
    found += [("claims", path.name, path) for path in _entries(root / "blobs" / "claims")]
    for what, key, path in found:
        if key not in known:
            yield from _handle_orphan(data, path, key, what, repair)


def _session_keys(data: FolderContents) -> set[str]:
    return {session_file_key(info.name) for info in data.store.sessions()}


def _handle_orphan(data: FolderContents, path: Path, key: str, what: str, repair: bool) -> Iterator[Finding]:
    """Handle one orphan. The sessions are listed again under its lock: a new session has files before it has a log."""
    description = f"Data of a session that no longer exists: {what} ({path.name})."
    with data.locks.exclusive_key(key) as acquired:
        if not acquired or key in _session_keys(data):
            return
        if not repair:
            yield Finding("", description, "broken", "With --repair it is moved to damaged/.")
            return
        try:
            yield Finding("", description, "mended", _remove_or_move(data, path, key, what))
        except (OSError, TidegateError) as hindrance:
            yield Finding("", description, "broken", str(hindrance))


def _remove_or_move(data: FolderContents, path: Path, key: str, what: str) -> str:
    if what in ("snapshot", "recall index"):
        path.unlink()
        return "It is removed."
    if what == "claims":
        _save_blobs(data, key)
    return f"It is now {move_to_damaged(data, path, what)}; remove that if you do not miss it."


def _save_blobs(data: FolderContents, key: str) -> None:
    """Copy the blobs that only this session claims: without its claims they would be deleted."""
    claims = BlobClaims(data.root / "blobs" / "claims")
    others = _claimed_blobs(claims, *(other for other in claims.session_keys() if other != key))
    for sha in _claimed_blobs(claims, key) - others:
        copy_blob_to_damaged(data, sha)


def _claimed_blobs(claims: BlobClaims, *keys: str) -> set[str]:
    return {sha for key in keys if is_regular_file(claims.folder / key) for sha in claims.read(key).sizes}


def copy_blob_to_damaged(data: FolderContents, sha: str) -> None:
    path = data.root / "blobs" / sha[:2] / sha
    place = data.root / DAMAGED_FOLDER / f"blob-{sha}"
    if is_regular_file(path) and not place.exists():
        make_folder(place.parent)
        os.link(path, place)


def _entries(folder: Path) -> list[Path]:
    """The entries of a folder, without locks and unfinished files."""
    if not folder.is_dir() or folder.is_symlink():
        return []
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _read_start(path: Path, size: int = 65_536) -> bytes:
    """The first bytes of a regular file; empty if it is none or cannot be read."""
    if not is_regular_file(path):
        return b""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def check_unclaimed_blobs(data: FolderContents, needed: set[str], repair: bool) -> Iterator[Finding]:
    """Find blobs that no session claims or needs. They are deleted only if all claims can be read."""
    if data.blobs is None or not data.blobs.folder.is_dir():
        return
    claims = BlobClaims(data.blobs.folder / "claims")
    needed = needed | _claimed_blobs(claims, *claims.session_keys())
    shelves = [path for path in _entries(data.blobs.folder) if len(path.name) == 2 and _is_folder(path)]
    idle = [path for shelf in shelves for path in _entries(shelf) if len(path.name) == 64 and path.name not in needed]
    if not idle:
        return
    what = f"{len(idle)} large records are needed by no session."
    if not repair:
        yield Finding("", what, "broken", "They are removed with --repair.")
        return
    try:
        done = data.blobs.collect()
    except TidegateError as hindrance:
        yield Finding("", what, "broken", str(hindrance))
    else:
        yield Finding("", what, "mended", f"Removed: {format_count(done.count, 'file')} with {done.size:,} bytes.")
