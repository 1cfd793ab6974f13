"""The commands about what is kept: finding it again, other sessions, what it cost, and taking it along.

What reads a long log does so beside the face: typing never waits for it.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidegate.commands.registry import Command, CommandAnswer, CommandContext
from tidegate.commands.window import WINDOW_COMMANDS
from tidegate.core.errors import BadInput
from tidegate.core.events import Event
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.archive.transfer import export_session
from tidegate.datafolder.masking import EventMasker
from tidegate.datafolder.time_format import format_time
from tidegate.datafolder.trace.lines import TraceLine, decode_trace_line
from tidegate.memory.log_lines import extract_log_lines
from tidegate.memory.search import SearchHit
from tidegate.memory.words import cut_snippet, find_match_offset, parse_query
from tidegate.session.recall import EXCERPT_CHARS, MAX_QUERY_WORDS, recall_text
from tidegate.session.reports.costs import CostReport, CostTotal
from tidegate.session.reports.recall_stats import count_recalls
from tidegate.store.log import Log
from tidegate.store.store import SessionInfo

_TRACE_LINES, _MAX_HITS, _MAX_NOTES, _MAX_SESSIONS = 30, 10, 100, 50
"""Lines of a trace, hits of a search, notes and sessions in a list."""
_HIT_LINES: Final = 40
"""Lines of a note that a hit is shown from."""
_TRACE_TAIL_BYTES: Final = 256 * 1024
_RECORD_NUMBER: Final = re.compile(r"[me]?(\d{1,15})")
_SHOWN_FIELDS: Final = (
    "role name kind id stage rule model tokens input_tokens output_tokens cache_read before after why text".split()
)


class _MaskedLog:
    """What is cut to fit the screen must be masked before it is cut."""

    def __init__(self, log: Log, place: CommandContext) -> None:
        self._log = log
        self._masking = EventMasker(place.mask)

    @property
    def head(self) -> int:
        return self._log.head

    def read(self, start: int = 1) -> Iterator[Event]:
        return map(self._masking.mask_event, self._log.read(start))


async def run_recall(place: CommandContext, rest: str) -> CommandAnswer:
    what, _, offset = rest.rpartition(" offset ")
    if not what or not offset.isdecimal():
        what, offset = rest, "0"
    found = await asyncio.to_thread(recall_text, _MaskedLog(place.session.log, place), what, offset=int(offset[:9]))
    return CommandAnswer(found.text, not found.ids)


async def run_memory(place: CommandContext, rest: str) -> CommandAnswer:
    act, _, words = rest.partition(" ")
    notes = place.require_data.notes
    if not rest or rest == "list":
        names = notes.names()
        more = [f"and {len(names) - _MAX_NOTES} more"] if len(names) > _MAX_NOTES else []
        return CommandAnswer("\n".join([*names[-_MAX_NOTES:], *more]) or "There are no notes yet.")
    if act == "show" and words:
        return CommandAnswer(notes.read(words.strip()))
    words = words if act == "search" else rest
    found = await asyncio.to_thread(
        lambda: [_format_hit(place, hit, words) for hit in place.require_data.open_search().search(words, _MAX_HITS)]
    )
    return CommandAnswer("\n".join(found) or "Nothing is found.", not found)


def _format_hit(place: CommandContext, hit: SearchHit, words: str) -> str:
    """Where it stands, and what: cut anew from the masked text, for the index knows no secrets."""
    if hit.kind == "note":
        lines = (place.require_data.notes.folder.read(hit.name) or "").split("\n")
        where, text = f"{hit.name}:{hit.place}", "\n".join(lines[hit.place - 1 : hit.place + _HIT_LINES])
    else:
        event = next(place.require_data.open_log(hit.name).read(hit.place), None)
        where, text = f"{hit.name} m{hit.place}", next(extract_log_lines("", [event] if event is not None else [])).text
    text = place.mask(text)
    offset = find_match_offset(text, parse_query(words, MAX_QUERY_WORDS))
    return f"{clean_line(where)}  {cut_snippet(text, offset, EXCERPT_CHARS)}"


# --- sessions ---------------------------------------------------------------------------------------------------------


async def run_sessions(place: CommandContext, rest: str) -> CommandAnswer:
    return CommandAnswer(_list_sessions(place, rest))


def _list_sessions(place: CommandContext, words: str = "") -> str:
    """The newest first. Words look for sessions by their names."""
    found = [each for each in place.require_data.store.sessions() if words.casefold() in each.name.casefold()]
    if not found:
        return "No session has such a name." if words else "No sessions are kept here yet."
    lines = [_format_session(each, here=each.name == place.session_name) for each in found[:_MAX_SESSIONS]]
    return "\n".join([*lines, *([f"and {len(found) - _MAX_SESSIONS} more"] if len(found) > _MAX_SESSIONS else [])])


def _format_session(info: SessionInfo, *, here: bool) -> str:
    return (
        f"{format_time(info.used):16}  {info.head:>7,} records  {clean_line(info.name)}{'  (this one)' if here else ''}"
    )


async def run_resume(place: CommandContext, rest: str) -> CommandAnswer:
    if not rest:
        return CommandAnswer(_list_sessions(place), action="pick-session")
    place.require_idle()
    names = [each.name for each in place.require_data.store.sessions()]
    like = [name for name in names if rest.casefold() in name.casefold()]
    if rest not in names and len(like) != 1:
        raise BadInput(
            f"{len(like) or 'No'} sessions have {rest[:80]} in their names.", "Give all of one; /sessions lists them."
        )
    name = rest if rest in names else like[0]
    shown = clean_line(name)
    return (
        CommandAnswer(f"This is {shown} already.")
        if name == place.session_name
        else CommandAnswer(f"On to {shown}.", action=f"resume {name}")
    )


async def run_fork(place: CommandContext, rest: str) -> CommandAnswer:
    """`NAME` and `at PLACE`, both optional: the place is the number of a record or the id of a message."""
    place.require_idle()
    name, _, at = f" {rest}".rpartition(" at ")
    if not _RECORD_NUMBER.fullmatch(at):
        name, at = rest, str(place.session.log.head)
    name = name.strip() or f"{place.session_name}-{time.strftime('%Y%m%d-%H%M%S')}"
    match = _RECORD_NUMBER.fullmatch(at)
    assert match is not None
    place.require_data.fork(place.session_name, int(match[1]), name)
    told = f"{clean_line(name)} begins as {clean_line(place.session_name)} was at record {match[1]}. On to it."
    return CommandAnswer(told, action=f"resume {name}")


async def run_export(place: CommandContext, rest: str) -> CommandAnswer:
    path = Path(rest).expanduser() if rest else Path(re.sub(r"[^\w.-]", "_", place.session_name) + ".tidegate")
    done = await asyncio.to_thread(export_session, place.require_data, place.session_name, path)
    masked = f"; {done.masked_count} secrets are masked" if done.masked_count else ""
    return CommandAnswer(f"{done.event_count:,} records and {done.file_count} files are in {path}{masked}.")


# --- what happened ----------------------------------------------------------------------------------------------------


async def run_session_cost(place: CommandContext, rest: str) -> CommandAnswer:
    bill = CostReport(place.session.log, place.model_overrides)
    while bill.read_more():
        await asyncio.sleep(0)  # a long log must not stop the face
    whole = bill.total
    if not whole.calls and not whole.side_tokens:
        return CommandAnswer("Nothing was asked yet.")
    lines = [f"{clean_line(name)}: {_format_cost(each)}" for name, each in bill.by_model.items()]
    lines += [f"in all: {_format_cost(whole)}"] if len(lines) > 1 else []
    asked_back = await asyncio.to_thread(count_recalls, place.session.log)
    return CommandAnswer("\n".join([*lines, *([str(asked_back)] if asked_back.any else [])]))


def _format_cost(total: CostTotal) -> str:
    told = [f"{total.calls:,} calls", f"{total.input_tokens:,} tokens read ({total.cached_share:.0%} from the cache)"]
    told += [f"{total.output_tokens:,} written"]
    told += [f"{total.side_tokens:,} for summaries and tasks"] if total.side_tokens else []
    if total.unpriced_tokens < total.tokens:
        told.append(f"${total.dollars:,.4f}")
    if total.unpriced_tokens:
        told.append(f"the price of {total.unpriced_tokens:,} tokens is not known")
    return ", ".join(told)


async def run_trace(place: CommandContext, rest: str) -> CommandAnswer:
    """The end of the trace: what cannot be seen there is in the file."""
    if rest and not rest.isdecimal():
        return CommandAnswer("Say how many lines: /trace 50.", True)
    path = place.require_data.trace_path(place.session_name)
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TRACE_TAIL_BYTES))
            data = file.read()
    except OSError:
        return CommandAnswer("There is no trace yet.", True)
    found = [line for line in map(decode_trace_line, data.splitlines(keepends=True)) if line is not None]
    return CommandAnswer(
        "\n".join([*map(_format_trace_line, found[-min(int(rest or _TRACE_LINES), 500) :]), f"all of it: {path}"])
    )


def _format_trace_line(line: TraceLine) -> str:
    shown = {name: getattr(line, name) for name in _SHOWN_FIELDS if getattr(line, name) not in (None, "")}
    when = format_time(line.time, "%H:%M:%S")
    said = clean_line(" ".join(f"{key}={value}" for key, value in shown.items()))
    return f"{line.seq:>6} {when} {line.event} {said}".rstrip()


def _session_names(place: CommandContext | None) -> list[str]:
    return [each.name for each in place.data.store.sessions()] if place is not None and place.data is not None else []


async def run_quit(place: CommandContext, rest: str) -> CommandAnswer:
    return CommandAnswer("", action="quit")


SESSION_COMMANDS: Final = (
    *WINDOW_COMMANDS,
    Command("recall", "read back what left the window, by words or by id", run_recall, "WORDS|ID|ID..ID"),
    Command(
        "memory",
        "the notes; search them and all sessions",
        run_memory,
        "[search WORDS|show NOTE]",
        completions=lambda _: ("search ", "show ", "list"),
    ),
    Command("sessions", "the kept sessions, the newest first", run_sessions, "[WORDS]"),
    Command("resume", "go on in another session", run_resume, "[NAME]", ("open",), _session_names),
    Command("fork", "go on in a copy of this session, as it was at some record", run_fork, "[NAME] [at ID]"),
    Command("cost", "what was spent, by model", run_session_cost, aliases=("usage",)),
    Command("trace", "the last things that happened", run_trace, "[LINES]"),
    Command("export", "this session as one file, secrets masked", run_export, "[FILE]"),
    Command("quit", "leave; the session is kept", run_quit, aliases=("exit", "q")),
)
