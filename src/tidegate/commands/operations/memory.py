"""`memory`: search the notes and all logs, index them, list the notes, or print one."""

from argparse import Namespace
from typing import TYPE_CHECKING, Final

from tidegate.commands.operations.operation import Argument, Operation, OperationResult, SessionPlace
from tidegate.core.errors import BadInput

if TYPE_CHECKING:  # loaded when it runs
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.memory.passages import SourceKind
    from tidegate.memory.search import SearchHit

_ACTS_WITH_WORDS: Final = ("search", "show")
_ACTS: Final = ("list", "index")
_HIT_LINES: Final = 40
"""Lines of a note in which a hit is looked for."""
_EXCERPT_CHARS: Final = 240
_MAX_QUERY_WORDS: Final = 16


def _memory(place: SessionPlace, values: Namespace) -> OperationResult:
    act, words = _split_act(values.words)
    data = place.data()
    if act == "list":
        names = data.notes.names()
        return OperationResult("\n".join(names), value=names, remark="" if names else "There are no notes yet.")
    if act == "index":
        count = data.count_unindexed_events()
        place.search().refresh()
        return OperationResult(value=count, remark=f"Indexed {count:,} events.")
    if act == "show":
        return OperationResult(data.notes.read(words).rstrip("\n"), value=words)
    kind: SourceKind | None = "note" if values.notes else "session" if values.session else None
    hits = place.search().search(words, values.limit, kind=kind, name=values.session)
    if not hits:
        return OperationResult("", False, hits, "Nothing found.")
    return OperationResult("\n".join(_format_hit(data, hit, words) for hit in hits), value=hits)


def _split_act(words: list[str]) -> tuple[str, str]:
    """What to do and with which words. Words alone are searched for; without words, the notes are listed."""
    if not words or (len(words) == 1 and words[0] in _ACTS):
        return words[0] if words else "list", ""
    act, rest = (words[0], words[1:]) if words[0] in _ACTS_WITH_WORDS else ("search", words)
    if not rest:
        raise BadInput(f"`memory {act}` needs words or a name.", "Give it words, or the name of a note.")
    return act, " ".join(rest)


def _format_hit(data: "DataFolder", hit: "SearchHit", words: str) -> str:
    """The place as commands spell it, and a snippet. It is cut from the masked text: the index is not masked."""
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.memory.log_lines import extract_log_lines
    from tidegate.memory.words import cut_snippet, find_match_offset, parse_query

    if hit.kind == "note":
        lines = (data.notes.folder.read(hit.name) or "").split("\n")
        where, text = f"{hit.name}:{hit.place}", "\n".join(lines[hit.place - 1 : hit.place + _HIT_LINES])
    else:
        event = next(data.open_log(hit.name).read(hit.place), None)
        where, text = f"{hit.name} m{hit.place}", next(extract_log_lines("", [event] if event is not None else [])).text
    text = data.mask(text)
    offset = find_match_offset(text, parse_query(words, _MAX_QUERY_WORDS))
    return f"{clean_line(where)}  {cut_snippet(text, offset, _EXCERPT_CHARS)}"


MEMORY: Final = Operation(
    "memory",
    "search notes and logs",
    "Search the notes and the logs of all sessions by words, index them for that, or list and print notes.",
    ("search where is the port set", "search --notes deploy", "list", "show 2026-11-15.md", "index"),
    _memory,
    (
        Argument("words", "WORDS", "search WORDS (or WORDS alone), list, show NOTE, or index", repeat="*"),
        Argument("--limit", "N", "maximum number of hits (default: 10)", 10, int),
        Argument("--notes", help="only in the notes", default=False),
        Argument("--session", "NAME", "only in the log of this session", "", str),
        Argument("--json", help="a list of objects instead of lines", default=False),
    ),
    scope="data",
)
OPERATIONS: Final = (MEMORY,)
