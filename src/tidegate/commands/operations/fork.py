"""`fork`: a new session that begins with the records of another."""

from argparse import Namespace
from typing import Final

from tidegate.commands.operations.operation import Argument, Operation, OperationResult, SessionPlace
from tidegate.core.errors import BadInput
from tidegate.core.text.lazy_pattern import LazyPattern

_RECORD_NUMBER: Final = LazyPattern(r"[me]?(\d{1,15})")


def parse_record_number(text: str) -> int:
    """Read the number of a record, or the id of a message or an edit."""
    match = _RECORD_NUMBER.fullmatch(text)
    if match is None:
        raise BadInput(f"{text[:80]!r} is not the number of a record.", "Give one such as 120, or the id of a message.")
    return int(match[1])


def _fork(place: SessionPlace, values: Namespace) -> OperationResult:
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.datafolder.session_names import make_session_name

    data = place.data()
    name = values.new or make_session_name(place.name)
    at = values.at or place.log().head
    data.fork(place.name, at, name)
    text = f"{clean_line(name)} begins as {clean_line(place.name)} was at record {at}."
    return OperationResult(text, value=name)


FORK: Final = Operation(
    "fork",
    "copy a session, all or up to a record",
    "Copy a session under a new name: all of its records, or those up to a given one.",
    ("build-fix other-way --at 120",),
    _fork,
    (
        Argument("new", "NAME", "the name of the copy"),
        Argument(
            "--at",
            "ID",
            "the last record to copy, by its number or the id of a message (default: all)",
            0,
            parse_record_number,
            word="at",
        ),
    ),
    changes_session=True,
)
OPERATIONS: Final = (FORK,)
