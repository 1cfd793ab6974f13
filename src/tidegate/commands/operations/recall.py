"""`recall`: messages of a session by id, by range or by words."""

from argparse import Namespace
from typing import Final

from tidegate.commands.operations.operation import Argument, Operation, OperationResult, SessionPlace

_ABOUT: Final = """\
Read messages, also those that left the view: by id (m12), by range (m12..m40), by the path of a file (src/a.py: its
newest text in the log, and what changed it later) or by words. "Words in quotes" are searched for literally. The output
is bounded; it says how to get the next part.
"""


def _recall(place: SessionPlace, values: Namespace) -> OperationResult:
    from tidegate.session.recall import recall_text

    what, log = " ".join(values.what), place.log()
    excerpt = recall_text(log, what, max_chars=values.chars, offset=values.offset, index=place.recall_index())
    return OperationResult(excerpt.text, bool(excerpt.ids), excerpt)


RECALL: Final = Operation(
    "recall",
    "read messages that left the view",
    _ABOUT,
    ("build-fix m12", "build-fix port 8080 --chars 4000"),
    _recall,
    (
        Argument("what", "WHAT", "an id, a range of ids, a path, or words", repeat="+"),
        Argument("--chars", "N", "maximum number of characters (default: 8000)", 8000, int),
        Argument("--json", help="an object with the text, the ids in it, and what is next", default=False),
        Argument("--offset", "N", "start at this character", 0, int, word="offset"),
    ),
)
OPERATIONS: Final = (RECALL,)
