"""Removal of a message's content from state notes: passages of it, and lines that cite it."""

import re
from collections.abc import Collection

import msgspec

from tidegate.core.messages import Message, Text
from tidegate.core.notes import StateNote
from tidegate.core.state_note.check import list_cited_ids
from tidegate.core.state_note.rendering import EDITED_IN
from tidegate.core.thinking_walk import seq_of_id

_FORGOTTEN = "[forgotten]"


def forget_in_note(text: str, ids: Collection[str]) -> str:
    """The text of a note event without what it has from these messages."""
    note = StateNote.parse(text)
    if note is None:
        return text
    sections = {heading: _forget_lines(body, ids) for heading, body in note.sections.items()}
    passages = tuple(each for each in note.passages if not {each.id, *each.edited_in} & set(ids))
    is_covered = note.block is not None and any(0 < seq_of_id(ident) <= note.horizon_seq for ident in ids)
    if sections == note.sections and passages == note.passages and not is_covered:
        return text
    dropped_lines = tuple(line for line in note.dropped if not set(list_cited_ids(line)) & set(ids))
    block = None if is_covered else note.block  # its words cannot be changed
    note = msgspec.structs.replace(
        note, sections=sections, passages=passages, dropped=dropped_lines, feedback=(), block=block
    )
    return note.write_text()


def forget_in_shown_note(message: Message, ids: Collection[str]) -> Message:
    """The message that shows a note without what it has from these messages. Each passage is a text of its own."""
    parts = tuple(_forget_text(part, ids) if isinstance(part, Text) else part for part in message.parts)
    return message if parts == message.parts else msgspec.structs.replace(message, parts=parts)


def _forget_text(part: Text, ids: Collection[str]) -> Text:
    if any(part.text.startswith(f"[{ident}, ") for ident in ids) or _has_edit_of(part.text, ids):
        return Text(_FORGOTTEN)
    text = _forget_lines(part.text, ids) if part.text.startswith("[State of the work") else part.text
    return part if text == part.text else Text(text)


def _has_edit_of(text: str, ids: Collection[str]) -> bool:
    """Whether it is a passage with the text of an edit by one of these messages."""
    heading = text.partition("\n")[0]
    edits = heading.rpartition(EDITED_IN)[2] if EDITED_IN in heading and heading.startswith("[m") else ""
    return not set(re.findall(r"m\d+", edits)).isdisjoint(ids)


def _forget_lines(text: str, ids: Collection[str]) -> str:
    return "\n".join(_FORGOTTEN if set(list_cited_ids(line)) & set(ids) else line for line in text.split("\n"))
