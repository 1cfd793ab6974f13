"""Removes forgotten content from files and notes, which are plain texts."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.core.messages import Message, is_user_request
from tidegate.core.stages.summary import render_transcript
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.datafolder.forget.tombstones import TOMBSTONE, PhraseRemover
from tidegate.disk.atomic_files import TEMPORARY_SUFFIX, hold_lock, make_write_error, sync_file, sync_folder
from tidegate.disk.folder import TextFolder
from tidegate.memory.notes import NoteEntry, Notes, clean_note_text, make_note_title

_LOCK_NAME = ".lock"  # of `Folder`
_PASSAGE_HEADING = LazyPattern(r"^## ([me][0-9.]+) (?:user|assistant|tool|system)$", re.MULTILINE)

FileChange = Callable[[str, str], str | None]
"""Called with the name and the text of a file; returns the new text, or None to remove the file."""


def rewrite_files(folder: TextFolder, change: FileChange, rename: Callable[[str], str] = str) -> tuple[str, ...]:
    """Change or remove files and return their names. Notes that others write meanwhile are kept."""
    touched: list[str] = []
    for name, text, where, new in _list_changes(folder, change, rename):
        if new is None:
            folder.remove(name)
        elif where == name:
            folder.update(name, partial(_apply_change, change, name))
        else:
            folder.update(where, partial(_apply_change, change, name, text))
            folder.remove(name)
        touched.append(where)
    _remove_temporary_files(folder)
    return tuple(touched)


def find_changed_files(folder: TextFolder, change: FileChange, rename: Callable[[str], str] = str) -> tuple[str, ...]:
    """The names of the files that `rewrite_files` would change."""
    return tuple(each.where for each in _list_changes(folder, change, rename))


class _Change(NamedTuple):
    name: str
    text: str
    where: str
    new: str | None


def _list_changes(folder: TextFolder, change: FileChange, rename: Callable[[str], str]) -> Iterator[_Change]:
    for name in folder.names():
        text, where = _text(folder, name), rename(name)
        new = change(name, text)
        if (new, where) != (text, name):
            yield _Change(name, text, where, new)


def _apply_change(change: FileChange, name: str, text: str | None, *_: object) -> str | None:
    return None if text is None else change(name, text)


def _text(folder: TextFolder, name: str) -> str:
    """Decode and encode like `Folder.update`: bytes that are not UTF-8 are preserved."""
    return _raw(folder, name).decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _raw(folder: TextFolder, name: str) -> bytes:
    data = folder.read_raw(name)
    if data is None:
        raise BadInput(f"{name} cannot be read: it is gone.", "Try again.")
    return data


def _remove_temporary_files(folder: TextFolder) -> None:
    """Remove unfinished files of killed writers: they may hold anything. A working writer holds the lock."""
    if not folder.root.is_dir():
        return
    try:
        with hold_lock(folder.root / _LOCK_NAME):
            for path in folder.root.rglob(f"*{TEMPORARY_SUFFIX}"):
                if path.name.startswith("."):
                    path.unlink(missing_ok=True)
                    sync_folder(path.parent)
    except OSError as failure:
        raise make_write_error("The removal of a left file", failure) from failure


def sync_changed_file(path: Path) -> None:
    """Sync a file, so that removed content does not come back after a power loss."""
    try:
        with open(path, "rb") as file:
            sync_file(file.fileno())
    except OSError as failure:
        raise make_write_error(path.name, failure) from failure


def list_damaged_pieces(data: Path) -> tuple[str, ...]:
    """List the files that the doctor moved away."""
    return tuple(sorted(f"damaged/{path.name}" for path in (data / "damaged").glob("*")))


def map_changed_hashes(folder: TextFolder, words: PhraseRemover) -> dict[str, str]:
    """Return the old and the new hashes of the files that will change."""
    hashes: dict[str, str] = {}
    for name in folder.names():
        text = _text(folder, name)
        new = words.remove_from_text(text)
        if new != text:
            hashes[_hash(_raw(folder, name))] = _hash(new.encode("utf-8", "surrogateescape"))
    return hashes


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def remove_messages_from_file(file: str, text: str, messages: list[Message], mask: Callable[[str], str]) -> str | None:
    """Remove a file that is named for a message; from a file with passages, remove those of the message.

    The exact text is searched first, because a message may contain what looks like the next heading; then headings.
    """
    ids = {message.id for message in messages}
    if file.rpartition("/")[2] in ids:
        return None
    for message in messages:
        head = f"## {message.id} {message.role}\n"
        whole = render_transcript([message]).replace("\r\n", "\n")
        for passage in {whole, mask(whole)}:
            text = text.replace(passage, f"{head}\n{TOMBSTONE}\n\n")
    headings = list(_PASSAGE_HEADING.finditer(text))
    pieces = [text[: headings[0].start()]] if headings else [text]
    ends = [*(heading.start() for heading in headings), len(text)][1:]
    for heading, end in zip(headings, ends, strict=True):
        is_known = heading[1] in ids
        pieces.append(f"{heading[0]}\n\n{TOMBSTONE}\n\n" if is_known else text[heading.start() : end])
    return "".join(pieces)


# --- notes ------------------------------------------------------------------------------------------------------------


def remove_phrase_from_note(text: str, words: PhraseRemover) -> str:
    """Remove words from a heading, which may contain a part of them because headings are clipped."""
    lines = (
        words.remove_from_excerpt(line) if line.startswith("## ") else line
        for line in words.remove_from_text(text).split("\n")
    )
    return "\n".join(lines)


def remove_note_titles(text: str, session: str, messages: Iterable[Message], mask: Callable[[str], str]) -> str:
    """Return the title of an entry: the beginning of its request."""
    note_titles = [make_note_title([message]) for message in messages if is_user_request(message)]
    for title in {_heading(title_text, 120) for each in note_titles for title_text in (each, mask(each))}:
        heading = rf"^(## [0-9:]+ · {re.escape(_source(session))} · ){re.escape(title)}$"
        text = re.sub(heading, rf"\g<1>{TOMBSTONE}", text, flags=re.MULTILINE)
    return text


def _heading(text: str, most: int) -> str:
    return clip_chars(" ".join(clean_note_text(text).split()), most, mode="head", notice="…").text


def list_session_notes(notes: Notes, session: str) -> tuple[str, ...]:
    """The daily notes with entries of this session."""
    return tuple(day for day in notes.daily_names() if select_session_entries(notes, day, session))


def select_session_entries(notes: Notes, day: str, session: str) -> list[NoteEntry]:
    """The entries of this session in the note of a day."""
    return [entry for entry in notes.read_entries(day) if entry.source == _source(session)]


def _source(session: str) -> str:
    return _heading(session.replace("·", "-"), 80)
