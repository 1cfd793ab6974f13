"""The only way content leaves a log: a session, messages of it, or words that should never have been said there.

What is taken out of a log leaves a tombstone in its place, and an event that says which records were changed. It also
goes from whatever was made of the log: blobs, files, trace, notes, snapshot, index. Nobody may have the session open.

Each step can be done again: if a run is cut short, the log is valid and opens, and the same call finishes the rest.
What is needed to find the rest goes last: words are known to the caller, but what a message said only its log knows.

A fork is a session of its own: what was said before it is to be forgotten there, too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from tidegate.core.edits import Insert
from tidegate.core.errors import BadInput
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited, encode_event
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.forget.files import (
    list_damaged_pieces,
    list_session_notes,
    map_changed_hashes,
    remove_messages_from_file,
    remove_note_titles,
    remove_phrase_from_note,
    rewrite_files,
    sync_file,
)
from tidegate.datafolder.forget.tombstones import (
    MIN_FORGOTTEN_CHARS,
    TOMBSTONE,
    PhraseRemover,
    blank_event,
    find_derived_messages,
)
from tidegate.datafolder.removal import (
    BEING_REMOVED,
    FORGOTTEN_REASON,
    StepCallback,
    get_retention_days,
    ignore_step,
    remove_session,
)
from tidegate.datafolder.trace.writer import Trace
from tidegate.disk.atomic_files import make_write_error
from tidegate.session.recall import recall_message
from tidegate.store.memory import session_not_found
from tidegate.store.session_log import KeptLog, parse_blob_reference, store_if_large
from tidegate.store.store import RewritableStore
from tidegate.wire.parsing import repair_unicode


class ForgetReport(msgspec.Struct, frozen=True):
    """What was changed where; never what it said. `retold` and `memory` may still tell of it, in other words.

    `ids` are messages, `records` counts events of the log (edits and notes, too), `retold` are the ids of summaries,
    `memory` the notes that this session wrote. `aside` are damaged pieces that the doctor put away: nobody can look
    into those, so who wants to be sure removes them.
    """

    session: str
    message_ids: tuple[str, ...] = ()
    changed_records: int = 0
    changed_files: tuple[str, ...] = ()
    changed_notes: tuple[str, ...] = ()
    removed_blobs: int = 0
    derived_ids: tuple[str, ...] = ()
    session_notes: tuple[str, ...] = ()
    damaged_pieces: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{clean_line(self.session)}: {self.changed_records} records, {len(self.changed_files)} files,"
            f" {len(self.changed_notes)} notes, {self.removed_blobs} large records"
        ]
        for what, found in (
            ("forgotten", self.message_ids),
            ("files changed or removed", self.changed_files),
            ("notes changed", self.changed_notes),
            ("summaries that may still tell of it", self.derived_ids),
            ("notes of this session that may still tell of it", self.session_notes),
            ("damaged pieces that could not be looked into", self.damaged_pieces),
        ):
            lines += [f"  {what}: {', '.join(map(clean_line, found))}"] if found else []
        return "\n".join(lines)


class _LogChanges(NamedTuple):
    """What a look through the log brings: the records to put in, the messages among them, and what tells of them.

    `marked` are tombstones of earlier that no event tells of: the run that made them was cut short.
    """

    changes: dict[int, Event]
    ids: tuple[str, ...]
    derived_ids: tuple[str, ...] = ()
    unnoted_tombstones: tuple[str, ...] = ()


def forget_session(data: FolderContents, name: str, *, step: StepCallback = ignore_step) -> ForgetReport:
    """Remove a session with all that belongs to it. Notes outlive sessions: those it wrote are named, and stay."""
    if not (
        data.store.head(name)
        or get_retention_days(data, name) == BEING_REMOVED
        or data.session_files(name).root.exists()
    ):
        raise session_not_found(name)
    removed = remove_session(data, name, FORGOTTEN_REASON, step=step)
    return ForgetReport(
        name,
        changed_records=removed.records,
        session_notes=list_session_notes(data.notes, name),
        damaged_pieces=list_damaged_pieces(data.root),
    )


def forget_message(data: FolderContents, name: str, *idents: str, step: StepCallback = ignore_step) -> ForgetReport:
    """Blank messages by their ids (m12, e30.1): what they said, what edits show of them, what files hold of them."""
    ids = frozenset(idents)
    if not ids:
        raise BadInput("There is nothing to forget.", "Give the id of a message, as m12.")
    with _locked_log(data, name, step) as log:
        messages = [recall_message(log, ident) for ident in sorted(ids)]
        files = rewrite_files(
            data.session_files(name), lambda file, text: remove_messages_from_file(file, text, messages, data.mask)
        )
        step("files cleaned")
        notes = rewrite_files(data.notes.folder, lambda _, text: remove_note_titles(text, name, messages, data.mask))
        step("notes cleaned")
        found = _find_changes(log, lambda event: blank_event(event, ids), about=set(ids))
        blobs = _rewrite_log(data, name, found, step)
        _rebuild_derived(data, name, step)
        memory = list_session_notes(data.notes, name)
        return ForgetReport(
            name,
            found.ids,
            len(found.changes),
            files,
            notes,
            blobs,
            found.derived_ids,
            memory,
            list_damaged_pieces(data.root),
        )


def forget_words(data: FolderContents, name: str, text: str, *, step: StepCallback = ignore_step) -> ForgetReport:
    """Take words out wherever they stand in this session, and out of all notes. They are looked for as they are."""
    text = repair_unicode(text).strip()
    if len(text) < MIN_FORGOTTEN_CHARS:
        raise BadInput(f"{len(text)} characters are in too many words.", f"Give at least {MIN_FORGOTTEN_CHARS}.")
    if PhraseRemover(text).matches(TOMBSTONE):
        raise BadInput("The words are part of the mark that would take their place.", "Give more of them.")
    with _locked_log(data, name, step) as log:
        words = PhraseRemover(text, map_changed_hashes(data.session_files(name), PhraseRemover(text)))
        found = _find_changes(log, words.remove_from_event)
        blobs = _rewrite_log(data, name, found, step)
        files = rewrite_files(
            data.session_files(name), lambda file, held: words.remove_from_text(held), words.remove_from_text
        )
        step("files cleaned")
        notes = rewrite_files(data.notes.folder, lambda _, held: remove_phrase_from_note(held, words))
        step("notes cleaned")
        _rebuild_derived(data, name, step)
        return ForgetReport(
            name, found.ids, len(found.changes), files, notes, blobs, damaged_pieces=list_damaged_pieces(data.root)
        )


@contextmanager
def _locked_log(data: FolderContents, name: str, step: StepCallback) -> Iterator[KeptLog]:
    """The log, with nobody else at it, and without the snapshot: that holds what is to go, and would be believed."""
    _get_rewritable_store(data)
    with data.locks.exclusive(name):
        log = data.open_log(name)
        if not log.head:
            raise session_not_found(name)
        try:
            data.remove_snapshot(name)
        except OSError as failure:
            raise make_write_error("The removal of the snapshot", failure) from failure
        step("snapshot removed")
        yield log


def _get_rewritable_store(data: FolderContents) -> RewritableStore:
    if not isinstance(data.store, RewritableStore):
        raise BadInput("This store cannot change stored records.", "Forget the whole session, or use another store.")
    return data.store


# --- the log ----------------------------------------------------------------------------------------------------------


def _find_changes(log: KeptLog, change: Callable[[Event], Event], about: set[str] | None = None) -> _LogChanges:
    changes: dict[int, Event] = {}
    ids, told, marked, noted = list[str](), list[str](), list[str](), set[str]()
    about = set(about or ())
    for event in log.read():
        told += (again := find_derived_messages(event, about))
        about.update(again)
        if isinstance(event.payload, NoteAdded) and event.payload.topic == "forgotten":
            noted.update(event.payload.text.split())
        new = change(event)
        if new is not event:
            changes[event.seq] = new
            ids += _changed_ids(event, new)
        elif TOMBSTONE.encode() in encode_event(event):
            marked.append(_event_name(event))
    unsaid = () if changes else tuple(place for place in marked if place not in noted)
    return _LogChanges(changes, tuple(ids), tuple(each for each in told if each not in ids), unsaid)


def _event_name(event: Event) -> str:
    kind = "m" if isinstance(event.payload, MessageAdded) else "e" if isinstance(event.payload, ViewEdited) else "n"
    return f"{kind}{event.seq}"


def _changed_ids(old: Event, new: Event) -> Iterator[str]:
    """The messages among what was changed: one that was said, or those that an edit put in."""
    if isinstance(new.payload, MessageAdded):
        yield new.payload.message.id
    elif isinstance(new.payload, ViewEdited) and isinstance(old.payload, ViewEdited):
        for was, edit in zip(old.payload.edits, new.payload.edits, strict=True):
            if isinstance(edit, Insert) and edit != was:
                yield edit.message.id


def _rewrite_log(data: FolderContents, name: str, found: _LogChanges, step: StepCallback) -> int:
    """All records in one act; then the event that says so; then the blobs that no record refers to any more."""
    records = {seq: store_if_large(encode_event(event), name, data.blobs) for seq, event in found.changes.items()}
    # Also without any: a run before this one may have died before the disk was cleared of what it replaced.
    _get_rewritable_store(data).rewrite(name, records)
    step("log rewritten")
    places = [_event_name(event) for event in found.changes.values()] or found.unnoted_tombstones
    if places:
        log = data.open_log(name)
        log.append(Event(log.head + 1, data.clock(), NoteAdded("forgotten", " ".join(places))))
        step("forgetting noted")
    if data.blobs is None:
        return 0
    data.blobs.set_claims(name, {sha for record in data.store.read(name) if (sha := parse_blob_reference(record))})
    step("blobs claimed")
    collected = data.blobs.collect()
    step("blobs collected")
    return collected.count


def _rebuild_derived(data: FolderContents, name: str, step: StepCallback) -> None:
    """What is made of log and notes is made again."""
    if data.trace_path(name).exists():
        trace = Trace(data.trace_path(name), name, data.mask)
        try:
            trace.rewrite(data.open_log(name))
            sync_file(data.trace_path(name))
        finally:
            trace.close()
        step("trace made again")
    if (search := data.open_existing_search()) is not None:
        search.refresh()
        search.forget_session(name)
        step("index cleaned")
