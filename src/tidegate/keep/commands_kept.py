"""The commands about what is kept: finding it again, other sessions, what it cost, and taking it along.

What reads a long log does so beside the face: typing never waits for it.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidegate.core.errors import BadInput
from tidegate.core.events import Event
from tidegate.core.terminal_text import clean_line
from tidegate.keep.commands import Answer, Command, Place
from tidegate.keep.commands_view import VIEW
from tidegate.keep.masked import Masking
from tidegate.keep.portable import export
from tidegate.keep.times import format_time
from tidegate.keep.trace_lines import TraceLine, read_line
from tidegate.memory.logs import lines_of
from tidegate.memory.search import Hit
from tidegate.memory.snippets import place_of, snippet
from tidegate.memory.words import units_of
from tidegate.session.bill import Bill, Total
from tidegate.session.recall import EXCERPT, MOST_WORDS, recall_text
from tidegate.session.recalls import recalls_of
from tidegate.store.log import Log
from tidegate.store.store import SessionInfo

FEW, HITS, NOTES, LISTED = 30, 10, 100, 50
"""Lines of a trace, hits of a search, notes and sessions in a list."""
AROUND: Final = 40
"""Lines of a note that a hit is shown from."""
_TAIL: Final = 256 * 1024
_RECORD: Final = re.compile(r"[me]?(\d{1,15})")
_SHOWN: Final = (
    "role name kind id stage rule model tokens input_tokens output_tokens cache_read before after why text".split()
)


class _MaskedLog:
    """What is cut to fit the screen must be masked before it is cut."""

    def __init__(self, log: Log, place: Place) -> None:
        self._log = log
        self._masking = Masking(place.mask)

    @property
    def head(self) -> int:
        return self._log.head

    def read(self, start: int = 1) -> Iterator[Event]:
        return map(self._masking.event, self._log.read(start))


async def recall(place: Place, rest: str) -> Answer:
    what, _, offset = rest.rpartition(" offset ")
    if not what or not offset.isdecimal():
        what, offset = rest, "0"
    found = await asyncio.to_thread(recall_text, _MaskedLog(place.session.log, place), what, offset=int(offset[:9]))
    return Answer(found.text, not found.ids)


async def memory(place: Place, rest: str) -> Answer:
    act, _, words = rest.partition(" ")
    notes = place.kept.notes
    if not rest or rest == "list":
        names = notes.names()
        more = [f"and {len(names) - NOTES} more"] if len(names) > NOTES else []
        return Answer("\n".join([*names[-NOTES:], *more]) or "There are no notes yet.")
    if act == "show" and words:
        return Answer(notes.read(words.strip()))
    words = words if act == "search" else rest
    found = await asyncio.to_thread(
        lambda: [_hit(place, hit, words) for hit in place.kept.search().search(words, HITS)]
    )
    return Answer("\n".join(found) or "Nothing is found.", not found)


def _hit(place: Place, hit: Hit, words: str) -> str:
    """Where it stands, and what: cut anew from the masked text, for the index knows no secrets."""
    if hit.kind == "note":
        lines = (place.kept.notes.files.read(hit.name) or "").split("\n")
        where, text = f"{hit.name}:{hit.place}", "\n".join(lines[hit.place - 1 : hit.place + AROUND])
    else:
        event = next(place.kept.log(hit.name).read(hit.place), None)
        where, text = f"{hit.name} m{hit.place}", next(lines_of("", [event] if event is not None else [])).text
    text = place.mask(text)
    return f"{clean_line(where)}  {snippet(text, place_of(text, units_of(words, MOST_WORDS)), EXCERPT)}"


# --- sessions ---------------------------------------------------------------------------------------------------------


async def sessions(place: Place, rest: str) -> Answer:
    return Answer(_listed(place, rest))


def _listed(place: Place, words: str = "") -> str:
    """The newest first. Words look for sessions by their names."""
    found = [each for each in place.kept.store.sessions() if words.casefold() in each.name.casefold()]
    if not found:
        return "No session has such a name." if words else "No sessions are kept here yet."
    lines = [_session(each, here=each.name == place.name) for each in found[:LISTED]]
    return "\n".join([*lines, *([f"and {len(found) - LISTED} more"] if len(found) > LISTED else [])])


def _session(info: SessionInfo, *, here: bool) -> str:
    return (
        f"{format_time(info.used):16}  {info.head:>7,} records  {clean_line(info.name)}{'  (this one)' if here else ''}"
    )


async def resume(place: Place, rest: str) -> Answer:
    if not rest:
        return Answer(_listed(place), act="pick-session")
    place.still()
    names = [each.name for each in place.kept.store.sessions()]
    like = [name for name in names if rest.casefold() in name.casefold()]
    if rest not in names and len(like) != 1:
        raise BadInput(
            f"{len(like) or 'No'} sessions have {rest[:80]} in their names.", "Give all of one; /sessions lists them."
        )
    name = rest if rest in names else like[0]
    shown = clean_line(name)
    return (
        Answer(f"This is {shown} already.") if name == place.name else Answer(f"On to {shown}.", act=f"resume {name}")
    )


async def fork(place: Place, rest: str) -> Answer:
    """`NAME` and `at PLACE`, both optional: the place is the number of a record or the id of a message."""
    place.still()
    name, _, at = f" {rest}".rpartition(" at ")
    if not _RECORD.fullmatch(at):
        name, at = rest, str(place.session.log.head)
    name = name.strip() or f"{place.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    match = _RECORD.fullmatch(at)
    assert match is not None
    place.kept.fork(place.name, int(match[1]), name)
    told = f"{clean_line(name)} begins as {clean_line(place.name)} was at record {match[1]}. On to it."
    return Answer(told, act=f"resume {name}")


async def export_session(place: Place, rest: str) -> Answer:
    path = Path(rest).expanduser() if rest else Path(re.sub(r"[^\w.-]", "_", place.name) + ".tidegate")
    done = await asyncio.to_thread(export, place.kept, place.name, path)
    masked = f"; {done.masked} secrets are masked" if done.masked else ""
    return Answer(f"{done.events:,} records and {done.files} files are in {path}{masked}.")


# --- what happened ----------------------------------------------------------------------------------------------------


async def cost(place: Place, rest: str) -> Answer:
    bill = Bill(place.session.log, place.prices)
    while bill.advance():
        await asyncio.sleep(0)  # a long log must not stop the face
    whole = bill.total
    if not whole.calls and not whole.besides:
        return Answer("Nothing was asked yet.")
    lines = [f"{clean_line(name)}: {_bill(each)}" for name, each in bill.by_model.items()]
    lines += [f"in all: {_bill(whole)}"] if len(lines) > 1 else []
    asked_back = await asyncio.to_thread(recalls_of, place.session.log)
    return Answer("\n".join([*lines, *([str(asked_back)] if asked_back.any else [])]))


def _bill(total: Total) -> str:
    told = [f"{total.calls:,} calls", f"{total.input_tokens:,} tokens read ({total.cached_share:.0%} from the cache)"]
    told += [f"{total.output_tokens:,} written"]
    told += [f"{total.besides:,} for summaries and tasks"] if total.besides else []
    if total.unpriced < total.tokens:
        told.append(f"${total.dollars:,.4f}")
    if total.unpriced:
        told.append(f"the price of {total.unpriced:,} tokens is not known")
    return ", ".join(told)


async def trace(place: Place, rest: str) -> Answer:
    """The end of the trace: what cannot be seen there is in the file."""
    if rest and not rest.isdecimal():
        return Answer("Say how many lines: /trace 50.", True)
    path = place.kept.trace(place.name)
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            data = file.read()
    except OSError:
        return Answer("There is no trace yet.", True)
    found = [line for line in map(read_line, data.splitlines(keepends=True)) if line is not None]
    return Answer("\n".join([*map(_line, found[-min(int(rest or FEW), 500) :]), f"all of it: {path}"]))


def _line(line: TraceLine) -> str:
    shown = {name: getattr(line, name) for name in _SHOWN if getattr(line, name) not in (None, "")}
    when = format_time(line.time, "%H:%M:%S")
    said = clean_line(" ".join(f"{key}={value}" for key, value in shown.items()))
    return f"{line.seq:>6} {when} {line.event} {said}".rstrip()


def _names(place: Place | None) -> list[str]:
    return [each.name for each in place.data.store.sessions()] if place is not None and place.data is not None else []


async def leave(place: Place, rest: str) -> Answer:
    return Answer("", act="quit")


KEPT: Final = (
    *VIEW,
    Command("recall", "read back what left the window, by words or by id", recall, "WORDS|ID|ID..ID"),
    Command(
        "memory",
        "the notes; search them and all sessions",
        memory,
        "[search WORDS|show NOTE]",
        words=lambda _: ("search ", "show ", "list"),
    ),
    Command("sessions", "the kept sessions, the newest first", sessions, "[WORDS]"),
    Command("resume", "go on in another session", resume, "[NAME]", ("open",), _names),
    Command("fork", "go on in a copy of this session, as it was at some record", fork, "[NAME] [at ID]"),
    Command("cost", "what was spent, by model", cost, aliases=("usage",)),
    Command("trace", "the last things that happened", trace, "[LINES]"),
    Command("export", "this session as one file, secrets masked", export_session, "[FILE]"),
    Command("quit", "leave; the session is kept", leave, aliases=("exit", "q")),
)
