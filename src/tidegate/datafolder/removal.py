"""Removal of a whole session, in steps that a crash may interrupt at any point.

Before anything is deleted, the retention mark of the session becomes an intent, and the removal is written to
`removed.jsonl`. Then the log goes in one step, and everything else after it. The next opening finishes what a crash
interrupted.
"""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path

import msgspec

from tidegate.core.errors import BadInput
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.unfinished_changes import UnfinishedChange, begin_change, end_change
from tidegate.disk.atomic_files import make_write_error, sync_folder
from tidegate.disk.folder import Folder, session_file_key
from tidegate.store.errors import SessionNotFound, StaleHead
from tidegate.store.store import SessionInfo, SharedCleanUpStore, Store

BEING_REMOVED = -1
"""The `days` of a mark that is an intent: this session is being removed."""
FORGOTTEN_REASON = "forgotten"
INTERRUPTED_REASON = "a removal that was cut short"
_REMOVALS_FILE = "removed.jsonl"

StepCallback = Callable[[str], None]
"""Called after each durable step of a long change, with its name. The crash tests kill the process there."""


def ignore_step(_: str) -> None: ...


class RemovedSession(msgspec.Struct, frozen=True):
    """A removed session: its number of records, its bytes, when it was last used, when and why it was removed.

    It holds none of the session's content. A line in `removed.jsonl` whose `why` begins with `not removed` revokes the
    line before: the session was used meanwhile, and is kept.
    """

    session: str
    records: int = 0
    size: int = 0
    used: float = 0.0
    why: str = ""
    time: float = 0.0


class RetentionMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """For how many days after its last use a session is kept. `before` is that number while it is being removed."""

    session: str
    days: int
    removed: RemovedSession | None = None
    before: int = 0


# --- marks ------------------------------------------------------------------------------------------------------------


def get_retention_days(contents: FolderContents, name: str) -> int:
    """For how many days a session is kept after its last use; 0: until it is removed; -1: it is being removed."""
    mark = read_retention_mark(contents, retention_mark_file(name))
    return mark.days if mark else 0


def retention_mark_file(name: str) -> str:
    return f"{session_file_key(name)}.json"


def read_retention_mark(contents: FolderContents, file: str) -> RetentionMark | None:
    """The mark in this file. One that cannot be read counts as none, so that its session is kept."""
    if not contents.retention_folder.has(file):  # the usual case, made cheap
        return None
    try:
        text = contents.retention_folder.read(file)
    except BadInput:
        return None
    return parse_retention_mark(file, text or "")


def parse_retention_mark(file: str, text: str) -> RetentionMark | None:
    try:
        mark = msgspec.json.decode(text, type=RetentionMark)
    except msgspec.DecodeError:
        return None
    return mark if retention_mark_file(mark.session) == file else None


def write_retention_mark(contents: FolderContents, mark: RetentionMark) -> None:
    text = msgspec.json.encode(mark).decode()
    contents.retention_folder.update(retention_mark_file(mark.session), lambda _: text)


# --- removal ----------------------------------------------------------------------------------------------------------


def remove_session(
    contents: FolderContents, name: str, why: str = FORGOTTEN_REASON, *, step: StepCallback = ignore_step
) -> RemovedSession:
    """Remove a whole session. BadInput while it is open anywhere; StaleHead if someone appends without opening it.

    It is not an error if the session is gone already: then what a crash left of it is removed.
    """
    with contents.locks.exclusive(name):
        info = next((each for each in contents.store.sessions() if each.name == name), None)
        mark = read_retention_mark(contents, retention_mark_file(name)) or RetentionMark(name, 0)
        with clean_up_once(contents.store):  # raises if the removed records could not be cleared from the disk
            session = begin_removal(contents, mark, info, why, step)
        if session is None:
            raise StaleHead(f"Session {name!r} was used meanwhile; it is whole.", "Try again.")
        finish_removals(contents, [name], step)
        return session


def finish_removal(contents: FolderContents, name: str) -> None:
    """Finish an interrupted removal before the session is opened, or cancel it if its log is still there.

    The log is deleted first and in one step: while it is there, nothing of the session is gone. But a session that
    someone asked to forget is removed in any case.
    """
    mark = read_retention_mark(contents, retention_mark_file(name))
    if mark is None or mark.days != BEING_REMOVED:
        return
    with ExitStack() as lock:
        try:
            lock.enter_context(contents.locks.exclusive(name))
        except BadInput:
            return  # another process is removing it; opening the session will report that
        forgotten = mark.removed is None or mark.removed.why == FORGOTTEN_REASON
        if forgotten or not contents.store.head(name):
            _delete_session_data(contents, mark, ignore_step)
            finish_removals(contents, [name], ignore_step)
        else:
            _cancel_removal(contents, mark)


def clean_up_once(store: Store) -> AbstractContextManager[None]:
    """Within this, a store that rewrites its file after a deletion does so once, at the end."""
    return store.clean_up_once() if isinstance(store, SharedCleanUpStore) else nullcontext()


def begin_removal(
    contents: FolderContents, mark: RetentionMark, info: SessionInfo | None, why: str, step: StepCallback
) -> RemovedSession | None:
    """Write the intent, then delete the data. None if the session was used since its removal began: it is kept."""
    if mark.days != BEING_REMOVED or mark.removed is None:
        removal = _describe_removal(mark.session, info, why, contents.clock())
        mark = RetentionMark(mark.session, BEING_REMOVED, removal, max(0, mark.days))
        begin_change(contents, UnfinishedChange(mark.session, "remove"))
        write_retention_mark(contents, mark)
        step("intent written")
    return _delete_session_data(contents, mark, step)


def _describe_removal(name: str, info: SessionInfo | None, why: str, now: float) -> RemovedSession:
    if info is None:
        return RemovedSession(name, why=why, time=now)
    return RemovedSession(name, info.head, info.size, info.used, why, now)


def _delete_session_data(contents: FolderContents, mark: RetentionMark, step: StepCallback) -> RemovedSession | None:
    """All steps but the last one, `finish_removals`. Each step may be repeated."""
    name = mark.session
    removal = mark.removed or _describe_removal(name, None, INTERRUPTED_REASON, contents.clock())
    has_log = contents.store.head(name) > 0
    if has_log:
        _log_removal(contents, removal)
        step("removal said")
    try:
        # Also if the log is gone: the process that deleted it may have died before the disk was cleared of it.
        contents.store.delete(name, removal.records if has_log and mark.removed else None if has_log else 0)
    except SessionNotFound:
        pass
    except StaleHead:
        _log_removal(
            contents,
            msgspec.structs.replace(removal, why=f"not removed, used meanwhile: {removal.why}"),
        )
        _cancel_removal(contents, mark)
        return None
    step("log removed")
    try:
        _remove_files(contents, name)
        if contents.workspaces.has():
            contents.workspaces.remove(session_file_key(name))
        step("files removed")
        contents.trace_path(name).unlink(missing_ok=True)
        _sync_existing_folder(contents.trace_path(name).parent)
        step("trace removed")
        contents.remove_snapshot(name)
        step("snapshot removed")
    except OSError as failure:
        raise make_write_error("The removal", failure) from failure
    if contents.blobs is not None:
        contents.blobs.release(name)
        step("blobs released")
    if (search := contents.open_existing_search()) is not None:
        search.forget_session(name)
        step("index cleaned")
    return removal


def finish_removals(contents: FolderContents, names: list[str], step: StepCallback) -> None:
    """Collect the blobs of all removed sessions at once, since that reads every claim; then remove their marks."""
    if not names:
        return
    if contents.blobs is not None:
        contents.blobs.collect()
        step("blobs collected")
    for name in names:
        if get_retention_days(contents, name) == BEING_REMOVED:
            contents.retention_folder.remove(retention_mark_file(name))
        end_change(contents, name, "remove")
    step("marks removed")


def remove_partial_session(contents: FolderContents, name: str) -> None:
    """Remove what a fork or an import wrote before it was interrupted. The session has no log yet."""
    _delete_session_data(contents, RetentionMark(name, BEING_REMOVED), ignore_step)
    if contents.blobs is not None:
        contents.blobs.collect()


def _cancel_removal(contents: FolderContents, mark: RetentionMark) -> None:
    if mark.before:
        write_retention_mark(contents, RetentionMark(mark.session, mark.before))
    else:
        contents.retention_folder.remove(retention_mark_file(mark.session))
    end_change(contents, mark.session, "remove")


def _remove_files(contents: FolderContents, name: str) -> None:
    files = contents.session_files(name)
    if not isinstance(files, Folder):
        for file in files.names():
            files.remove(file)
    root = files.root
    if root.is_symlink():
        root.unlink()
    with suppress(FileNotFoundError):
        shutil.rmtree(root)
    _sync_existing_folder(root.parent)


def _sync_existing_folder(folder: Path) -> None:
    if folder.is_dir():
        sync_folder(folder)


def _log_removal(contents: FolderContents, removal: RemovedSession) -> None:
    """Append a line to `removed.jsonl`, durably. After a crash it may be appended again."""
    contents.state_folder.append(_REMOVALS_FILE, msgspec.json.encode(removal).decode() + "\n")
