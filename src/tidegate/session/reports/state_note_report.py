"""A state note for people, as text and in parts: sections, passages, what the check found, and what changed."""

from collections.abc import Callable, Iterable
from difflib import unified_diff
from typing import Final

import msgspec

from tidegate.core.events import NoteAdded
from tidegate.core.log_fold import iterate_current_branch
from tidegate.core.notes import (
    ClientNote,
    EditRedone,
    EditUndone,
    HandoffNote,
    NotePassage,
    PreparedSummary,
    StateNote,
    StateNoteFailed,
    is_note,
    read_note,
)
from tidegate.core.state_note.check import MARK, list_cited_ids
from tidegate.core.state_note.note import HEADINGS, write_sections
from tidegate.core.text.plural import format_count
from tidegate.session.shared_timeline import describe_client_note
from tidegate.store.log import LogReader

_NO_NOTE: Final = "There is no state note yet. docs/state-notes.md says when the model writes one."


class NoteStatement(msgspec.Struct, frozen=True):
    """A line of a note and the messages that it cites. `is_marked`: the check did not find all of it in the log."""

    text: str
    sources: tuple[str, ...] = ()
    is_new: bool = False
    is_marked: bool = False


class NoteSection(msgspec.Struct, frozen=True):
    """A section; `removed` are lines of it that the note before had."""

    heading: str
    statements: tuple[NoteStatement, ...]
    removed: tuple[str, ...] = ()


class ShownPassage(msgspec.Struct, frozen=True):
    source: str
    place: str
    text: str


class NoteParts(msgspec.Struct, frozen=True):
    """A note in parts, for pages that lead from each statement to its sources."""

    sections: tuple[NoteSection, ...]
    passages: tuple[ShownPassage, ...] = ()
    dropped: tuple[str, ...] = ()

    def list_sources(self) -> list[str]:
        """The ids of all messages that the note cites or quotes."""
        cited = [ident for section in self.sections for line in section.statements for ident in line.sources]
        return list(dict.fromkeys([*cited, *(passage.source for passage in self.passages)]))


def split_note(text: str, previous: str = "", mask: Callable[[str], str] = str) -> NoteParts | None:
    """The parts of a note as it is stored, compared with the one before; None if it is none. `mask` hides secrets."""
    note, before = StateNote.parse(text), StateNote.parse(previous) if previous else None
    if note is None:
        return None
    old = before.sections if before else {}
    sections = (_split_section(heading, note, old.get(heading, ""), before is not None, mask) for heading in HEADINGS)
    return NoteParts(
        tuple(section for section in sections if section.statements or section.removed),
        tuple(ShownPassage(each.id, mask(describe_passage(each).strip()), mask(each.text)) for each in note.passages),
        tuple(map(mask, note.dropped)),
    )


def _split_section(heading: str, note: StateNote, old: str, has_old: bool, mask: Callable[[str], str]) -> NoteSection:
    before = [line for line in old.split("\n") if line.strip()]
    now = [line for line in note.sections.get(heading, "").split("\n") if line.strip()]
    statements = (
        NoteStatement(mask(line), tuple(list_cited_ids(line)), has_old and line not in before, MARK in line)
        for line in now
    )
    return NoteSection(heading, tuple(statements), tuple(mask(line) for line in before if line not in now))


class StateNoteReport:
    """The newest note of a log's current branch, the one before it, and the last failure if it came later.

    With `seq`, the note of that event.
    """

    def __init__(self, log: LogReader, seq: int = 0) -> None:
        self.note: StateNote | None = None
        self.previous: StateNote | None = None
        self.failure = ""
        for event in iterate_current_branch(log.read):
            what = event.payload
            if seq and event.seq > seq:
                break
            if is_note(what, StateNote):
                self.previous, self.note, self.failure = self.note, read_note(what, StateNote), ""
            elif (failed := read_note(what, StateNoteFailed)) is not None:
                self.failure = failed.text

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        if self.note is None:
            return [_NO_NOTE, *self._explain_failure()]
        note = self.note
        lines = [describe_state_note(note), "", *write_sections(note).split("\n")]
        lines += (
            ["", f"Passages ({len(note.passages)}):", *map(describe_passage, note.passages)] if note.passages else []
        )
        lines += ["", "Dropped by the check:", *(f"  {line}" for line in note.dropped)] if note.dropped else []
        lines += ["", "The model will be told:", *(f"  {line}" for line in note.feedback)] if note.feedback else []
        changes = self.list_changes()
        lines += ["", "Changed since the note before:", *changes] if changes else []
        return [*lines, *self._explain_failure()]

    def list_changes(self) -> list[str]:
        """The lines that were added and removed since the previous note."""
        if self.note is None or self.previous is None:
            return []
        return compare_notes(self.previous, self.note)

    def _explain_failure(self) -> Iterable[str]:
        return ["", f"The last attempt gave no note: {self.failure}."] if self.failure else []


def describe_state_note(note: StateNote) -> str:
    """One line: up to where the note holds, who wrote it if that was the provider, and what the check found."""
    origin = ", written as a compaction by the provider" if note.block is not None else ""
    checked = f"{format_count(note.held, 'line')} held, {note.marked} marked, {len(note.dropped)} dropped"
    return f"State note up to {note.horizon}{origin}: {checked}, {format_count(len(note.passages), 'passage')}."


def describe_passage(passage: NotePassage) -> str:
    """The source of a passage, as one line."""
    why = f": {passage.why}" if passage.why else ""
    changes = f" (changed later by {', '.join(passage.changed_in)})" if passage.changed_in else ""
    changes += f" (after the edits of {', '.join(passage.edited_in)})" if passage.edited_in else ""
    return f"  {passage.id} {passage.source}, lines {passage.first_line}-{passage.last_line}{changes}{why}"


def compare_notes(old: StateNote, new: StateNote) -> list[str]:
    """The lines that were added (`+`) and removed (`-`), without empty ones and headings."""
    lines = unified_diff(write_sections(old).split("\n"), write_sections(new).split("\n"), lineterm="", n=0)
    return [line for line in lines if line[1:].strip() and not line.startswith(("---", "+++", "@@"))]


def describe_listed_note(event: NoteAdded, *, is_brief: bool = False) -> str:
    """The text of a note under one of the `LISTED_NOTES`: of a state note, what it has and what the check dropped.

    `is_brief`: one line, where the parts of a state note are shown as well.
    """
    if is_note(event, EditUndone, EditRedone):
        return f"edit {event.text}"
    if is_note(event, ClientNote, HandoffNote):
        return describe_client_note(event)
    if is_note(event, PreparedSummary):
        prepared = read_note(event, PreparedSummary)
        count = format_count(len(prepared.ids), "message") if prepared else "nothing any more"
        return f"A summary for the policy, written ahead: it covers {count}."
    note = read_note(event, StateNote)
    if note is None:
        return event.text
    line = describe_state_note(note)
    return line if is_brief or not note.dropped else f"{line} Dropped: {' / '.join(note.dropped)}"
