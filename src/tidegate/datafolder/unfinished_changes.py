"""Changes of several steps that a crash may interrupt. Each is noted before it begins; the next opening completes it.

A note is a file in `unfinished/`, which is empty while nothing is going on. To complete a change is to repeat it: every
step of it can be repeated. The note of a phrase that is being forgotten contains the phrase until it is forgotten.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.datafolder.contents import FolderContents
from tidegate.disk.folder import session_file_key


class UnfinishedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of one session. `create` is a fork or an import; `message_ids` or `phrase` is to be forgotten."""

    session: str
    act: Literal["create", "remove", "forget"]
    message_ids: tuple[str, ...] = ()
    phrase: str = ""


@contextmanager
def note_change(contents: FolderContents, change: UnfinishedChange) -> Iterator[None]:
    """Keep a note of the change within this context. If it fails, the note stays, and the next opening completes it."""
    begin_change(contents, change)
    yield
    end_change(contents, change.session, change.act)


def begin_change(contents: FolderContents, change: UnfinishedChange) -> None:
    text = msgspec.json.encode(change).decode()
    contents.unfinished_folder.update(_file_name(change.session, change.act), lambda _: text)


def end_change(contents: FolderContents, session: str, act: str) -> None:
    contents.unfinished_folder.remove(_file_name(session, act))


def end_creation(contents: FolderContents, session: str) -> None:
    """Remove the note of a session that is stored now. If the disk refuses that, the session is whole all the same, and
    the next opening removes the note."""
    with suppress(TidegateError):
        end_change(contents, session, "create")


def list_unfinished(contents: FolderContents) -> list[UnfinishedChange]:
    """The changes that are noted: interrupted ones, and those that other processes are making now."""
    if not contents.unfinished_folder.has():  # the usual case, made cheap
        return []
    changes: list[UnfinishedChange] = []
    for file, text in contents.unfinished_folder.read_all():
        with suppress(msgspec.DecodeError):
            change = msgspec.json.decode(text, type=UnfinishedChange)
            changes += [change] if file == _file_name(change.session, change.act) else []
    return changes


def _file_name(session: str, act: str) -> str:
    return f"{session_file_key(session)}.{act}"
