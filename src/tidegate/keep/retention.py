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
from tidegate.disk.folder import Folder, key_of
from tidegate.disk.writing import not_kept, sync_folder
from tidegate.memory.search import Search
from tidegate.store.errors import Missing, Stale
from tidegate.store.store import SessionInfo, Store

if TYPE_CHECKING:
    from tidegate.keep.data import DataFolder

DAY = 86_400.0
LEAVING = -1
"""The days of a mark that is an intent: this session is being removed."""
SAID = "removed.jsonl"
EXPIRED, FORGOTTEN, CUT_SHORT = "kept for {days} days", "forgotten", "a removal that was cut short"
_STAMP = "looked"
_MAX_SAID = 256 * 1024 * 1024

JUMP = 366 * DAY
"""If nobody has looked for longer, the clock may be wrong: nothing expires before the next look confirms it."""

Step = Callable[[str], None]


def no_step(_: str) -> None: ...


class Removed(msgspec.Struct, frozen=True):
    """What left: how many records of how many bytes, last used when, and why and when it went. Nothing of what it said.

    A line in `removed.jsonl` whose `why` begins with `not removed` takes back the one before: it was used meanwhile.
    """

    session: str
    records: int = 0
    size: int = 0
    used: float = 0.0
    why: str = ""
    time: float = 0.0


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """`before` is how many days it had before its removal began."""

    session: str
    days: int
    removed: Removed | None = None
    before: int = 0


# --- marks ------------------------------------------------------------------------------------------------------------


def mark(data: "DataFolder", name: str, days: int) -> None:
    """Keep this session for so many days after its last use; 0 for ever. Costs a look where nothing changes."""
    if days < LEAVING:
        raise BadInput(f"A session cannot be kept for {days} days.", "Give a number of days, or 0 for ever.")
    old = _read(data, _file(name))
    if (old.days if old else 0) == days:
        return
    if days:
        _write(data, Mark(name, days))
    else:
        data.retention.remove(_file(name))


def days_of(data: "DataFolder", name: str) -> int:
    """How long a session is kept after its last use; 0: for ever; -1: it is being removed."""
    found = _read(data, _file(name))
    return found.days if found else 0


def settle(data: "DataFolder", name: str) -> None:
    """Before a session is opened: finish a removal that was cut short. One whose log is still there is called off.

    A log goes first and in one step: where it still is, nothing of the session has left. But what someone asked to
    have forgotten goes, whenever it is looked at.
    """
    found = _read(data, _file(name))
    if found is None or found.days != LEAVING:
        return
    with ExitStack() as alone:
        try:
            alone.enter_context(data.alone(name))
        except BadInput:
            return  # someone else is at it; opening it will tell
        asked = found.removed is None or found.removed.why == FORGOTTEN
        if asked or not data.store.head(name):
            _leave(data, found, no_step)
            _collect(data, [name], no_step)
        else:
            _call_off(data, found)


def _file(name: str) -> str:
    return f"{key_of(name)}.json"


def _read(data: "DataFolder", file: str) -> Mark | None:
    """A mark that cannot be read is none: what it is about is kept."""
    if not os.path.lexists(f"{data.retention.root}/{file}"):  # as nearly always: no need to look where links lead
        return None
    try:
        text = data.retention.read(file)
        found = None if text is None else msgspec.json.decode(text, type=Mark)
    except (BadInput, msgspec.DecodeError):
        return None
    return found if found is not None and _file(found.session) == file else None


def _write(data: "DataFolder", new: Mark) -> None:
    text = msgspec.json.encode(new).decode()
    data.retention.update(_file(new.session), lambda _: text)


# --- by itself --------------------------------------------------------------------------------------------------------


def due(data: "DataFolder") -> bool:
    """Whether nobody has looked for a day. A folder without marks is never due, and costs one look."""
    if not os.path.isdir(data.retention.root):
        return False
    return not 0 <= data.clock() - _last_look(data) < DAY


def _last_look(data: "DataFolder") -> float:
    """Minus infinity if there was none, or nobody knows when."""
    try:
        return float(data.retention.read(_STAMP) or "-inf")
    except (BadInput, ValueError):
        return -math.inf


def retain(data: "DataFolder", *, step: Step = no_step) -> list[Removed]:
    """Remove the sessions whose days are over, and finish what was begun. One that is in use stays, whatever its mark.

    If the clock has made a leap since the last look, it only looks: a wrong clock must not remove what is not over.
    What cannot be removed now keeps its mark, and the next opening of any session tries again.
    """
    marks = [found for file in data.retention.names() if file.endswith(".json") if (found := _read(data, file))]
    known = {info.name: info for info in data.store.sessions()} if marks else {}
    removed: list[Removed] = []
    hindered = False
    leapt = JUMP < data.clock() - _last_look(data) < math.inf
    expired = [
        found
        for found in marks
        if found.days == LEAVING or (not leapt and _over(data, found, known.get(found.session)))
    ]
    try:
        with _cleaning_once(data.store) if expired else nullcontext():
            for found in expired:
                try:
                    left = _expire(data, found, known.get(found.session), step)
                    removed += [left] if left else []
                except TidegateError:
                    hindered = True
        _collect(data, [left.session for left in removed], step)
    except TidegateError:
        hindered = True
    if not hindered:
        data.retention.update(_STAMP, lambda _: f"{data.clock()}")
        step("looked")
    return removed


def _cleaning_once(store: Store) -> AbstractContextManager[None]:
    """Some write their whole file anew behind what was removed: that is to be done once for all of them."""
    once: Callable[[], AbstractContextManager[None]] = getattr(store, "cleaning_once", nullcontext)
    return once()


def _expire(data: "DataFolder", found: Mark, info: SessionInfo | None, step: Step) -> Removed | None:
    with ExitStack() as alone:
        try:
            alone.enter_context(data.alone(found.session))
        except BadInput:
            return None  # in use
        if _read(data, _file(found.session)) != found:
            return None  # someone opened it, or removed it, since the marks were read
        why = CUT_SHORT if found.days == LEAVING else EXPIRED.format(days=found.days)
        return _remove(data, found, info, why, step)


def _over(data: "DataFolder", found: Mark, info: SessionInfo | None) -> bool:
    return info is not None and data.clock() - info.used > found.days * DAY


# --- the one way out --------------------------------------------------------------------------------------------------


def remove(data: "DataFolder", name: str, why: str = FORGOTTEN, *, step: Step = no_step) -> Removed:
    """Remove a session whole. BadInput while it is open anywhere; Stale if someone appends to it without opening it.

    A session that is gone already is no error: what a crash left of it goes.
    """
    with data.alone(name):
        info = next((each for each in data.store.sessions() if each.name == name), None)
        found = _read(data, _file(name)) or Mark(name, 0)
        with _cleaning_once(data.store):  # says so if what was removed could not leave the disk
            left = _remove(data, found, info, why, step)
        if left is None:
            raise Stale(f"Session {name!r} was used meanwhile; it is whole.", "Try again.")
        _collect(data, [name], step)
        return left


def _remove(data: "DataFolder", found: Mark, info: SessionInfo | None, why: str, step: Step) -> Removed | None:
    """Say it, then do it. None if the session was used since its removal was begun: it stays."""
    if found.days != LEAVING or found.removed is None:
        told = _removed(found.session, info, why, data.clock())
        found = Mark(found.session, LEAVING, told, max(0, found.days))
        _write(data, found)
        step("intent written")
    return _leave(data, found, step)


def _removed(name: str, info: SessionInfo | None, why: str, now: float) -> Removed:
    if info is None:
        return Removed(name, why=why, time=now)
    return Removed(name, info.head, info.size, info.used, why, now)


def _leave(data: "DataFolder", found: Mark, step: Step) -> Removed | None:
    """All but the last step, each of which may be done again."""
    name = found.session
    told = found.removed or _removed(name, None, CUT_SHORT, data.clock())
    there = data.store.head(name)
    if there:
        _say(data, told)
        step("removal said")
    try:
        # Also where the log is gone: whoever removed it may have died before the disk was cleared of it.
        data.store.delete(name, told.records if there and found.removed else None if there else 0)
    except Missing:
        pass
    except Stale:
        _say(data, msgspec.structs.replace(told, why=f"not removed, used meanwhile: {told.why}"))
        _call_off(data, found)
        return None
    step("log removed")
    try:
        _remove_files(data, name)
        step("files removed")
        data.trace(name).unlink(missing_ok=True)
        _sync(data.trace(name).parent)
        step("trace removed")
        remove_snapshot(data, name)
        step("snapshot removed")
    except OSError as failure:
        raise not_kept("The removal", failure) from failure
    if data.blobs is not None:
        data.blobs.release(name)
        step("blobs released")
    if (search := existing_search(data)) is not None:
        search.forget(name)
        step("index cleaned")
    return told


def _collect(data: "DataFolder", names: list[str], step: Step) -> None:
    """The blobs of all of them at once: that looks at every blob there is. Then the intents have been carried out."""
    if not names:
        return
    if data.blobs is not None:
        data.blobs.collect()
        step("blobs collected")
    for name in names:
        if days_of(data, name) == LEAVING:
            data.retention.remove(_file(name))
    step("marks removed")


def _call_off(data: "DataFolder", found: Mark) -> None:
    if found.before:
        _write(data, Mark(found.session, found.before))
    else:
        data.retention.remove(_file(found.session))


def _remove_files(data: "DataFolder", name: str) -> None:
    root = data.files(name).root
    if root.is_symlink():
        root.unlink()
    with suppress(FileNotFoundError):
        shutil.rmtree(root)
    _sync(root.parent)


def remove_snapshot(data: "DataFolder", name: str) -> None:
    """For good: a power cut must not bring it back once the intent, or what it was taken from, is gone."""
    data.snapshots.remove(key_of(name))
    _sync(data.folder / "views")


def _sync(folder: Path) -> None:
    if folder.is_dir():
        sync_folder(folder)


def existing_search(data: "DataFolder") -> Search | None:
    """The index, if there is one: none is made only to take something out of it."""
    return data.search() if os.path.exists(data.folder / "search.db") else None


def _say(data: "DataFolder", removed: Removed) -> None:
    """Durable on return. What a crash cut short is said again; what is the last thing said already, is not."""
    line = msgspec.json.encode(removed).decode() + "\n"
    Folder(data.folder, max_file=_MAX_SAID).append(SAID, line)
