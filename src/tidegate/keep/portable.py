"""A session as one file to carry away, and back.

Both ways it is a stream: a session need not fit into memory, only its largest message. Large records are taken out of
their blobs; trace, snapshot and index stay behind, for they can be made again.

Secrets are masked on the way out. On the way in nothing is believed that decides what fits: tokens are counted again,
impossible values are refused with the number of their record, and one more record (`foreign`) makes the session forget
what usage reports, cooldowns and caches said elsewhere. Rules and pins in a file that is not trusted do not hold: see
`keep/distrust.py`. All else is the exported log, byte for byte.
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
from tidegate.core.events import Event, Noted, encode
from tidegate.core.impossible import is_count
from tidegate.core.view import View
from tidegate.disk.folder import safe_join
from tidegate.disk.writing import ENDING, not_kept, sync_folder
from tidegate.keep.data import DataFolder
from tidegate.keep.distrust import without_rules
from tidegate.keep.masked import Masking
from tidegate.keep.portable_file import FORMAT, VERSION, File, Header, Item, Limits, Writer, bad, items
from tidegate.keep.recounting import Recounting
from tidegate.keep.retention import FORGOTTEN, LEAVING, mark, remove, settle
from tidegate.session.bill import SPENT, paid_of
from tidegate.session.past import sent_as
from tidegate.store.kept import INLINE, reference
from tidegate.store.memory import check_name, missing

LIMITS = Limits()
AT_ONCE, AT_ONCE_BYTES = 512, 4 * 1024 * 1024
"""Events of an import that are kept by one append: at most so many, and about so large."""


class Exported(msgspec.Struct, frozen=True):
    """`masked` is how many secrets were replaced by a mark."""

    name: str
    events: int
    files: int
    masked: int


# --- out --------------------------------------------------------------------------------------------------------------


def export(data: DataFolder, name: str, path: str | os.PathLike[str]) -> Exported:
    """Write a session into a file, 0600, in one step: on any failure there is no file, or the old one."""
    target = _place(data, Path(path))
    if not data.store.head(name):
        raise missing(name)
    let_go = data.hold(name)
    try:
        with _replaced(target) as file:
            return _write(data, name, file)
    finally:
        let_go()


def _place(data: DataFolder, target: Path) -> Path:
    """Somewhere outside the data, where nothing but an older export stands."""
    real = Path(os.path.realpath(target))
    if real.is_relative_to(os.path.realpath(data.folder)):
        raise BadInput(f"{target} is inside the data folder.", "Export to another folder.")
    if not real.parent.is_dir():
        raise BadInput(f"There is no folder {target.parent}.", "Make it, or give another path.")
    if real.exists() and not (real.is_file() and _is_gzip(real)):
        raise BadInput(f"{target} is there and is not an export.", "Give another path; it was not touched.")
    return real


def _is_gzip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except OSError:
        return False


def _write(data: DataFolder, name: str, file: IO[bytes]) -> Exported:
    log, masking = data.log(name), Masking(data.mask.fresh())
    created = next((info.created for info in data.store.sessions() if info.name == name), 0.0)
    files = 0
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
        writer = Writer(packed)
        writer.put(Header(FORMAT, VERSION, masking.text(name), log.head, created))
        for event in log.read():
            writer.put(masking.event(event))
        source = data.files(name)
        for inner in source.names():
            text = source.read(inner)
            if text is not None:
                writer.put(File(inner, masking.text(text)))
                files += 1
        writer.end(log.head, files, masking.count)
    return Exported(name, log.head, files, masking.count)


@contextmanager
def _replaced(target: Path) -> Iterator[IO[bytes]]:
    fresh = target.with_name(f".{target.name[:80]}.{secrets.token_hex(8)}{ENDING}")
    try:
        opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as failure:
        raise not_kept(target.name, failure) from failure
    try:
        with os.fdopen(opened, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, target)
        sync_folder(target.parent)
    except OSError as failure:
        raise not_kept(target.name, failure) from failure
    finally:
        fresh.unlink(missing_ok=True)


# --- in ---------------------------------------------------------------------------------------------------------------


def import_session(
    data: DataFolder, path: str | os.PathLike[str], name: str = "", *, limits: Limits = LIMITS, trust: bool = False
) -> str:
    """Take a session in, under its own name or another, and give the name. All of it is checked before any is kept.

    The file may come from a stranger: unless the caller says to `trust` it, no rule or pin in it holds here.
    """
    with _opened(Path(path)) as file:
        found = _examined(data, file, name, limits)
        name = found.name
        settle(data, name)  # an older session of this name may be half removed: the new one must not go with it
        with data.alone(name):
            if data.store.head(name):
                raise BadInput(f"There is a session {name!r} already.", "Give the import another name.")
            _take_in(data, name, _arriving(data, found, items(file, limits)), trust)
    return name


class _Examined(NamedTuple):
    """`name` is the one to keep it under, `exported` its own."""

    name: str
    exported: str
    head: int
    model_note: str


def _arriving(data: DataFolder, found: _Examined, arrived: Iterable[Item]) -> Iterator[Item]:
    """The same, counted again, and at the end the record that says where it all comes from."""
    recounting = Recounting(found.model_note)
    for item in arrived:
        yield recounting.event(item) if isinstance(item, Event) else item
    yield Event(found.head + 1, data.clock(), Noted("foreign", found.exported))


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as failure:
        raise BadInput(f"{path} cannot be opened: {failure.strerror}.", "Give the path of an export.") from failure
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise BadInput(f"{path} is not a file.", "Give the path of an export.")
    with os.fdopen(opened, "rb") as file:
        yield file


def _examined(data: DataFolder, file: IO[bytes], name: str, limits: Limits) -> _Examined:
    """Twice through the file: what is undone must be known before the log can be folded in one go."""
    undone: set[int] = set()
    names: set[str] = set()
    exported = model_note = ""
    head = 0
    for item in items(file, limits):
        if isinstance(item, Header):
            exported, head = item.name, item.head
            name = name or data.mask(item.name)
            check_name(name)
            data.check_new(name)
        elif isinstance(item, File):
            _check_file(data, name, item, names)
        elif isinstance(item, Event):
            _check_event(item)
            if isinstance(item.what, Noted) and item.what.topic in ("undo", "redo"):
                _note_undo(item.seq, item.what, undone)
            elif isinstance(item.what, Noted) and item.what.topic == "model":
                model_note = model_note or item.what.text
    view = View(skip=frozenset(undone))
    for item in items(file, limits):
        if isinstance(item, Event):
            _fold(view, item)
    return _Examined(name, exported, head, model_note)


def _check_file(data: DataFolder, name: str, item: File, names: set[str]) -> None:
    files = data.files(name)
    safe_join(files.root, item.file)
    size = len(item.text.encode("utf-8", "replace"))
    if size > files.max_file:
        raise bad(f"the file {item.file} has {size:,} bytes, more than {files.max_file:,}")
    if item.file in names:
        raise bad(f"the file {item.file} is there twice")
    names.add(item.file)


def _check_event(event: Event) -> None:
    what = event.what
    if isinstance(what, Noted) and (wrong := _wrong_in_note(what)):
        raise bad(f"record {event.seq}: {wrong}")
    try:
        encode(event)
    except (UnicodeEncodeError, OverflowError) as failure:
        raise bad(f"record {event.seq} cannot be kept ({failure})") from failure


def _wrong_in_note(noted: Noted) -> str:
    """Numbers that a note carries in its text."""
    if noted.topic == "model":
        asked = sent_as(noted.text)
        if not (is_count(asked.window) and is_count(asked.max_tokens)):
            return f"a window of {asked.window} tokens and an output of {asked.max_tokens} cannot be"
    paid = paid_of(noted) if noted.topic == SPENT else None
    if paid is not None and not all(map(is_count, paid.usage)):
        return "what it says was spent is not a number of tokens"
    return ""


def _note_undo(seq: int, what: Noted, undone: set[int]) -> None:
    number = what.edit
    if not 0 < number < seq:
        raise bad(f"record {seq} undoes what is not there")
    if what.topic == "undo":
        undone.add(number)
    else:
        undone.discard(number)


def _fold(view: View, event: Event) -> None:
    what = event.what
    if isinstance(what, Noted) and what.topic in ("undo", "redo", "forgotten"):
        return  # the fold is made as if these had been known from the start
    try:
        view.fold(event)
    except Exception as failure:  # whatever it is, this log cannot be opened
        raise bad(f"record {event.seq} does not follow from those before it ({type(failure).__name__})") from failure


def _take_in(data: DataFolder, name: str, found: Iterable[Item], trust: bool) -> None:
    """Into a log of another name first, which is marked to be removed should we die; a fork then makes all of it be.

    The files are written before that: without the log nobody sees them.
    """
    staging = f"{name[:400]} (import {secrets.token_hex(8)})"
    let_go = data.hold(staging)
    files: list[str] = []
    try:
        mark(data, staging, LEAVING)
        head = 0
        for batch in _batches(found, data, name, files):
            events = batch if trust else map(without_rules, batch)
            head = data.store.append(staging, head, [_record(data, staging, event) for event in events])
        if data.blobs is not None:
            data.blobs.claim(name, data.blobs.claims(staging))
        data.store.fork(staging, head, name)
    except BaseException:
        _clean(data, name, files)
        raise
    finally:
        let_go()
        # The mark is there: what is not done here is done by whoever opens the folder next. Only what is forgotten is
        # removed for certain then; any other removal would be called off, for the log is still whole.
        with suppress(TidegateError):
            remove(data, staging, FORGOTTEN)


def _record(data: DataFolder, session: str, event: Event) -> bytes:
    record = encode(event)
    if data.blobs is None or len(record) <= INLINE:
        return record
    return reference(data.blobs.put(session, record), len(record))


def _batches(found: Iterable[Item], data: DataFolder, name: str, files: list[str]) -> Iterator[list[Event]]:
    """The events by handfuls; the files are written where they come."""
    batch: list[Event] = []
    size = 0
    for item in found:
        if isinstance(item, Event):
            batch.append(item)
            size += len(encode(item))
            if len(batch) >= AT_ONCE or size >= AT_ONCE_BYTES:
                yield batch
                batch, size = [], 0
        elif isinstance(item, File):
            text = item.text
            files.append(item.file)
            data.files(name).update(item.file, lambda _, text=text: text)  # type: ignore[misc] # bound now
    if batch:
        yield batch


def _clean(data: DataFolder, name: str, files: list[str]) -> None:
    with suppress(TidegateError):
        for file in files:
            data.files(name).remove(file)
        if data.blobs is not None:
            data.blobs.release(name)
