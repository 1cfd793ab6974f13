"""Retention: sessions are removed some days after their last use, if their policy says so.

A session that was opened with such a policy has a mark with the number of days. One without a mark is kept until it is
removed. The mark belongs to the session, not to the folder: the policy of one session does not affect another.
"""

import math
from contextlib import ExitStack, nullcontext, suppress

from tidegate.core.errors import BadInput, TidegateError
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.removal import (
    BEING_REMOVED,
    INTERRUPTED_REASON,
    RemovedSession,
    RetentionMark,
    StepCallback,
    begin_removal,
    clean_up_once,
    finish_removals,
    ignore_step,
    parse_retention_mark,
    read_retention_mark,
    retention_mark_file,
    write_retention_mark,
)
from tidegate.store.store import SessionInfo

DAY_SECONDS = 86_400.0
_MAX_REMOVED_AT_ONCE = 500
_EXPIRED_REASON = "kept for {days} days"
_UNUSED_REASON = "not used for {days} days"
_LAST_CHECK_FILE = "looked"
_MAX_PAUSE_SECONDS = 366 * DAY_SECONDS
"""After a longer pause the clock may be wrong: nothing expires until the next check confirms it."""


def set_retention(contents: FolderContents, name: str, days: int) -> None:
    """Keep this session for this number of days after its last use; 0: until it is removed.

    Cheap if nothing changes.
    """
    if days < BEING_REMOVED:
        raise BadInput(f"A session cannot be kept for {days} days.", "Give a number of days, or 0 for no limit.")
    old = read_retention_mark(contents, retention_mark_file(name))
    if (old.days if old else 0) == days:
        return
    if days:
        write_retention_mark(contents, RetentionMark(name, days))
    else:
        contents.retention_folder.remove(retention_mark_file(name))


def is_retention_due(contents: FolderContents) -> bool:
    """Whether the last check is a day old. A folder without marks is never due."""
    if not contents.retention_folder.has():
        return False
    return not 0 <= contents.clock() - _read_last_check(contents) < DAY_SECONDS


def _read_last_check(contents: FolderContents) -> float:
    """The time of the last check; minus infinity if there was none or it cannot be read."""
    try:
        return float(contents.retention_folder.read(_LAST_CHECK_FILE) or "-inf")
    except (BadInput, ValueError):
        return -math.inf


def remove_expired_sessions(
    contents: FolderContents, *, most: int = _MAX_REMOVED_AT_ONCE, step: StepCallback = ignore_step
) -> list[RemovedSession]:
    """Remove the sessions whose days are over and finish interrupted removals. A session in use is kept.

    If the clock jumped since the last check, nothing expires this time: a wrong clock must not remove sessions.
    A session that cannot be removed now keeps its mark, and the next opening of any session tries again. One call
    removes a bounded number of sessions, the oldest first; the next opening goes on.
    """
    files = ((file, text) for file, text in contents.retention_folder.read_all() if file.endswith(".json"))
    marks = [mark for file, text in files if (mark := parse_retention_mark(file, text))]
    infos = {info.name: info for info in contents.store.sessions()} if marks else {}
    sessions: list[RemovedSession] = []
    clock_jumped = _MAX_PAUSE_SECONDS < contents.clock() - _read_last_check(contents) < math.inf
    expired = [
        mark
        for mark in marks
        if mark.days == BEING_REMOVED or (not clock_jumped and _is_expired(contents, mark, infos.get(mark.session)))
    ]
    expired.sort(key=lambda mark: infos[mark.session].used if mark.session in infos else 0.0)
    is_unfinished = len(expired) > most
    try:
        with clean_up_once(contents.store) if expired else nullcontext():
            for mark in expired[:most]:
                try:
                    session = _remove_expired(contents, mark, infos.get(mark.session), step)
                    sessions += [session] if session else []
                except TidegateError:
                    is_unfinished = True
        finish_removals(contents, [session.session for session in sessions], step)
    except TidegateError:
        is_unfinished = True
    if not is_unfinished:
        contents.retention_folder.update(_LAST_CHECK_FILE, lambda _: f"{contents.clock()}")
        step("looked")
    return sessions


def list_unused_sessions(contents: FolderContents, days: int) -> list[SessionInfo]:
    """The sessions that were last used more than `days` days ago, whatever their policy says; the oldest first."""
    latest = contents.clock() - days * DAY_SECONDS
    return sorted((info for info in contents.store.sessions() if info.used < latest), key=lambda info: info.used)


def remove_unused_sessions(
    contents: FolderContents, days: int, *, step: StepCallback = ignore_step
) -> list[RemovedSession]:
    """Remove the sessions of `list_unused_sessions`. One that is in use, or is used meanwhile, is kept."""
    unused, removals = list_unused_sessions(contents, days), list[RemovedSession]()
    with clean_up_once(contents.store) if unused else nullcontext():
        for info in unused:
            with suppress(TidegateError), contents.locks.exclusive(info.name):
                mark = read_retention_mark(contents, retention_mark_file(info.name)) or RetentionMark(info.name, 0)
                session = begin_removal(contents, mark, info, _UNUSED_REASON.format(days=days), step)
                removals += [session] if session else []
    finish_removals(contents, [session.session for session in removals], step)
    return removals


def _remove_expired(
    contents: FolderContents, mark: RetentionMark, info: SessionInfo | None, step: StepCallback
) -> RemovedSession | None:
    with ExitStack() as lock:
        try:
            lock.enter_context(contents.locks.exclusive(mark.session))
        except BadInput:
            return None  # in use
        if read_retention_mark(contents, retention_mark_file(mark.session)) != mark:
            return None  # someone opened or removed the session since the marks were read
        why = INTERRUPTED_REASON if mark.days == BEING_REMOVED else _EXPIRED_REASON.format(days=mark.days)
        return begin_removal(contents, mark, info, why, step)


def _is_expired(contents: FolderContents, mark: RetentionMark, info: SessionInfo | None) -> bool:
    return info is not None and contents.clock() - info.used > mark.days * DAY_SECONDS
