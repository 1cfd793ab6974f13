"""One log, looked through record by record: what cannot be read, and what does not follow from what stands before."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from tidegate.core.check import check
from tidegate.core.edits import Insert, Replace
from tidegate.core.errors import BadEdit, BadInput, BadPolicy
from tidegate.core.events import Edited, Event, Noted, Said, Used, What, decode, encode
from tidegate.core.impossible import find_impossible, is_count, is_time
from tidegate.core.items import shown
from tidegate.core.messages import Message, Text
from tidegate.core.repair import repair
from tidegate.core.tokens import Estimate, count_message, fits_its_length
from tidegate.core.view import Undone, View, project
from tidegate.keep.recounting import Recounting
from tidegate.session.past import sent_as
from tidegate.store.blobs import Blobs
from tidegate.store.errors import Broken
from tidegate.store.kept import references
from tidegate.store.log import Log
from tidegate.store.store import Store
from tidegate.wire.rendering import Rendering
from tidegate.wire.tools import dialect_for

LOST = "lost"
FAR = 4
"""So many times fewer tokens than we count cannot be right, by whichever counter."""
REFOLDS = 100
"""So many undos are followed exactly; each has the log folded again from the start."""


class Fault(NamedTuple):
    """Records that are not what they should be. `raw` is the record, where there is a whole one.

    One that is not `mendable` may be right for another version, or its extent is not known: it stays as it is.
    """

    first: int
    last: int
    why: str
    raw: bytes = b""
    sha: str = ""
    mendable: bool = True


class Survey(NamedTuple):
    """`shas` are the blobs that the records refer to, as far as these can be read."""

    head: int
    faults: list[Fault]
    shas: set[str]


def survey(store: Store, blobs: Blobs | None, session: str) -> Survey:
    """Read every record. It goes on behind each damage, and always ends."""
    found = Survey(store.head(session), [], set())
    start = 1
    while start <= found.head:
        try:
            for seq, record in enumerate(islice(store.read(session, start), found.head - start + 1), start):
                start = seq + 1
                fault = _judged(seq, record, blobs, found.shas)
                if fault is not None:
                    found.faults.append(fault)
        except Broken as damage:
            known = damage.first >= start and damage.last >= damage.first
            last = min(damage.last, found.head) if known else found.head
            found.faults.append(Fault(damage.first if known else start, last, damage.args[0], mendable=known))
            start = last + 1
        else:
            if start <= found.head:
                found.faults.append(Fault(start, found.head, "The log ends before them.", mendable=False))
            break
    return found


def _judged(seq: int, record: bytes, blobs: Blobs | None, shas: set[str]) -> Fault | None:
    sha = references(record) or ""
    content = record
    if sha:
        shas.add(sha)
        if blobs is None:
            return Fault(seq, seq, f"It is in the blob {sha}, and this store has no blobs.", mendable=False)
        try:
            content = blobs.get(sha)
        except Broken as damage:
            return Fault(seq, seq, damage.args[0], record, sha)
    try:
        event = decode(content)
    except (msgspec.DecodeError, UnicodeError) as fault:
        if _like_an_event(seq, content):
            return Fault(seq, seq, f"It is an event that this version does not know: {fault}.", mendable=False)
        return Fault(seq, seq, f"It is not an event: {fault}.", content)
    return None if event.seq == seq else Fault(seq, seq, f"It calls itself event {event.seq}.", content)


def _like_an_event(seq: int, content: bytes) -> bool:
    """What a newer tidegate may have written is right, whatever we make of it."""
    try:
        value = msgspec.msgpack.decode(content)
    except (msgspec.DecodeError, UnicodeError):
        return False
    match value:
        case [int() as its_seq, float(), [str(), *_], *_]:
            return its_seq == seq
        case _:
            return False


def lost(seq: int, time: float, fault: Fault) -> bytes:
    """What stands in the place of a record that cannot be had any more."""
    return encode(Event(seq, time, Noted(LOST, f"records {fault.first} to {fault.last} were damaged")))


# --- what cannot be ---------------------------------------------------------------------------------------------------


class Wrong(NamedTuple):
    """A record with a value that cannot be: why, and the same event with possible ones."""

    why: str
    right: Event


def impossible_values(log: Log) -> dict[int, Wrong]:
    """By number. A count of tokens is wrong only if it is far below what the message holds: counters differ."""
    found: dict[int, Wrong] = {}
    model_note, time = "", 0.0
    for event in log.read():
        what = event.what
        if isinstance(what, Noted) and what.topic == "model":
            model_note = what.text
        why = find_impossible(event) or _miscounted(what)
        time = event.time if is_time(event.time) else time
        if why:
            found[event.seq] = Wrong(why, _corrected(Recounting(model_note).event(event), time))
    return found


def _miscounted(what: What) -> str:
    for tokens, message in _counted_in(what):
        if not is_count(tokens):
            return f"a message is counted as {tokens} tokens"
        if not fits_its_length(tokens, message):
            again = count_message(message, Estimate())
            if FAR * tokens < again:
                return f"a message of about {again:,} tokens is counted as {tokens:,}"
    return ""


def _counted_in(what: What) -> Iterator[tuple[int, Message]]:
    """The counts of an event, each with what it is the count of."""
    if isinstance(what, Said):
        seen = shown(what.message)
        if seen is not None:
            yield what.tokens, seen
    elif isinstance(what, Edited):
        for edit in what.edits:
            if isinstance(edit, Replace):
                yield edit.tokens, Message("user", edit.parts)
            elif isinstance(edit, Insert):
                yield edit.tokens, edit.message
    elif isinstance(what, Noted) and what.topic in ("system", "tools"):
        yield what.tokens, Message("user", (Text(what.text),))


def _corrected(event: Event, time: float) -> Event:
    """With a time before it, and without what a provider cannot have reported."""
    what = event.what
    if not is_time(event.time):
        event = msgspec.structs.replace(event, time=time)
    if isinstance(what, Said):
        what = msgspec.structs.replace(what, message=msgspec.structs.replace(what.message, id=f"m{event.seq}"))
        event = msgspec.structs.replace(event, what=what)
    if not find_impossible(event):
        return event
    if isinstance(what, Used):
        head = what.head if 0 <= what.head < event.seq else 0
        return msgspec.structs.replace(event, what=Used(what.model, head, 0, 0))
    if isinstance(what, Edited):
        event = msgspec.structs.replace(event, what=msgspec.structs.replace(what, before=0, after=0))
        if not find_impossible(event):
            return event
    return msgspec.structs.replace(event, what=Noted(LOST, "its numbers cannot be"))


# --- what follows from what -------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """The view at the end, and the events whose edits were not lawful for the view as it was then.

    `failed` is the event that cannot be folded: then there is no view, and the session cannot be opened.
    """

    view: View | None
    unlawful: list[int]
    failed: int = 0


def judge(log: Log) -> Judged:
    view = View()
    unlawful: list[int] = []
    refolds = 0
    event: Event | None = None
    try:
        for event in log.read():
            if isinstance(event.what, Edited) and refolds <= REFOLDS and not _lawful(view, event.what):
                unlawful.append(event.seq)
            try:
                view.fold(event)
            except Undone:
                refolds += 1
                if refolds <= REFOLDS:
                    view = _up_to(log, event.seq)
        return Judged(view if refolds <= REFOLDS else project(log.read), unlawful)
    except Broken:
        raise
    except Exception:  # noqa: BLE001 - whatever it is: this log does not open, and the others are still to be looked at
        return Judged(None, unlawful, event.seq if event else 0)


def _up_to(log: Log, seq: int) -> View:
    return project(lambda: islice(log.read(), seq))


def _lawful(view: View, edited: Edited) -> bool:
    try:
        check(view, edited.edits, may_touch_newest=edited.stage == "guard")
    except BadEdit:
        return False
    return True


def request_faults(view: View) -> Iterator[str]:
    """What the provider would refuse in the next request, once what is open or orphaned in it was mended."""
    outcome = repair(view)
    if outcome.edits:
        placed = tuple(
            msgspec.structs.replace(edit, message=msgspec.structs.replace(edit.message, id=f"e{view.head + 1}.{place}"))
            if isinstance(edit, Insert)
            else edit
            for place, edit in enumerate(outcome.edits)
        )
        check(view, placed)
        view.fold(Event(view.head + 1, 0.0, Edited("repair", "tool_result", "", outcome.why, 0, 0, placed)))
    if view.orphans or view.unanswered:
        yield f"{len(view.orphans)} results have no call and {len(view.unanswered)} messages wait for results."
    asked = sent_as(view.model_note)
    try:
        dialect = dialect_for(asked.wire, asked.model)
    except (BadInput, BadPolicy):
        dialect = dialect_for("", "")
    rendering = Rendering(dialect, model=asked.model)
    rendering.update(view)
    for fault in rendering.faults():
        yield f"{fault.rule}: {fault.text}"
