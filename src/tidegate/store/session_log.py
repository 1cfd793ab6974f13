"""The log of one session in a store. A large record is stored in a blob, and the log has a reference to it."""

import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from tidegate.core.events import Event, decode_event, encode_event
from tidegate.core.notes import ContentForgotten, is_note
from tidegate.store.blobs import Blobs
from tidegate.store.errors import DamagedData, SessionNotFound
from tidegate.store.log import check_sequence
from tidegate.store.memory import stale_head_error
from tidegate.store.store import AsyncAppendStore, Store

_AppendAsync = Callable[[str, int, Sequence[bytes]], Awaitable[int]]
MAX_INLINE_BYTES = 256 * 1024
_MARK = 0xC1  # no MessagePack value begins with it, so no event does
_REFERENCE = struct.Struct(">B32sQ")


def make_blob_reference(sha: str, size: int) -> bytes:
    """The record that refers to a blob, with the size of its content."""
    return _REFERENCE.pack(_MARK, bytes.fromhex(sha), size)


def parse_blob_reference(record: bytes) -> str | None:
    """The blob that a record refers to; None for a record that is an event itself."""
    if len(record) != _REFERENCE.size or record[0] != _MARK:
        return None
    return record[1:33].hex()


def store_if_large(record: bytes, session: str, blobs: Blobs | None) -> bytes:
    """Return the record as it is to be stored. A large one is put into a blob, and a reference is returned.

    A record that holds a secret stays in the store: only the log may contain secrets.
    """
    if blobs is None or len(record) <= MAX_INLINE_BYTES:
        return record
    blobs.check_size(record)
    if blobs.has_secret(record):
        return record
    return make_blob_reference(blobs.put(session, record), len(record))


def _get_append_async(store: Store) -> _AppendAsync:
    if isinstance(store, AsyncAppendStore):
        return store.append_async

    async def append(session: str, after: int, records: Sequence[bytes]) -> int:
        import asyncio  # noqa: PLC0415 - commands that only read need no event loop

        return await asyncio.to_thread(store.append, session, after, records)

    return append


class KeptLog:
    """A log as this process knows it: `head` and `read` end where it has read or written so far.

    What others append is seen only through `read_new_events`, so that a view folded from this log never skips an event.
    If others appended since, `append` raises StaleHead; call `read_new_events`, and decide again.
    """

    def __init__(self, store: Store, session: str, blobs: Blobs | None = None) -> None:
        """Without `blobs` every record stays in the store, however large."""
        self._store = store
        self._blobs = blobs
        self.session_name = session
        self.head = store.head(session)  # the seq of the last event that this process knows; 0 if the log is empty
        self._known_record = self._newest()  # a record we know, to notice another log in this one's place
        self._append_async: _AppendAsync | None = None  # the store's own, once someone asks for it

    def _newest(self) -> tuple[int, bytes]:
        """Return the number of the last record and the record; 0 if it cannot be read (reading it reports the
        damage).
        """
        with suppress(DamagedData, SessionNotFound):
            for record in self._store.read(self.session_name, self.head) if self.head else ():
                return self.head, record
        return 0, b""

    def append(self, *events: Event) -> None:
        """Append events in one step. StaleHead if others appended since the head was read."""
        records = self._move_large_records(self._encode_records(events))
        self._advance(self._store.append(self.session_name, self.head, records), records)

    async def append_async(self, *events: Event) -> bool:
        """`append` without blocking the event loop. False if `read_new_events` returned the events before this did."""
        records = self._encode_records(events)
        if self._blobs is not None and any(len(record) > MAX_INLINE_BYTES for record in records):
            import asyncio  # noqa: PLC0415

            records = await asyncio.to_thread(self._move_large_records, records)  # it writes a blob
        append = self._append_async = self._append_async or _get_append_async(self._store)
        head = await append(self.session_name, self.head, records)
        if head <= self.head:
            return False
        self._advance(head, records)
        return True

    def _encode_records(self, events: Sequence[Event]) -> list[bytes]:
        check_sequence(self.head, events)
        return list(map(encode_event, events))

    def _move_large_records(self, records: list[bytes]) -> list[bytes]:
        return [self._move_to_blob(record) if len(record) > MAX_INLINE_BYTES else record for record in records]

    def _advance(self, head: int, records: Sequence[bytes]) -> None:
        self.head = head
        self._known_record = (head, records[-1])

    def _move_to_blob(self, record: bytes) -> bytes:
        """Store a large record in a blob and return the record that refers to it.

        The head is checked first: a blob whose record cannot be appended would be left over."""
        if self._blobs is None:
            return record
        there = self._store.head(self.session_name)
        if there != self.head:
            raise stale_head_error(self.session_name, self.head, there)
        return store_if_large(record, self.session_name, self._blobs)

    def read(self, start: int = 1) -> Iterator[Event]:
        """Yield the events from this seq up to the known head."""
        head = self.head
        if start > head:
            return
        seq, record = self._known_record
        if start == head == seq:  # only the newest record, which is known
            yield self._event(seq, record)
            return
        for event in self._events(max(1, start)):
            yield event
            if event.seq >= head:
                return

    def read_new_events(self) -> Iterator[Event]:
        """The events that others appended, to be folded in order; the head moves with each one.

        SessionNotFound if the session was removed, or removed and created again.
        """
        there = self._store.head(self.session_name)
        if there < self.head:
            raise SessionNotFound(
                f"Session {self.session_name!r} was removed meanwhile: it ends with record {there}, not {self.head}.",
                "Open the session again.",
            )
        if there == self.head:
            return
        if not (self._is_same_log() or self._was_rewritten()):
            raise SessionNotFound(
                f"Session {self.session_name!r} was replaced meanwhile: record {self._known_record[0]} is not the"
                " same.",
                "Open the session again.",
            )
        for event in self._events(self.head + 1):
            self.head = event.seq
            yield event

    def _is_same_log(self) -> bool:
        """Whether the record we know is still in its place. If it is damaged now, we assume so."""
        seq, known_bytes = self._known_record
        if not seq:
            return True
        try:
            record = next(iter(self._store.read(self.session_name, seq)), b"")
        except DamagedData:
            return True
        return record == known_bytes

    def _was_rewritten(self) -> bool:
        """Whether later events say that something was forgotten: that may have been the record we know."""
        for seq, record in enumerate(self._store.read(self.session_name, self.head + 1), self.head + 1):
            what = self._event(seq, record).payload
            if is_note(what, ContentForgotten):
                return True
        return False

    def _remember_record(self, seq: int, record: bytes) -> None:
        """Remember the newest record. A known one is not replaced: its place may hold another record by now."""
        if seq >= self.head and seq > self._known_record[0]:
            self._known_record = (seq, record)

    def _events(self, start: int) -> Iterator[Event]:
        for seq, record in enumerate(self._store.read(self.session_name, start), start):
            event = self._event(seq, record)
            self._remember_record(seq, record)
            yield event

    def _event(self, seq: int, record: bytes) -> Event:
        return _decode_record(self.session_name, seq, record, self._blobs)


def read_stored_events(store: Store, session: str, blobs: Blobs | None = None) -> Iterator[Event]:
    """Yield the events of a session. Faster than a log for who looks only at the first ones, and never appends."""
    for seq, record in enumerate(store.read(session), 1):
        yield _decode_record(session, seq, record, blobs)


def _decode_record(session: str, seq: int, record: bytes, blobs: Blobs | None) -> Event:
    sha = parse_blob_reference(record)
    try:
        event = decode_event(record if sha is None else _read_blob(session, seq, sha, blobs))
    except msgspec.DecodeError as fault:
        raise _make_damage(session, seq, str(fault)) from fault
    if event.seq != seq:
        raise _make_damage(session, seq, f"it calls itself event {event.seq}")
    return event


def _read_blob(session: str, seq: int, sha: str, blobs: Blobs | None) -> bytes:
    if blobs is None:
        raise DamagedData(
            f"Record {seq} of session {session!r} is in the blob {sha}, and this log was opened without its blobs.",
            "Open the session through its data folder.",
        )
    try:
        return blobs.get(sha)
    except DamagedData as fault:
        raise DamagedData(f"Record {seq} of session {session!r}: {fault.args[0]}", fault.remedy) from fault


def _make_damage(session: str, seq: int, fault: str) -> DamagedData:
    return DamagedData(
        f"Record {seq} of session {session!r} is whole but not an event: {fault}.",
        "It may be of a newer tidegate, or not of tidegate at all. The other records can be read.",
        first=seq,
        last=seq,
    )
