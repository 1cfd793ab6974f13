"""Snapshots of views, one file per session: the time to open a session depends on its view, not on its log.

A snapshot is derived data: it is written without fsync, and if anything is wrong with it, the view is folded from the
log instead. It is used only if it is whole (length and CRC-32), of this version and session, counted by the same meter,
and the log still contains the event it ends with (SHA-256). It contains no secrets: see `snapshot_gaps`. It is
compressed, to some 40 percent.
"""

import hashlib
import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from glob import escape
from itertools import islice
from pathlib import Path
from typing import cast

import msgspec
from isal import isal_zlib

from tidegate.core.errors import BadInput, NotKept, TidegateError
from tidegate.core.events import BranchStarted, Event, MessageAdded, NoteAdded, encode_event
from tidegate.core.messages import encode_into_bytes
from tidegate.core.notes import REFOLD_NOTES, is_note
from tidegate.core.snapshot import freeze_view, thaw_view
from tidegate.core.tokens.counting import make_policy_meter
from tidegate.core.view import LogView, View
from tidegate.datafolder.snapshot_gaps import EventReader, Gap, SecretSearch, censor_fields, fill_gaps
from tidegate.disk.atomic_files import TEMPORARY_SUFFIX, write_atomically
from tidegate.session.conversation import LiveConversation
from tidegate.store.deferred_log import is_stored
from tidegate.store.errors import DamagedData
from tidegate.store.log import Log

SNAPSHOT_INTERVAL = 64
"""Events between two saves: the most that must be folded after a process was killed."""
_BYTES_PER_EVENT = 64 * 1024
"""For each this many bytes of a snapshot the interval grows by an event: a large view is saved less often."""
_MAX_SNAPSHOT_BYTES = 256 * 1024 * 1024
_MAGIC = b"tidegate view 4\n"
_MAGIC_UNCOMPRESSED = b"tidegate view 3\n"
"""Of an earlier version, which did not compress."""
_UNPACK_ERROR = cast(type[Exception], isal_zlib.error)  # its type stub does not say that it is one
_SEAL = struct.Struct(">QI")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _SnapshotRecord(msgspec.Struct, frozen=True, array_like=True):
    """`event` is the SHA-256 of the event that the view ends with. `suspect`: see `SecretSearch`."""

    key: str
    meter: str
    seq: int
    event_hash: bytes
    suspect: bool
    gaps: list[Gap]
    view: memoryview


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_SnapshotRecord)


class Snapshots:
    """The snapshots in a folder. `key` is the file name of a session.

    `meter` is the name of the policy's own token estimator, whose counts are in the view. A text that `mask` changes
    contains a secret.
    """

    def __init__(self, folder: Path, mask: Callable[[str], str] = str) -> None:
        self._folder = folder
        self._mask = mask
        self._saved_seqs: dict[str, int] = {}
        self._secret_searches: dict[str, SecretSearch] = {}

    def secret_search(self, key: str, *, suspect: bool = True) -> SecretSearch:
        """What is known about secrets in this session. `suspect` is for a session that was not searched yet."""
        return self._secret_searches.setdefault(key, SecretSearch(self._mask, suspect=suspect))

    def save(self, key: str, view: View, event: Event, meter: str) -> int:
        """Save this view, which ends with this event. Return its bytes, or 0 if the disk refused, which is harmless."""
        if event.seq != view.head:
            raise BadInput(f"The view ends with event {view.head}, not {event.seq}.", "Give the event it ends with.")
        search = self.secret_search(key)
        gaps = search.find_gaps(view)
        frozen = memoryview(freeze_view(view, **censor_fields(view, gaps)))
        record = _SnapshotRecord(key, meter, view.head, _hash(encode_event(event)), search.suspect, gaps, frozen)
        body = isal_zlib.compress(encode_into_bytes(_encoder, record), 3)
        try:
            write_atomically(self._folder / key, _MAGIC + _seal(body) + body, durable=False)
        except NotKept:
            return 0
        self._saved_seqs[key] = view.head
        return len(body)

    def load(self, key: str, log: Log, meter: str) -> LogView | None:
        """The saved view of this log, without later events; None if the view must be folded from the log."""
        self.release(key)
        record = self._read(key)
        if record is None or (record.key, record.meter) != (key, meter) or not _log_has_event(log, record):
            return None
        try:
            view = thaw_view(record.view, make_policy_meter(meter) if meter else None)
        except BadInput:
            return None
        if view.head != record.seq or not fill_gaps(view, record.gaps, _make_event_reader(log)):
            return None
        self._saved_seqs[key] = view.head
        self.secret_search(key, suspect=record.suspect)
        return view

    def release(self, key: str) -> None:
        """Forget what is known about a session that was closed. It is learned again when the session is opened."""
        self._saved_seqs.pop(key, None)
        self._secret_searches.pop(key, None)

    def read_meter(self, key: str) -> str | None:
        """The name of the meter that counted the saved view; None if there is no readable snapshot."""
        record = self._read(key)
        return None if record is None else record.meter

    def remove(self, key: str) -> None:
        """Remove the snapshot of a session whose log is removed or rewritten, and unfinished files of killed saves.

        No process may have the session open meanwhile.
        """
        self.release(key)
        try:
            for path in (self._folder / key, *self._folder.glob(f".{escape(key[:80])}.*{TEMPORARY_SUFFIX}")):
                path.unlink(missing_ok=True)
        except OSError as failure:
            cause = f"The snapshot {key} was not removed: {failure.strerror}."
            raise NotKept(cause, "Check the permissions of its folder.") from failure

    def saved_seq(self, key: str) -> int:
        """The seq up to which the view of this session was last saved or loaded here; 0 if it was not."""
        return self._saved_seqs.get(key, 0)

    def _read(self, key: str) -> _SnapshotRecord | None:
        try:
            file = os.open(f"{self._folder}/{key}", _READ)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_SNAPSHOT_BYTES:
                return None
            data = os.read(file, status.st_size)  # a writer replaces the file; a short read fails the length check
        except OSError:
            return None
        finally:
            os.close(file)
        return _decode_file(data)


def _decode_file(data: bytes) -> _SnapshotRecord | None:
    magic, start = data[: len(_MAGIC)], len(_MAGIC) + _SEAL.size
    body = memoryview(data)[start:]
    if magic not in (_MAGIC, _MAGIC_UNCOMPRESSED) or _seal(body) != data[len(_MAGIC) : start]:
        return None
    try:
        if magic == _MAGIC:
            unpacker = isal_zlib.decompressobj()
            body = memoryview(unpacker.decompress(body, _MAX_SNAPSHOT_BYTES))
            if not unpacker.eof:
                return None
        return _decoder.decode(body)
    except (_UNPACK_ERROR, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _seal(body: bytes | memoryview) -> bytes:
    return _SEAL.pack(len(body), isal_zlib.crc32(body))


def _hash(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def _log_has_event(log: Log, record: _SnapshotRecord) -> bool:
    event = _event(log, record.seq)
    return event is not None and _hash(encode_event(event)) == record.event_hash


def _event(log: Log, seq: int) -> Event | None:
    if not 1 <= seq <= log.head:
        return None
    try:
        return next(islice(log.read(seq), 1), None)
    except DamagedData:
        return None


def _make_event_reader(log: Log) -> EventReader:
    """Read events with those after them: gaps are often close to each other, and records are stored in packs."""
    events: dict[int, Event] = {}

    def read(seq: int) -> Event | None:
        if seq not in events and 1 <= seq <= log.head:
            with suppress(DamagedData):
                events.update((event.seq, event) for event in islice(log.read(seq), SNAPSHOT_INTERVAL))
        return events.get(seq)

    return read


def make_snapshot_watcher(
    session: LiveConversation, snapshots: Snapshots, key: str, meter: str
) -> Callable[[Event], None]:
    """Make an observer of the session's events that saves snapshots. The last one is saved when the session closes.

    After an undo it saves at once: with an older snapshot the whole log would be folded again.
    """
    gap, last_saved = SNAPSHOT_INTERVAL, snapshots.saved_seq(key)
    search = snapshots.secret_search(key, suspect=session.view.said_seq > 0)
    if last_saved:
        for event in islice(session.log.read(last_saved + 1), session.view.head - last_saved):
            search.search_event(event)

    def save(event: Event | None) -> None:
        nonlocal gap, last_saved
        if event is not None and last_saved != event.seq == session.view.head:
            last_saved = event.seq  # also if the disk refuses: the next attempt is later, not at every event
            gap = max(SNAPSHOT_INTERVAL, snapshots.save(key, session.view, event, meter) // _BYTES_PER_EVENT)

    def keep(event: Event) -> None:
        what, is_moved = event.payload, False
        if isinstance(what, MessageAdded):
            search.search_event(event)
        elif isinstance(what, NoteAdded):
            is_moved = isinstance(what, BranchStarted) or is_note(what, *REFOLD_NOTES)
        if is_moved or event.seq - last_saved >= gap:
            with suppress(TidegateError, OSError):  # the log cannot be read now; the event itself is stored
                save(event)

    def last() -> None:
        with suppress(TidegateError, OSError):  # the store may be closed already, or damaged there
            if last_saved != session.view.head and is_stored(session.log):
                save(next(islice(session.log.read(session.view.head), 1), None))

    def close() -> None:
        last()
        snapshots.release(key)

    session.call_on_close(close)
    if session.view.head - last_saved >= SNAPSHOT_INTERVAL:
        last()
    return keep
