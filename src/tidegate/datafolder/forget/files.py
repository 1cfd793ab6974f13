"""Files and notes with something taken out of them. They are plain texts, so they are looked through as such."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from tidegate.core.errors import BadInput
from tidegate.core.messages import Message, is_user_request
from tidegate.core.stages.summary import render_transcript
from tidegate.core.text.clip import clip_chars
from tidegate.datafolder.forget.tombstones import TOMBSTONE, PhraseRemover
from tidegate.disk.atomic_files import TEMPORARY_SUFFIX, hold_lock, make_write_error, sync_folder
from tidegate.disk.folder import Folder, safe_join
from tidegate.memory.notes import Notes, clean_note_text, make_note_title, parse_note_entries

_LOCK_NAME = ".lock"  # of `Folder`
_PASSAGE_HEADING = re.compile(r"^## ([me][0-9.]+) (?:user|assistant|tool|system)$", re.MULTILINE)

FileChange = Callable[[str, str], str | None]
"""Given the name of a file and its text: the new text, or None if the file is to go."""


def rewrite_files(folder: Folder, change: FileChange, rename: Callable[[str], str] = str) -> tuple[str, ...]:
    """The names of the files that were changed or removed. Others may write notes meanwhile: theirs stay."""
    touched: list[str] = []
    for name in folder.names():
        text, where = _text(folder, name), rename(name)
        new = change(name, text)
        if (new, where) == (text, name):
            continue
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


def _apply_change(change: FileChange, name: str, text: str | None, *_: object) -> str | None:
    return None if text is None else change(name, text)


def _text(folder: Folder, name: str) -> str:
    """As `Folder.update` reads and writes it: bytes that are no UTF-8 go through unharmed."""
    return _raw(folder, name).decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _raw(folder: Folder, name: str) -> bytes:
    try:
        return safe_join(folder.root, name, folder.ending).read_bytes()
    except OSError as failure:
        raise BadInput(f"{name} cannot be read: {failure.strerror}.", "Look at its rights and kind.") from failure


def _remove_temporary_files(folder: Folder) -> None:
    """What a writer that was killed has left, may hold anything. One that is at work has the lock."""
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


def sync_file(path: Path) -> None:
    """Else what was cut off it may be there again after a power cut."""
    try:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    except OSError as failure:
        raise make_write_error(path.name, failure) from failure


def list_damaged_pieces(data: Path) -> tuple[str, ...]:
    """What the doctor put away from a data folder."""
    return tuple(sorted(f"damaged/{path.name}" for path in (data / "damaged").glob("*")))


def map_changed_hashes(folder: Folder, words: PhraseRemover) -> dict[str, str]:
    """The hashes of the files that will change, as they are and as they will be."""
    found: dict[str, str] = {}
    for name in folder.names():
        text = _text(folder, name)
        new = words.remove_from_text(text)
        if new != text:
            found[_hash(_raw(folder, name))] = _hash(new.encode("utf-8", "surrogateescape"))
    return found


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def remove_messages_from_file(file: str, text: str, messages: list[Message], mask: Callable[[str], str]) -> str | None:
    """A file named for a message goes; of a file with passages, those of the message.

    First exactly what was written: a message may hold what looks like the next passage. Then by headings.
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
        known = heading[1] in ids
        pieces.append(f"{heading[0]}\n\n{TOMBSTONE}\n\n" if known else text[heading.start() : end])
    return "".join(pieces)


# --- notes ------------------------------------------------------------------------------------------------------------


def remove_phrase_from_note(text: str, words: PhraseRemover) -> str:
    """Headings are cut: they may hold a part of the words."""
    lines = (
        words.remove_from_excerpt(line) if line.startswith("## ") else line
        for line in words.remove_from_text(text).split("\n")
    )
    return "\n".join(lines)


def remove_note_titles(text: str, session: str, messages: Iterable[Message], mask: Callable[[str], str]) -> str:
    """An entry is called what the request began with."""
    asked = [make_note_title([message]) for message in messages if is_user_request(message)]
    for title in {_heading(shown, 120) for each in asked for shown in (each, mask(each))}:
        heading = rf"^(## [0-9:]+ · {re.escape(_source(session))} · ){re.escape(title)}$"
        text = re.sub(heading, rf"\g<1>{TOMBSTONE}", text, flags=re.MULTILINE)
    return text


def _heading(text: str, most: int) -> str:
    return clip_chars(" ".join(clean_note_text(text).split()), most, mode="head", notice="…").text


def list_session_notes(notes: Notes, session: str) -> tuple[str, ...]:
    """The daily notes with entries of this session."""
    return tuple(
        day
        for day in notes.daily_names()
        if any(entry.source == _source(session) for entry in parse_note_entries(notes.folder.read(day) or ""))
    )


def _source(session: str) -> str:
    return _heading(session.replace("·", "-"), 80)
