"""Completion of changes that a crash interrupted: the next opening of a session completes those of the whole folder."""

from contextlib import suppress

from tidegate.core.errors import BadInput, TidegateError
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.forget.forget import forget_message, forget_words
from tidegate.datafolder.removal import BEING_REMOVED, finish_removal, get_retention_days, remove_partial_session
from tidegate.datafolder.unfinished_changes import UnfinishedChange, end_change, list_unfinished
from tidegate.store.errors import SessionNotFound


def complete_unfinished(contents: FolderContents) -> None:
    """Complete what was interrupted. What cannot be completed now, because others use it, is left for the next time."""
    for change in list_unfinished(contents):
        with suppress(TidegateError):
            complete_change(contents, change)


def complete_change(contents: FolderContents, change: UnfinishedChange) -> None:
    """Complete one change. BadInput if the session is in use: then it is perhaps not interrupted at all."""
    name = change.session
    if change.act == "forget":
        try:
            if change.message_ids:
                forget_message(contents, name, *change.message_ids)
            else:
                forget_words(contents, name, change.phrase)
        except SessionNotFound:
            end_change(contents, name, change.act)
        return
    if change.act == "remove":
        finish_removal(contents, name)
        if get_retention_days(contents, name) == BEING_REMOVED:
            raise BadInput(f"Session {name!r} is in use.", "Close it first, in every program that has it open.")
    else:
        with contents.locks.exclusive(name):
            if not contents.store.head(name):
                remove_partial_session(contents, name)
    end_change(contents, name, change.act)
