"""Export of a session as one file, and import.

Both are streams: only the largest message must fit into memory, not the session. Large records are read from their
blobs. Trace, snapshot and index are not exported, because they can be rebuilt.

An export masks secrets. An import does not trust what decides about fitting the window: tokens are counted again,
impossible values are refused with the number of their record, and one more record (`foreign`) resets usage reports,
cooldowns and the state of caches. Rules and pins of an untrusted file have no effect: see
`datafolder/archive/distrust.py`. Everything else is the exported log, byte for byte.
"""

import gzip
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.event_check import is_possible_count
from tidegate.core.events import BranchStarted, Event, NoteAdded, encode_event
from tidegate.core.notes import (
    REFOLD_NOTES,
    EditRedone,
    EditUndone,
    LogImported,
    ModelNote,
    SideCost,
    is_note,
    read_note,
)
from tidegate.core.view import LogView
from tidegate.datafolder.archive.distrust import without_rules
from tidegate.datafolder.archive.format import (
    ARCHIVE_FORMAT,
    ARCHIVE_VERSION,
    ArchiveFile,
    ArchiveHeader,
    ArchiveItem,
    ArchiveLimits,
    ArchiveWriter,
    bad_archive,
    read_archive,
)
from tidegate.datafolder.archive.recount import EventRecounter
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.masking import EventMasker
from tidegate.datafolder.removal import BEING_REMOVED, FORGOTTEN_REASON, finish_removal, remove_session
from tidegate.datafolder.retention import set_retention
from tidegate.datafolder.unfinished_changes import UnfinishedChange, begin_change, end_creation
from tidegate.disk.atomic_files import TEMPORARY_SUFFIX, make_write_error, sync_file, sync_folder
from tidegate.disk.folder import safe_join
from tidegate.session.request import parse_model_note
from tidegate.store.memory import check_session_name, session_not_found
from tidegate.store.session_log import store_if_large

_DEFAULT_LIMITS = ArchiveLimits()
_BATCH_EVENTS, _BATCH_BYTES = 512, 4 * 1024 * 1024
"""Events of an import that are stored by one append: their largest number and approximate bytes."""


class ExportResult(msgspec.Struct, frozen=True):
    """`masked` is how many secrets were replaced by a mark."""

    name: str
    event_count: int
    file_count: int
    masked_count: int


# --- export
# --------------------------------------------------------------------------------------------------------------


def export_session(data: FolderContents, name: str, path: str | os.PathLike[str]) -> ExportResult:
    """Write a session into a file, 0600, in one step: on any failure there is no file, or the old one."""
    target = _check_target(data, Path(path))
    if not data.store.head(name):
        raise session_not_found(name)
    with data.locks.hold(name), _open_replacement(target) as file:
        return _write_archive(data, name, file)


def _check_target(data: FolderContents, target: Path) -> Path:
    """Resolve the target: outside the data folder, and either free or an older export."""
    real = Path(os.path.realpath(target))
    if real.is_relative_to(os.path.realpath(data.root)):
        raise BadInput(f"{target} is inside the data folder.", "Export to another folder.")
    if not real.parent.is_dir():
        raise BadInput(f"There is no folder {target.parent}.", "Make it, or give another path.")
    if real.exists() and not (real.is_file() and _is_gzip(real)):
        raise BadInput(f"{target} exists and is not an export.", "Give another path; it was not touched.")
    return real


def _is_gzip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except OSError:
        return False


def _write_archive(data: FolderContents, name: str, file: IO[bytes]) -> ExportResult:
    log, masking = data.open_log(name), EventMasker(data.mask.fresh())
    created = next((info.created for info in data.store.sessions() if info.name == name), 0.0)
    files = 0
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as stream:
        writer = ArchiveWriter(stream)
        writer.put(ArchiveHeader(ARCHIVE_FORMAT, ARCHIVE_VERSION, masking.mask_text(name), log.head, created))
        for event in log.read():
            writer.put(masking.mask_event(event))
        source = data.session_files(name)
        for inner in source.names():
            text = source.read(inner)
            if text is not None:
                writer.put(ArchiveFile(inner, masking.mask_text(text)))
                files += 1
        writer.end(log.head, files, masking.count)
    return ExportResult(name, log.head, files, masking.count)


@contextmanager
def _open_replacement(target: Path) -> Iterator[IO[bytes]]:
    fresh = target.with_name(f".{target.name[:80]}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as failure:
        raise make_write_error(target.name, failure) from failure
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            sync_file(file.fileno())
        os.replace(fresh, target)
        sync_folder(target.parent)
    except OSError as failure:
        raise make_write_error(target.name, failure) from failure
    finally:
        fresh.unlink(missing_ok=True)


# --- import
# ---------------------------------------------------------------------------------------------------------------


def import_session(
    data: FolderContents,
    path: str | os.PathLike[str],
    name: str = "",
    *,
    limits: ArchiveLimits = _DEFAULT_LIMITS,
    trust: bool = False,
) -> str:
    """Import a session under its own name or another, and return the name. The whole file is checked before it is
    stored.

    The file may come from a stranger: unless the caller sets `trust`, its rules and pins have no effect.
    """
    with _open_archive(Path(path)) as file:
        examination = _examine_archive(data, file, name, limits)
        name = examination.name
        finish_removal(data, name)  # an older session of this name may be half removed: the new one must not go with it
        with data.locks.exclusive(name):
            if data.store.head(name):
                raise BadInput(f"There is a session {name!r} already.", "Give the import another name.")
            begin_change(data, UnfinishedChange(name, "create"))
            _store_session(data, name, _recount_items(data, examination, read_archive(file, limits)), trust)
            end_creation(data, name)
    return name


class _Examination(NamedTuple):
    """An import in progress. `name` is the name to store it under, `exported` the name in the file."""

    name: str
    exported: str
    head: int
    model_note: str


def _recount_items(
    data: FolderContents, examination: _Examination, arrived: Iterable[ArchiveItem]
) -> Iterator[ArchiveItem]:
    """Yield the events with new counts, and at the end a record that marks the log as imported."""
    recounting = EventRecounter(examination.model_note)
    for item in arrived:
        yield recounting.event(item) if isinstance(item, Event) else item
    yield Event(examination.head + 1, data.clock(), LogImported(examination.exported).pack())


@contextmanager
def _open_archive(path: Path) -> Iterator[IO[bytes]]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as failure:
        raise BadInput(f"{path} cannot be opened: {failure.strerror}.", "Give the path of an export.") from failure
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadInput(f"{path} is not a file.", "Give the path of an export.")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _examine_archive(data: FolderContents, file: IO[bytes], name: str, limits: ArchiveLimits) -> _Examination:
    """Check the file in two passes: undone edits must be known before the log can be folded at once."""
    undone: set[int] = set()
    names: set[str] = set()
    exported = model_note = ""
    head = 0
    for item in read_archive(file, limits):
        if isinstance(item, ArchiveHeader):
            exported, head = item.name, item.head
            name = name or data.mask(item.name)
            check_session_name(name)
            data.check_new(name)
        elif isinstance(item, ArchiveFile):
            _check_file(data, name, item, names)
        elif isinstance(item, Event):
            _check_event(item)
            if (toggle := read_note(item.payload, EditUndone) or read_note(item.payload, EditRedone)) is not None:
                _apply_undo(item.seq, toggle, undone)
            elif is_note(item.payload, ModelNote):
                model_note = model_note or item.payload.text
    view = LogView(skip=frozenset(undone))
    for item in read_archive(file, limits):
        if isinstance(item, Event):
            _fold(view, item)
    return _Examination(name, exported, head, model_note)


def _check_file(data: FolderContents, name: str, item: ArchiveFile, names: set[str]) -> None:
    files = data.session_files(name)
    safe_join(files.root, item.file)
    size = len(item.text.encode("utf-8", "replace"))
    if size > files.max_file:
        raise bad_archive(f"the file {item.file} has {size:,} bytes, more than {files.max_file:,}")
    if item.file in names:
        raise bad_archive(f"the file {item.file} is there twice")
    names.add(item.file)


def _check_event(event: Event) -> None:
    what = event.payload
    if isinstance(what, NoteAdded) and (wrong := _wrong_in_note(what)):
        raise bad_archive(f"record {event.seq}: {wrong}")
    try:
        encode_event(event)
    except (UnicodeEncodeError, OverflowError) as failure:
        raise bad_archive(f"record {event.seq} cannot be kept ({failure})") from failure


def _wrong_in_note(payload: NoteAdded) -> str:
    """Numbers that a note carries in its text."""
    if is_note(payload, ModelNote):
        note = parse_model_note(payload.text)
        if not (is_possible_count(note.window) and is_possible_count(note.max_tokens)):
            return f"a window of {note.window} tokens and an output of {note.max_tokens} cannot be"
    cost = read_note(payload, SideCost)
    if cost is not None and not all(map(is_possible_count, cost.usage)):
        return "what it says was spent is not a number of tokens"
    return ""


def _apply_undo(seq: int, toggle: EditUndone | EditRedone, undone: set[int]) -> None:
    number = toggle.edit
    if not 0 < number < seq:
        raise bad_archive(f"record {seq} undoes what is not there")
    if isinstance(toggle, EditUndone):
        undone.add(number)
    else:
        undone.discard(number)


def _fold(view: LogView, event: Event) -> None:
    what = event.payload
    if isinstance(what, BranchStarted) or is_note(what, *REFOLD_NOTES):
        return  # the fold is made as if these had been known from the start
    try:
        view.fold(event)
    except Exception as failure:  # after any error this log cannot be opened
        raise bad_archive(
            f"record {event.seq} does not follow from those before it ({type(failure).__name__})"
        ) from failure


def _store_session(data: FolderContents, name: str, items: Iterable[ArchiveItem], trust: bool) -> None:
    """Store the events under a temporary name, which is removed after a crash; a fork then creates the session at once.

    The files are written before that: without the log they are not visible.
    """
    staging = f"{name[:400]} (import {secrets.token_hex(8)})"
    files: list[str] = []
    try:
        with data.locks.hold(staging):
            begin_change(data, UnfinishedChange(staging, "remove"))
            set_retention(data, staging, BEING_REMOVED)
            head = 0
            for batch in _batches(items, data, name, files):
                events = batch if trust else map(without_rules, batch)
                head = data.store.append(
                    staging, head, [store_if_large(encode_event(event), staging, data.blobs) for event in events]
                )
            if data.blobs is not None:
                data.blobs.set_claims(name, data.blobs.claimed_by(staging))
            data.store.fork(staging, head, name)
    except BaseException:
        _remove_partial_import(data, name, files)
        raise
    finally:
        # If this fails, the next opening of the folder finishes it, because the mark is there. The reason must be
        # FORGOTTEN_REASON: a removal with any other reason is canceled while the log is still complete.
        with suppress(TidegateError):
            remove_session(data, staging, FORGOTTEN_REASON)


def _batches(items: Iterable[ArchiveItem], data: FolderContents, name: str, files: list[str]) -> Iterator[list[Event]]:
    """Yield the events in batches; files are written when they occur."""
    batch: list[Event] = []
    size = 0
    for item in items:
        if isinstance(item, Event):
            batch.append(item)
            size += len(encode_event(item))
            if len(batch) >= _BATCH_EVENTS or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        elif isinstance(item, ArchiveFile):
            text = item.text
            files.append(item.file)
            data.session_files(name).update(item.file, lambda _, text=text: text)  # type: ignore[misc] # bound now
    if batch:
        yield batch


def _remove_partial_import(data: FolderContents, name: str, files: list[str]) -> None:
    with suppress(TidegateError):
        for file in files:
            data.session_files(name).remove(file)
        if data.blobs is not None:
            data.blobs.release(name)
