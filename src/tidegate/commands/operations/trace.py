"""`trace`: what happened in a session, as JSON lines, or its usage added up. A chat shows the latest lines."""

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidegate.commands.operations.operation import Argument, Operation, OperationResult, SessionPlace, parse_count

if TYPE_CHECKING:  # loaded when it runs
    from tidegate.datafolder.trace.lines import TraceLine

_CHAT_LINES: Final = 30
_MAX_CHAT_LINES: Final = 500
_FIELDS: Final = (
    "role name kind id stage rule model tokens input_tokens output_tokens cache_read before after why text".split()
)


def _trace(place: SessionPlace, values: Namespace) -> OperationResult:
    from collections import deque

    import msgspec

    from tidegate.datafolder.trace.lines import read_last_lines, sum_usage_by_model

    if values.usage:
        usage = msgspec.json.encode(sum_usage_by_model(_read_lines(place)))
        return OperationResult(msgspec.json.format(usage).decode())
    if not place.is_chat:
        lines = _read_lines(place)
        return OperationResult(lines=deque(lines, int(values.lines)) if values.lines else lines)
    path = place.data().trace_path(place.name)
    tail = read_last_lines(path, min(values.lines or _CHAT_LINES, _MAX_CHAT_LINES))
    if not tail:
        return OperationResult("There is no trace yet.", False)
    return OperationResult("\n".join([*map(_format_line, tail), f"all of it: {path}"]))


def _read_lines(place: SessionPlace) -> Iterator["TraceLine"]:
    """Read the trace. Lines that its file does not have yet are first appended to it. Without one, none is made."""
    import tempfile
    from pathlib import Path

    from tidegate.datafolder.trace.lines import read_trace
    from tidegate.datafolder.trace.writer import Trace

    data = place.data()
    place.log()  # it raises an error if there is no such session
    with tempfile.TemporaryDirectory() as folder:
        path = data.trace_path(place.name)
        path = path if path.exists() else Path(folder, "trace.jsonl")
        Trace(path, place.name, data.mask).append_missing(data.open_log(place.name))
        yield from read_trace(path)


def _format_line(line: "TraceLine") -> str:
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.datafolder.time_format import format_time

    values = {name: getattr(line, name) for name in _FIELDS if getattr(line, name) not in (None, "")}
    when = format_time(line.time, "%H:%M:%S")
    fields = clean_line(" ".join(f"{key}={value}" for key, value in values.items()))
    return f"{line.seq:>6} {when} {line.event} {fields}".rstrip()


TRACE: Final = Operation(
    "trace",
    "print what happened in a session",
    "Print the trace of a session as JSON lines: model calls, tool calls, compactions, errors. --usage adds it up.",
    ("build-fix", "build-fix 20", "build-fix --usage"),
    _trace,
    (
        Argument("lines", "LINES", "only this many, the latest", 0, parse_count, repeat="?"),
        Argument("--usage", help="tokens by model, added up", default=False),
    ),
)
OPERATIONS: Final = (TRACE,)
