"""Which lines of a text are likely to be needed again.

An edit quotes old text from the beginning of a paragraph, a declaration or the first line of its comment far more often
than from the middle of a block; a report is remembered by the line that tells what failed. Nothing here knows a
language: it goes by blank lines, indentation and the words that open a declaration in most of them.
"""

import re
from collections.abc import Container
from typing import Final

import msgspec

from tidegate.core.text.bounded_memo import BoundedMemo
from tidegate.core.text.facts import find_error_lines

GAP_MARK: Final = "…"
"""Stands for lines that were left out."""

# A line: its number, if a tool put one before it, its indentation, and how it begins.
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
_DEPTH: Final = (1.0, 0.95, 0.6, 0.45, 0.35, 0.25)
_DEEPEST: Final = 4 * len(_DEPTH)
_SHORT: Final = 25  # a shorter line seldom tells one place from another
_SHORTEST: Final = 10
_LONG: Final = 400


class KeyLine(msgspec.Struct, frozen=True, gc=False):
    """`bare` is the line without its number and indentation: that is what is quoted, and what tells it from others."""

    place: int
    text: str
    bare: str
    worth: float


def find_key_lines(text: str, seen: set[str], without: Container[str] = (), *, report: bool = False) -> list[KeyLine]:
    """Every line that has any worth, in its order, and was not `seen`; what is found here is then. None that is, bare,
    among those it is to be `without`. In a `report`, which a command printed, failures are worth more."""
    found: list[KeyLine] = []
    behind = _BLANK
    for place, line in enumerate(text.split("\n")):
        bare, scale, worths, leaves = _KNOWN[line]
        if scale and bare not in seen:
            if worths is _FAILED and not report:
                worths = _OTHERS
            worth = scale * worths[behind]
            if worth > 0.05 and bare not in without:
                seen.add(bare)
                found.append(KeyLine(place, line if len(line) <= _LONG else line[:_LONG], bare, worth))
        behind = leaves
    return found


# What a line stands behind.
_BLANK, _COMMENT, _IMPORT, _OTHER = range(4)
# How much likelier than any line of the same file it is to be quoted, as counted over recorded edits: by its kind, and
# by what it stands behind.
_WORTH: Final = {
    "comment": (2.4, 0.15, 0.8, 0.8),
    "import": (5.0, 5.0, 2.0, 5.0),
    "declares": (3.0, 0.8, 0.8, 0.8),
    "heading": (1.8, 1.8, 1.8, 1.8),
    "other": (1.8, 0.5, 0.5, 0.5),
}
_NO_WORTH: Final = (0.0, 0.0, 0.0, 0.0)
_OTHERS: Final = _WORTH["other"]
# Edits do not quote it, but it says what is to be done.
_FAILED: Final = (3.0, 3.0, 3.0, 3.0)
_LEAVES: Final = {"comment": _COMMENT, "import": _IMPORT}


_Seen = tuple[str, float, tuple[float, ...], int]
"""What a line is by itself, wherever it stands: bare, how much its worth counts, its worth by what it stands behind,
and what the next line stands behind then. One that says nothing of its own counts for nothing."""


def _seen(line: str) -> _Seen:
    match = _LINE.match(line)
    start, end = match.span(1) if match else (0, 0)
    bare = line[end:].strip()
    if not bare or bare == GAP_MARK or (bare[-1] == "]" and bare.endswith("has all of it]")):
        return bare, 0.0, _NO_WORTH, _BLANK
    kind = (match and match.lastgroup) or "other"
    worths = _FAILED if kind == "other" and _may_fail(bare) and find_error_lines(bare) else _WORTH[kind]
    scale, size = 0.0, len(bare)
    if size >= _SHORTEST:
        # Two blanks are a step for some, four for others: the first is taken for half a step.
        steps = line.count("\t", start, end) * 3 + end - start if end > start else 0
        scale = _DEPTH[steps // 4] if steps < _DEEPEST else _DEPTH[-1]
        if size < _SHORT:
            scale *= 0.15
    return bare if size <= _LONG else bare[:_LONG], scale, worths, _LEAVES.get(kind, _OTHER)


def _may_fail(line: str) -> bool:
    """Whether it is worth a closer look: nearly no line is. The most usual words only, for every line is asked."""
    return "rror" in line or "ail" in line or "FAIL" in line or "xception" in line or "annot" in line or "not f" in line


_KNOWN: Final = BoundedMemo(_seen, longest=_LONG, most=1 << 15)
