"""Key lines: the lines of a text that are likely to be needed again.

Edits quote the beginning of a paragraph, a declaration or the first line of its comment far more often than the middle
of a block. Of a report, the line with the failure is needed. The rules know no programming language: they use blank
lines, indentation and the words that begin a declaration in most languages.
"""

import re
from collections.abc import Container
from typing import Final

import msgspec

from tidegate.core.text.bounded_memo import BoundedMemo
from tidegate.core.text.facts import find_error_lines

GAP_MARK: Final = "…"
"""The line that takes the place of omitted lines."""

# A line: its number, if a tool put one before it, its indentation, and its beginning.
_LINE: Final = re.compile(
    r"(?:\s*\d+(?:→|\t|: ?|\| ?|-(?=\s)))?(\s*)(?:"
    r"(?P<heading>#{1,6} |\*\*|\d+\. )"
    r"|(?P<comment>//|#|/\*|\*|--|<!--|\"\"\"|;;)"
    r"|(?P<import>(?:import|from|use|using|require|#include|package)\b|\"[\w./@-]+\"[,;]?\s*$)"
    r"|(?P<declares>"
    r"(?:(?:export|default|async|pub|static|public|private|protected|abstract|override|final|inline|virtual) ){0,4}"
    r"(?:def|class|func|function|fn|type|interface|const|struct|impl|enum|trait|module|namespace|describe|it|test|let|var"
    r"|CREATE|create)\b))?"
)
_CONFLICT_BEGIN, _CONFLICT_END = "<<<<<<< ", ">>>>>>> "
_CONFLICT_WORTH: Final = 4.0  # of each line of a merge conflict: one half of it, or one without its marks, misleads
_LONGEST_WORTH: Final = 160  # further characters of a line add nothing
_SHORT: Final = 25  # shorter lines are seldom unique
_SHORTEST: Final = 10
_LONG: Final = 400  # of a longer line only the beginning is kept


_MARKER: Final = re.compile(
    r"…$|\[[\d,]+ (?:of [\d,]+ lines|characters); recall |\[\.\.\. .* left out|\[truncated by |\[recall m\d+ has all"
    r"|RESULT TRUNCATED: showing |To see more: recall m\d|Do NOT guess or invent results that are not shown above"
)


def is_marker(line: str) -> bool:
    """Whether a line was written by this program where it shortened a text."""
    return _MARKER.match(line) is not None


_ENVELOPE: Final = re.compile(
    r"(?:Chunk ID: \w+|Wall time: [\d.]+ seconds|Original token count: \d+|Process exited with code 0|Output:)\s*$"
)


def is_envelope(line: str) -> bool:
    """Whether a line is what a shell tool prints around an output, such as its number. Only the client needs it."""
    return _ENVELOPE.match(line) is not None


def clip_line(line: str) -> str:
    """A line as it is kept: of a very long one, such as JSON without line breaks, the beginning."""
    return line if len(line) <= _LONG else line[:_LONG] + GAP_MARK


class KeyLine(msgspec.Struct, frozen=True, gc=False):
    """A line and its worth. `bare` is the line without number and indentation, as edits quote it."""

    place: int
    text: str
    bare: str
    worth: float


def find_key_lines(text: str, seen: set[str], without: Container[str] = (), *, report: bool = False) -> list[KeyLine]:
    """The lines that have any worth, in order, except bare lines in `seen` or `without`. Adds them to `seen`.

    `report`: the text is the output of a command, in which failures are worth more.
    """
    found: list[KeyLine] = []
    behind = _BLANK
    conflict = _CONFLICT_BEGIN in text and _CONFLICT_END in text
    inside = False
    for place, line in enumerate(text.split("\n")):
        bare, scale, worths, leaves = _TRAITS[line]
        if conflict and bare:
            inside = inside or (bare.startswith(_CONFLICT_BEGIN) and bare not in seen and bare not in without)
            if inside:
                found.append(KeyLine(place, clip_line(line), bare, _CONFLICT_WORTH))
                inside = not bare.startswith(_CONFLICT_END)
                behind = leaves
                continue
        if scale and bare not in seen:
            if worths is _FAILED and not report:
                worths = _OTHERS
            worth = scale * worths[behind]
            if worth > 0.05 and bare not in without:
                seen.add(bare)
                found.append(KeyLine(place, clip_line(line), bare, worth))
        behind = leaves
    if conflict:
        seen.update(line.bare for line in found)
    return found


# What the previous line is.
_BLANK, _COMMENT, _IMPORT, _OTHER = range(4)
# How much likelier than an average character of a result one of such a line is needed again, counted over recorded
# sessions: by the kind of the line, and by what the previous line is.
_WORTH: Final = {
    "comment": (0.6, 0.35, 0.4, 0.45),
    "import": (2.5, 2.5, 2.5, 2.5),
    "declares": (1.6, 1.3, 1.3, 1.6),
    "heading": (2.5, 2.5, 2.5, 2.5),
    "other": (1.2, 1.2, 1.2, 1.3),
}
_NO_WORTH: Final = (0.0, 0.0, 0.0, 0.0)
_OTHERS: Final = _WORTH["other"]
# Edits do not quote failures, but they say what is to be done.
_FAILED: Final = (3.0, 3.0, 3.0, 3.0)
_LEAVES: Final = {"comment": _COMMENT, "import": _IMPORT}


_LineTraits = tuple[str, float, tuple[float, ...], int]
"""The bare line, a factor for its worth, its worth by what the previous line is, and what it is for the next line.
The factor is 0 for lines without content."""


def _find_traits(line: str) -> _LineTraits:
    match = _LINE.match(line)
    end = match.end(1) if match else 0
    bare = line[end:].strip()
    if not bare or is_marker(bare) or is_envelope(bare):
        return bare, 0.0, _NO_WORTH, _BLANK
    kind = (match and match.lastgroup) or "other"
    worths = _FAILED if kind == "other" and _may_fail(bare) and find_error_lines(bare) else _WORTH[kind]
    scale, size = 0.0, len(bare)
    if size >= _SHORTEST:
        scale = min(size, _LONGEST_WORTH) / 50
        if size < _SHORT:
            scale *= 0.4
    return bare if size <= _LONG else bare[:_LONG], scale, worths, _LEAVES.get(kind, _OTHER)


def _may_fail(line: str) -> bool:
    """A cheap test before the exact one, because nearly no line is a failure."""
    return "rror" in line or "ail" in line or "FAIL" in line or "xception" in line or "annot" in line or "not f" in line


_TRAITS: Final = BoundedMemo(_find_traits, longest=_LONG, most=1 << 15)
