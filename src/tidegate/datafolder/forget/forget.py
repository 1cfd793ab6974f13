"""Forgetting: the only way to remove content from a log. Removes a session, messages of it, or a phrase.

Removed content is replaced by a tombstone, and an event says which records were changed. The content is also removed
from everything derived from the log: blobs, files, trace, notes, snapshot, index. No process may have the session open.

Each step can be repeated: if a run is interrupted, the log is valid, and the next opening of a session of this folder
finishes the rest (`datafolder/completion.py`). Repeating the call does so, too.
Data that is needed to find the rest is removed last: the caller knows a phrase, but only the log knows a message.

A fork is a separate session: content from before the fork must be forgotten there, too.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from tidegate.core.edits import Insert
from tidegate.core.errors import BadInput
from tidegate.core.events import Event, MessageAdded, ViewEdited, encode_event
from tidegate.core.notes import ContentForgotten, read_note
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.forget.files import (
    FileChange,
    find_changed_files,
    list_damaged_pieces,
    list_session_notes,
    map_changed_hashes,
    remove_messages_from_file,
    remove_note_titles,
    remove_phrase_from_note,
    rewrite_files,
    sync_changed_file,
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
from tidegate.datafolder.unfinished_changes import UnfinishedChange, note_change
from tidegate.disk.atomic_files import make_write_error
from tidegate.session.recall import recall_message
from tidegate.store.memory import session_not_found
from tidegate.store.session_log import KeptLog, parse_blob_reference, store_if_large
from tidegate.store.store import RewritableStore
from tidegate.wire.parsing import repair_unicode


class ForgetReport(msgspec.Struct, frozen=True):
    """What was changed where, without the content. `derived_ids` and `session_notes` may still paraphrase it.

    `changed_records` counts events of the log, edits and notes included. `derived_ids` are summaries of the changed
    messages, `session_notes` the notes that this session wrote. `damaged_pieces` are files that the doctor moved away:
    their content cannot be checked, so remove them to be sure.
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
            f"{clean_line(self.session)}: {format_count(self.changed_records, 'record')},"
            f" {format_count(len(self.changed_files), 'file')}, {format_count(len(self.changed_notes), 'note')},"
            f" {format_count(self.removed_blobs, 'large record')}"
        ]
        for what, names in (
            ("forgotten", self.message_ids),
            ("files changed or removed", self.changed_files),
            ("notes changed", self.changed_notes),
            ("summaries that may still tell of it", self.derived_ids),
            ("notes of this session that may still tell of it", self.session_notes),
            ("damaged pieces that could not be looked into", self.damaged_pieces),
        ):
            lines += [f"  {what}: {', '.join(map(clean_line, names))}"] if names else []
        return "\n".join(lines)


class _LogChanges(NamedTuple):
    """The result of reading the log: the records to replace, the messages among them, and summaries of them.

    `marked` are earlier tombstones without an event: the run that made them was interrupted.
    """

    changes: dict[int, Event]
    ids: tuple[str, ...]
    derived_ids: tuple[str, ...] = ()
    unnoted_tombstones: tuple[str, ...] = ()


def forget_session(data: FolderContents, name: str, *, step: StepCallback = ignore_step) -> ForgetReport:
    """Remove a session with all that belongs to it. The notes it wrote are kept, and listed in the report."""
    if not (data.store.head(name) or get_retention_days(data, name) == BEING_REMOVED or data.session_files(name).has()):
        raise session_not_found(name)
    removal = remove_session(data, name, FORGOTTEN_REASON, step=step)
    return ForgetReport(
        name,
        changed_records=removal.records,
        session_notes=list_session_notes(data.notes, name),
        damaged_pieces=list_damaged_pieces(data.root),
    )


def forget_message(data: FolderContents, name: str, *idents: str, step: StepCallback = ignore_step) -> ForgetReport:
    """Blank messages by their ids (m12, e30.1), in the log, in edits of them, and in files."""
    ids = frozenset(idents)
    if not ids:
        raise BadInput("There is nothing to forget.", "Give the id of a message, as m12.")
    with _locked_log(data, UnfinishedChange(name, "forget", message_ids=tuple(sorted(ids))), step) as log:
        change_file, change_note = _message_removers(data, log, ids)
        files = rewrite_files(data.session_files(name), change_file)
        step("files cleaned")
        notes = rewrite_files(data.notes.folder, change_note)
        step("notes cleaned")
        changes = _find_changes(log, lambda event: blank_event(event, ids), about=set(ids))
        blobs = _rewrite_log(data, name, changes, step)
        _rebuild_derived(data, name, step)
        memory = list_session_notes(data.notes, name)
        return ForgetReport(
            name,
            changes.ids,
            len(changes.changes),
            files,
            notes,
            blobs,
            changes.derived_ids,
            memory,
            list_damaged_pieces(data.root),
        )


def _message_removers(data: FolderContents, log: KeptLog, ids: frozenset[str]) -> tuple[FileChange, FileChange]:
    """What removes the messages from a file of the session, and from a note."""
    messages = [recall_message(log, ident) for ident in sorted(ids)]
    return (
        lambda file, text: remove_messages_from_file(file, text, messages, data.mask),
        lambda _, text: remove_note_titles(text, log.session_name, messages, data.mask),
    )


def forget_words(data: FolderContents, name: str, text: str, *, step: StepCallback = ignore_step) -> ForgetReport:
    """Remove a phrase from this session and from all notes. It is matched literally."""
    text = _check_phrase(text)
    with _locked_log(data, UnfinishedChange(name, "forget", phrase=text), step) as log:
        words = PhraseRemover(text, map_changed_hashes(data.session_files(name), PhraseRemover(text)))
        changes = _find_changes(log, words.remove_from_event)
        blobs = _rewrite_log(data, name, changes, step)
        files = rewrite_files(
            data.session_files(name), lambda file, held: words.remove_from_text(held), words.remove_from_text
        )
        step("files cleaned")
        notes = rewrite_files(data.notes.folder, lambda _, held: remove_phrase_from_note(held, words))
        step("notes cleaned")
        _rebuild_derived(data, name, step)
        return ForgetReport(
            name, changes.ids, len(changes.changes), files, notes, blobs, damaged_pieces=list_damaged_pieces(data.root)
        )


def preview_forget(
    data: FolderContents, name: str, idents: Sequence[str] = (), phrase: str | None = None
) -> ForgetReport:
    """What `forget_session`, `forget_message` or `forget_words` would change. Nothing is written."""
    log = data.open_log(name)
    if not log.head:
        raise session_not_found(name)
    files, notes = data.session_files(name), data.notes.folder
    if phrase is not None:
        text = _check_phrase(phrase)
        words = PhraseRemover(text, map_changed_hashes(files, PhraseRemover(text)))
        changes = _find_changes(log, words.remove_from_event)
        changed_files = find_changed_files(files, lambda _, held: words.remove_from_text(held), words.remove_from_text)
        changed_notes = find_changed_files(notes, lambda _, held: remove_phrase_from_note(held, words))
    elif idents:
        ids = frozenset(idents)
        change_file, change_note = _message_removers(data, log, ids)
        changes = _find_changes(log, lambda event: blank_event(event, ids), about=set(ids))
        changed_files, changed_notes = find_changed_files(files, change_file), find_changed_files(notes, change_note)
    else:
        return ForgetReport(
            name,
            changed_records=log.head,
            changed_files=tuple(files.names()),
            session_notes=list_session_notes(data.notes, name),
        )
    return ForgetReport(
        name,
        changes.ids,
        len(changes.changes),
        changed_files,
        changed_notes,
        derived_ids=changes.derived_ids,
        session_notes=list_session_notes(data.notes, name) if idents else (),
    )


def _check_phrase(text: str) -> str:
    text = repair_unicode(text).strip()
    if len(text) < MIN_FORGOTTEN_CHARS:
        raise BadInput(
            f"A phrase of {len(text)} characters occurs in too many words.", f"Give at least {MIN_FORGOTTEN_CHARS}."
        )
    if PhraseRemover(text).matches(TOMBSTONE):
        raise BadInput("The phrase is part of the tombstone that would replace it.", "Give a longer phrase.")
    return text


@contextmanager
def _locked_log(data: FolderContents, change: UnfinishedChange, step: StepCallback) -> Iterator[KeptLog]:
    """Lock the session, note the change, and open the log. The snapshot is removed first: it contains what is to be
    forgotten."""
    name = change.session
    _get_rewritable_store(data)
    with data.locks.exclusive(name):
        log = data.open_log(name)
        if not log.head:
            raise session_not_found(name)
        for ident in change.message_ids:
            recall_message(log, ident)  # an error if there is no such message
        with note_change(data, change):
            step("intent written")
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
    ids, texts, tombstones, noted_places = list[str](), list[str](), list[str](), set[str]()
    about = set(about or ())
    for event in log.read():
        texts += (again := find_derived_messages(event, about))
        about.update(again)
        if (forgotten := read_note(event.payload, ContentForgotten)) is not None:
            noted_places.update(forgotten.places)
        new = change(event)
        if new is not event:
            changes[event.seq] = new
            ids += _list_changed_ids(event, new)
        elif TOMBSTONE.encode() in encode_event(event):
            tombstones.append(_event_name(event))
    unsaid = () if changes else tuple(place for place in tombstones if place not in noted_places)
    return _LogChanges(changes, tuple(ids), tuple(each for each in texts if each not in ids), unsaid)


def _event_name(event: Event) -> str:
    kind = "m" if isinstance(event.payload, MessageAdded) else "e" if isinstance(event.payload, ViewEdited) else "n"
    return f"{kind}{event.seq}"


def _list_changed_ids(old: Event, new: Event) -> Iterator[str]:
    """The ids of changed messages: one that was added, or those that an edit inserted."""
    if isinstance(new.payload, MessageAdded):
        yield new.payload.message.id
    elif isinstance(new.payload, ViewEdited) and isinstance(old.payload, ViewEdited):
        for was, edit in zip(old.payload.edits, new.payload.edits, strict=True):
            if isinstance(edit, Insert) and edit != was:
                yield edit.message.id


def _rewrite_log(data: FolderContents, name: str, changes: _LogChanges, step: StepCallback) -> int:
    """Rewrite all records at once; then append the event that says so; then delete blobs no record refers to."""
    records = {seq: store_if_large(encode_event(event), name, data.blobs) for seq, event in changes.changes.items()}
    # Also without changes: an earlier run may have been killed before the replaced records were erased from the disk.
    _get_rewritable_store(data).rewrite(name, records)
    step("log rewritten")
    places = [_event_name(event) for event in changes.changes.values()] or changes.unnoted_tombstones
    if places:
        log = data.open_log(name)
        log.append(Event(log.head + 1, data.clock(), ContentForgotten(tuple(places)).pack()))
        step("forgetting noted")
    if data.blobs is None:
        return 0
    data.blobs.set_claims(name, {sha for record in data.store.read(name) if (sha := parse_blob_reference(record))})
    step("blobs claimed")
    collected = data.blobs.collect()
    step("blobs collected")
    return collected.count


def _rebuild_derived(data: FolderContents, name: str, step: StepCallback) -> None:
    """Rebuild the trace and the index from the log and the notes."""
    if data.trace_path(name).exists():
        Trace(data.trace_path(name), name, data.mask).rewrite(data.open_log(name))
        sync_changed_file(data.trace_path(name))
        step("trace made again")
    if (search := data.open_existing_search()) is not None:
        search.refresh()
        search.forget_session(name)
        step("index cleaned")
