"""How a whole session leaves: when its time is over, or because someone said so.

A session that was opened with a policy that keeps for so many days has a mark; without one it stays for ever. The mark
is of the session, not of the folder: another session's policy says nothing about this one. A removal turns the mark
into an intent first, so that whoever looks next finishes what a crash cut short, and is written into `removed.jsonl`
before anything goes.
"""

import math
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.disk.atomic_files import make_write_error, sync_folder
from tidegate.disk.folder import Folder, session_file_key
from tidegate.memory.search import Search
from tidegate.store.errors import SessionNotFound, StaleHead
from tidegate.store.store import SessionInfo, Store

if TYPE_CHECKING:
    from tidegate.datafolder.data_folder import DataFolder

DAY_SECONDS = 86_400.0
BEING_REMOVED = -1
"""The days of a mark that is an intent: this session is being removed."""
_REMOVALS_FILE = "removed.jsonl"
_EXPIRED_REASON, FORGOTTEN_REASON, _INTERRUPTED_REASON = (
    "kept for {days} days",
    "forgotten",
    "a removal that was cut short",
)
_LAST_CHECK_FILE = "looked"
_MAX_REMOVALS_BYTES = 256 * 1024 * 1024

JUMP = 366 * DAY_SECONDS
"""If nobody has looked for longer, the clock may be wrong: nothing expires before the next look confirms it."""

StepCallback = Callable[[str], None]


def ignore_step(_: str) -> None: ...


class RemovedSession(msgspec.Struct, frozen=True):
    """What left: how many records of how many bytes, last used when, and why and when it went. Nothing of what it said.

    A line in `removed.jsonl` whose `why` begins with `not removed` takes back the one before: it was used meanwhile.
    """

    session: str
    records: int = 0
    size: int = 0
    used: float = 0.0
    why: str = ""
    time: float = 0.0


class RetentionMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """`before` is how many days it had before its removal began."""

    session: str
    days: int
    removed: RemovedSession | None = None
    before: int = 0


# --- marks ------------------------------------------------------------------------------------------------------------


def set_retention(data: "DataFolder", name: str, days: int) -> None:
    """Keep this session for so many days after its last use; 0 for ever. Costs a look where nothing changes."""
    if days < BEING_REMOVED:
        raise BadInput(f"A session cannot be kept for {days} days.", "Give a number of days, or 0 for ever.")
    old = _read_mark(data, _mark_file(name))
    if (old.days if old else 0) == days:
        return
    if days:
        _write_mark(data, RetentionMark(name, days))
    else:
        data.retention_folder.remove(_mark_file(name))


def get_retention_days(data: "DataFolder", name: str) -> int:
    """How long a session is kept after its last use; 0: for ever; -1: it is being removed."""
    found = _read_mark(data, _mark_file(name))
    return found.days if found else 0


def finish_removal(data: "DataFolder", name: str) -> None:
    """Before a session is opened: finish a removal that was cut short. One whose log is still there is called off.

    A log goes first and in one step: where it still is, nothing of the session has left. But what someone asked to
    have forgotten goes, whenever it is looked at.
    """
    found = _read_mark(data, _mark_file(name))
    if found is None or found.days != BEING_REMOVED:
        return
    with ExitStack() as alone:
        try:
            alone.enter_context(data.lock_session(name))
        except BadInput:
            return  # someone else is at it; opening it will tell
        asked = found.removed is None or found.removed.why == FORGOTTEN_REASON
        if asked or not data.store.head(name):
            _delete_session_data(data, found, ignore_step)
            _finish_removals(data, [name], ignore_step)
        else:
            _cancel_removal(data, found)


def _mark_file(name: str) -> str:
    return f"{session_file_key(name)}.json"


def _read_mark(data: "DataFolder", file: str) -> RetentionMark | None:
    """A mark that cannot be read is none: what it is about is kept."""
    if not os.path.lexists(
        f"{data.retention_folder.root}/{file}"
    ):  # as nearly always: no need to look where links lead
        return None
    try:
        text = data.retention_folder.read(file)
        found = None if text is None else msgspec.json.decode(text, type=RetentionMark)
    except (BadInput, msgspec.DecodeError):
        return None
    return found if found is not None and _mark_file(found.session) == file else None


def _write_mark(data: "DataFolder", new: RetentionMark) -> None:
    text = msgspec.json.encode(new).decode()
    data.retention_folder.update(_mark_file(new.session), lambda _: text)


# --- by itself --------------------------------------------------------------------------------------------------------


def is_retention_due(data: "DataFolder") -> bool:
    """Whether nobody has looked for a day. A folder without marks is never due, and costs one look."""
    if not os.path.isdir(data.retention_folder.root):
        return False
    return not 0 <= data.clock() - _last_look(data) < DAY_SECONDS


def _last_look(data: "DataFolder") -> float:
    """Minus infinity if there was none, or nobody knows when."""
    try:
        return float(data.retention_folder.read(_LAST_CHECK_FILE) or "-inf")
    except (BadInput, ValueError):
        return -math.inf


def remove_expired_sessions(data: "DataFolder", *, step: StepCallback = ignore_step) -> list[RemovedSession]:
    """Remove the sessions whose days are over, and finish what was begun. One that is in use stays, whatever its mark.

    If the clock has made a leap since the last look, it only looks: a wrong clock must not remove what is not over.
    What cannot be removed now keeps its mark, and the next opening of any session tries again.
    """
    marks = [
        found for file in data.retention_folder.names() if file.endswith(".json") if (found := _read_mark(data, file))
    ]
    known = {info.name: info for info in data.store.sessions()} if marks else {}
    removed: list[RemovedSession] = []
    hindered = False
    leapt = JUMP < data.clock() - _last_look(data) < math.inf
    expired = [
        found
        for found in marks
        if found.days == BEING_REMOVED or (not leapt and _is_expired(data, found, known.get(found.session)))
    ]
    try:
        with _clean_up_once(data.store) if expired else nullcontext():
            for found in expired:
                try:
                    left = _remove_expired(data, found, known.get(found.session), step)
                    removed += [left] if left else []
                except TidegateError:
                    hindered = True
        _finish_removals(data, [left.session for left in removed], step)
    except TidegateError:
        hindered = True
    if not hindered:
        data.retention_folder.update(_LAST_CHECK_FILE, lambda _: f"{data.clock()}")
        step("looked")
    return removed


def _clean_up_once(store: Store) -> AbstractContextManager[None]:
    """Some write their whole file anew behind what was removed: that is to be done once for all of them."""
    once: Callable[[], AbstractContextManager[None]] = getattr(store, "cleaning_once", nullcontext)
    return once()


def _remove_expired(
    data: "DataFolder", found: RetentionMark, info: SessionInfo | None, step: StepCallback
) -> RemovedSession | None:
    with ExitStack() as alone:
        try:
            alone.enter_context(data.lock_session(found.session))
        except BadInput:
            return None  # in use
        if _read_mark(data, _mark_file(found.session)) != found:
            return None  # someone opened it, or removed it, since the marks were read
        why = _INTERRUPTED_REASON if found.days == BEING_REMOVED else _EXPIRED_REASON.format(days=found.days)
        return _begin_removal(data, found, info, why, step)


def _is_expired(data: "DataFolder", found: RetentionMark, info: SessionInfo | None) -> bool:
    return info is not None and data.clock() - info.used > found.days * DAY_SECONDS


# --- the one way out --------------------------------------------------------------------------------------------------


def remove_session(
    data: "DataFolder", name: str, why: str = FORGOTTEN_REASON, *, step: StepCallback = ignore_step
) -> RemovedSession:
    """Remove a session whole. BadInput while it is open anywhere; Stale if someone appends to it without opening it.

    A session that is gone already is no error: what a crash left of it goes.
    """
    with data.lock_session(name):
        info = next((each for each in data.store.sessions() if each.name == name), None)
        found = _read_mark(data, _mark_file(name)) or RetentionMark(name, 0)
        with _clean_up_once(data.store):  # says so if what was removed could not leave the disk
            left = _begin_removal(data, found, info, why, step)
        if left is None:
            raise StaleHead(f"Session {name!r} was used meanwhile; it is whole.", "Try again.")
        _finish_removals(data, [name], step)
        return left


def _begin_removal(
    data: "DataFolder", found: RetentionMark, info: SessionInfo | None, why: str, step: StepCallback
) -> RemovedSession | None:
    """Say it, then do it. None if the session was used since its removal was begun: it stays."""
    if found.days != BEING_REMOVED or found.removed is None:
        told = _describe_removal(found.session, info, why, data.clock())
        found = RetentionMark(found.session, BEING_REMOVED, told, max(0, found.days))
        _write_mark(data, found)
        step("intent written")
    return _delete_session_data(data, found, step)


def _describe_removal(name: str, info: SessionInfo | None, why: str, now: float) -> RemovedSession:
    if info is None:
        return RemovedSession(name, why=why, time=now)
    return RemovedSession(name, info.head, info.size, info.used, why, now)


def _delete_session_data(data: "DataFolder", found: RetentionMark, step: StepCallback) -> RemovedSession | None:
    """All but the last step, each of which may be done again."""
    name = found.session
    told = found.removed or _describe_removal(name, None, _INTERRUPTED_REASON, data.clock())
    there = data.store.head(name)
    if there:
        _log_removal(data, told)
        step("removal said")
    try:
        # Also where the log is gone: whoever removed it may have died before the disk was cleared of it.
        data.store.delete(name, told.records if there and found.removed else None if there else 0)
    except SessionNotFound:
        pass
    except StaleHead:
        _log_removal(data, msgspec.structs.replace(told, why=f"not removed, used meanwhile: {told.why}"))
        _cancel_removal(data, found)
        return None
    step("log removed")
    try:
        _remove_files(data, name)
        step("files removed")
        data.trace_path(name).unlink(missing_ok=True)
        _sync(data.trace_path(name).parent)
        step("trace removed")
        remove_snapshot(data, name)
        step("snapshot removed")
    except OSError as failure:
        raise make_write_error("The removal", failure) from failure
    if data.blobs is not None:
        data.blobs.release(name)
        step("blobs released")
    if (search := open_existing_search(data)) is not None:
        search.forget_session(name)
        step("index cleaned")
    return told


def _finish_removals(data: "DataFolder", names: list[str], step: StepCallback) -> None:
    """The blobs of all of them at once: that looks at every blob there is. Then the intents have been carried out."""
    if not names:
        return
    if data.blobs is not None:
        data.blobs.collect()
        step("blobs collected")
    for name in names:
        if get_retention_days(data, name) == BEING_REMOVED:
            data.retention_folder.remove(_mark_file(name))
    step("marks removed")


def _cancel_removal(data: "DataFolder", found: RetentionMark) -> None:
    if found.before:
        _write_mark(data, RetentionMark(found.session, found.before))
    else:
        data.retention_folder.remove(_mark_file(found.session))


def _remove_files(data: "DataFolder", name: str) -> None:
    root = data.session_files(name).root
    if root.is_symlink():
        root.unlink()
    with suppress(FileNotFoundError):
        shutil.rmtree(root)
    _sync(root.parent)


def remove_snapshot(data: "DataFolder", name: str) -> None:
    """For good: a power cut must not bring it back once the intent, or what it was taken from, is gone."""
    data.snapshots.remove(session_file_key(name))
    _sync(data.root / "views")


def _sync(folder: Path) -> None:
    if folder.is_dir():
        sync_folder(folder)


def open_existing_search(data: "DataFolder") -> Search | None:
    """The index, if there is one: none is made only to take something out of it."""
    return data.open_search() if os.path.exists(data.root / "search.db") else None


def _log_removal(data: "DataFolder", removed: RemovedSession) -> None:
    """Durable on return. What a crash cut short is said again; what is the last thing said already, is not."""
    line = msgspec.json.encode(removed).decode() + "\n"
    Folder(data.root, max_file=_MAX_REMOVALS_BYTES).append(_REMOVALS_FILE, line)
