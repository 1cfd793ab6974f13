"""State notes of a replay, recorded beforehand: a folder with one file for each answer of a model.

A file is named by the hash of the messages of the log up to the note's horizon and of the note before. So a note is
only used for the content that it was written about, and figures can be repeated without a model.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tidegate.core.events import MessageAdded
from tidegate.core.state_note.instruction import NoteTask
from tidegate.core.thinking_walk import seq_of_id
from tidegate.core.tokens.counting import REQUEST_OVERHEAD
from tidegate.disk.atomic_files import make_folder, write_private
from tidegate.lab.scoring.contender_request import NoteUsage
from tidegate.session.session import Session
from tidegate.store.log import LogReader

_SUFFIX: Final = ".json"
_encode = msgspec.msgpack.Encoder().encode


class RecordedNote(msgspec.Struct, frozen=True):
    """The answer of a model to the question for a note. `key` is the hash of what it was written about."""

    key: str
    model: str
    answer: str


class ReplayedQuestion(NamedTuple):
    """A question for a note: its key, its task, and the messages that the model gets before the instruction."""

    key: str
    task: NoteTask
    system: str
    messages: Sequence[Mapping[str, object]]


AnswerNote = Callable[[ReplayedQuestion], str | None]
"""Gives the answer of a model to a question for a note; None if there is none."""


class ReplayNotes:
    """Writes the notes of one replay with recorded answers. `used` and `missing` are the keys of its questions."""

    def __init__(self, session: Session, answer: AnswerNote) -> None:
        self._session = session
        self._answer = answer
        self.used: list[str] = []
        self.missing: list[str] = []
        self.unusable = 0

    def write_if_due(self, messages: Sequence[Mapping[str, object]], *, turn_ended: bool) -> NoteUsage | None:
        """Store the note that a live session would write after a request with these messages. Return what it costs."""
        session, notes = self._session, self._session.state_notes
        view = session.view
        if not (notes.is_offered and view.items and notes.is_due(turn_ended=turn_ended)):
            return None
        task = notes.make_task(view.items[-1].message.id)
        if not isinstance(task, NoteTask):
            return None
        question = ReplayedQuestion(hash_question(session.log, task), task, view.system, messages)
        answer = self._answer(question)
        if answer is None:
            self.missing.append(question.key)
            notes.refuse("there is no recorded note")
            return None
        self.used.append(question.key)
        self.unusable += notes.take(task, answer).note is None
        counter = session.counter
        instruction_tokens = counter.count_text(task.instruction) + REQUEST_OVERHEAD
        return NoteUsage(session.tokens, instruction_tokens, counter.count_text(answer))


def hash_question(log: LogReader, task: NoteTask) -> str:
    """The hash of the messages up to the horizon, with their ids, and of the note before."""
    hashed = blake2b(digest_size=16)
    last = seq_of_id(task.horizon)
    for event in log.read():
        if event.seq > last:
            break
        if isinstance(event.payload, MessageAdded):
            hashed.update(_encode(event.payload.message))
    hashed.update(task.previous.write_text().encode() if task.previous else b"")
    return hashed.hexdigest()


class NoteFolder:
    """The recorded notes in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list_keys(self) -> list[str]:
        return sorted(path.name.removesuffix(_SUFFIX) for path in self._folder.glob(f"*{_SUFFIX}"))

    def read(self, key: str) -> RecordedNote | None:
        """The note with this key; None if there is none, or if the file holds a note for other content."""
        try:
            note = msgspec.json.decode((self._folder / f"{key}{_SUFFIX}").read_bytes(), type=RecordedNote)
        except (OSError, msgspec.MsgspecError):
            return None
        return note if note.key == key else None

    def answer(self, question: ReplayedQuestion) -> str | None:
        note = self.read(question.key)
        return note.answer if note else None

    def write(self, note: RecordedNote) -> None:
        make_folder(self._folder)
        write_private(self._folder / f"{note.key}{_SUFFIX}", msgspec.json.format(msgspec.json.encode(note)))

    def hash_contents(self) -> str:
        """A hash of all notes: figures that were measured with others are not the same."""
        hashed = blake2b(digest_size=16)
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            hashed.update(path.name.encode() + b"\x00" + path.read_bytes() + b"\x00")
        return hashed.hexdigest()
