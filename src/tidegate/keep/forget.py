"""The only way content leaves a log: a session, messages of it, or words that should never have been said there.

What is taken out of a log leaves a tombstone in its place, and an event that says which records were changed. It also
goes from whatever was made of the log: blobs, files, trace, notes, snapshot, index. Nobody may have the session open.

Each step can be done again: if a run is cut short, the log is valid and opens, and the same call finishes the rest.
What is needed to find the rest goes last: words are known to the caller, but what a message said only its log knows.

A fork is a session of its own: what was said before it is to be forgotten there, too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from tidegate.core.edits import Insert
from tidegate.core.errors import BadInput
from tidegate.core.events import Edited, Event, Noted, Said, encode
from tidegate.core.terminal_text import clean_line
from tidegate.disk.writing import not_kept
from tidegate.keep.forget_files import aside, clean_files, sums, sync_file, untitled, without, without_words, written
from tidegate.keep.retention import (
    FORGOTTEN,
    LEAVING,
    Step,
    days_of,
    existing_search,
    no_step,
    remove,
    remove_snapshot,
)
from tidegate.keep.tombstones import LEAST, TOMBSTONE, Words, blank_event, retold
from tidegate.keep.trace import Trace
from tidegate.session.recall import recall
from tidegate.store.kept import KeptLog, references, stored
from tidegate.store.memory import missing
from tidegate.store.store import Rewrites
from tidegate.wire.reading import clean

if TYPE_CHECKING:
    from tidegate.keep.data import DataFolder


class Forgotten(msgspec.Struct, frozen=True):
    """What was changed where; never what it said. `retold` and `memory` may still tell of it, in other words.

    `ids` are messages, `records` counts events of the log (edits and notes, too), `retold` are the ids of summaries,
    `memory` the notes that this session wrote. `aside` are damaged pieces that the doctor put away: nobody can look
    into those, so who wants to be sure removes them.
    """

    session: str
    ids: tuple[str, ...] = ()
    records: int = 0
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    blobs: int = 0
    retold: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{clean_line(self.session)}: {self.records} records, {len(self.files)} files, {len(self.notes)} notes,"
            f" {self.blobs} large records"
        ]
        for what, found in (
            ("forgotten", self.ids),
            ("files changed or removed", self.files),
            ("notes changed", self.notes),
            ("summaries that may still tell of it", self.retold),
            ("notes of this session that may still tell of it", self.memory),
            ("damaged pieces that could not be looked into", self.aside),
        ):
            lines += [f"  {what}: {', '.join(map(clean_line, found))}"] if found else []
        return "\n".join(lines)


class _Found(NamedTuple):
    """What a look through the log brings: the records to put in, the messages among them, and what tells of them.

    `marked` are tombstones of earlier that no event tells of: the run that made them was cut short.
    """

    changes: dict[int, Event]
    ids: tuple[str, ...]
    retold: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()


def forget_session(data: "DataFolder", name: str, *, step: Step = no_step) -> Forgotten:
    """Remove a session with all that belongs to it. Notes outlive sessions: those it wrote are named, and stay."""
    if not (data.store.head(name) or days_of(data, name) == LEAVING or data.files(name).root.exists()):
        raise missing(name)
    removed = remove(data, name, FORGOTTEN, step=step)
    return Forgotten(name, records=removed.records, memory=written(data.notes, name), aside=aside(data.folder))


def forget_message(data: "DataFolder", name: str, *idents: str, step: Step = no_step) -> Forgotten:
    """Blank messages by their ids (m12, e30.1): what they said, what edits show of them, what files hold of them."""
    ids = frozenset(idents)
    if not ids:
        raise BadInput("There is nothing to forget.", "Give the id of a message, as m12.")
    with _alone(data, name, step) as log:
        messages = [recall(log, ident) for ident in sorted(ids)]
        files = clean_files(data.files(name), lambda file, text: without(file, text, messages, data.mask))
        step("files cleaned")
        notes = clean_files(data.notes.files, lambda _, text: untitled(text, name, messages, data.mask))
        step("notes cleaned")
        found = _look(log, lambda event: blank_event(event, ids), about=set(ids))
        blobs = _rewrite(data, name, found, step)
        _remake(data, name, step)
        memory = written(data.notes, name)
        return Forgotten(
            name, found.ids, len(found.changes), files, notes, blobs, found.retold, memory, aside(data.folder)
        )


def forget_words(data: "DataFolder", name: str, text: str, *, step: Step = no_step) -> Forgotten:
    """Take words out wherever they stand in this session, and out of all notes. They are looked for as they are."""
    text = clean(text).strip()
    if len(text) < LEAST:
        raise BadInput(f"{len(text)} characters are in too many words.", f"Give at least {LEAST}.")
    if Words(text).within(TOMBSTONE):
        raise BadInput("The words are part of the mark that would take their place.", "Give more of them.")
    with _alone(data, name, step) as log:
        words = Words(text, sums(data.files(name), Words(text)))
        found = _look(log, words.event)
        blobs = _rewrite(data, name, found, step)
        files = clean_files(data.files(name), lambda file, held: words.text(held), words.text)
        step("files cleaned")
        notes = clean_files(data.notes.files, lambda _, held: without_words(held, words))
        step("notes cleaned")
        _remake(data, name, step)
        return Forgotten(name, found.ids, len(found.changes), files, notes, blobs, aside=aside(data.folder))


@contextmanager
def _alone(data: "DataFolder", name: str, step: Step) -> Iterator[KeptLog]:
    """The log, with nobody else at it, and without the snapshot: that holds what is to go, and would be believed."""
    if not hasattr(data.store, "rewrite"):
        raise BadInput("This store cannot change what it has.", "Forget the whole session, or use another store.")
    with data.alone(name):
        log = data.log(name)
        if not log.head:
            raise missing(name)
        try:
            remove_snapshot(data, name)
        except OSError as failure:
            raise not_kept("The removal of the snapshot", failure) from failure
        step("snapshot removed")
        yield log


# --- the log ----------------------------------------------------------------------------------------------------------


def _look(log: KeptLog, change: Callable[[Event], Event], about: set[str] | None = None) -> _Found:
    changes: dict[int, Event] = {}
    ids, told, marked, noted = list[str](), list[str](), list[str](), set[str]()
    about = set(about or ())
    for event in log.read():
        told += (again := retold(event, about))
        about.update(again)
        if isinstance(event.what, Noted) and event.what.topic == "forgotten":
            noted.update(event.what.text.split())
        new = change(event)
        if new is not event:
            changes[event.seq] = new
            ids += _changed(event, new)
        elif TOMBSTONE.encode() in encode(event):
            marked.append(_place(event))
    unsaid = () if changes else tuple(place for place in marked if place not in noted)
    return _Found(changes, tuple(ids), tuple(each for each in told if each not in ids), unsaid)


def _place(event: Event) -> str:
    kind = "m" if isinstance(event.what, Said) else "e" if isinstance(event.what, Edited) else "n"
    return f"{kind}{event.seq}"


def _changed(old: Event, new: Event) -> Iterator[str]:
    """The messages among what was changed: one that was said, or those that an edit put in."""
    if isinstance(new.what, Said):
        yield new.what.message.id
    elif isinstance(new.what, Edited) and isinstance(old.what, Edited):
        for was, edit in zip(old.what.edits, new.what.edits, strict=True):
            if isinstance(edit, Insert) and edit != was:
                yield edit.message.id


def _rewrite(data: "DataFolder", name: str, found: _Found, step: Step) -> int:
    """All records in one act; then the event that says so; then the blobs that no record refers to any more."""
    records = {seq: stored(encode(event), name, data.blobs) for seq, event in found.changes.items()}
    # Also without any: a run before this one may have died before the disk was cleared of what it replaced.
    cast(Rewrites, data.store).rewrite(name, records)
    step("log rewritten")
    places = [_place(event) for event in found.changes.values()] or found.marked
    if places:
        log = data.log(name)
        log.append(Event(log.head + 1, data.clock(), Noted("forgotten", " ".join(places))))
        step("forgetting noted")
    if data.blobs is None:
        return 0
    data.blobs.claim(name, {sha for record in data.store.read(name) if (sha := references(record))})
    step("blobs claimed")
    collected = data.blobs.collect()
    step("blobs collected")
    return collected.count


def _remake(data: "DataFolder", name: str, step: Step) -> None:
    """What is made of log and notes is made again."""
    if data.trace(name).exists():
        trace = Trace(data.trace(name), name, data.mask)
        try:
            trace.remake(data.log(name))
            sync_file(data.trace(name))
        finally:
            trace.close()
        step("trace made again")
    if (search := existing_search(data)) is not None:
        search.refresh()
        search.forget(name)
        step("index cleaned")
