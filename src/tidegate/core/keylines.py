"""Which lines of a text are likely to be needed again.

An edit quotes old text from the beginning of a paragraph, a declaration or the first line of its comment far more often
than from the middle of a block; a report is remembered by the line that tells what failed. Nothing here knows a
language: it goes by blank lines, indentation and the words that open a declaration in most of them.
"""

import re
from typing import Final, NamedTuple

GAP: Final = "…"
"""Stands for lines that were left out."""

_NUMBERED: Final = re.compile(r"\s*\d+(?:→|\t|: ?|\| ?|-(?=\s))")
_COMMENT: Final = re.compile(r"//|#|/\*|\*|--|<!--|\"\"\"|;;")
_IMPORT: Final = re.compile(r"(?:import|from|use|using|require|#include|package)\b|\"[\w./@-]+\"[,;]?$")
_DECLARES: Final = re.compile(
    r"(?:(?:export|default|async|pub|static|public|private|protected|abstract|override|final|inline|virtual) ){0,4}"
    r"(?:def|class|func|function|fn|type|interface|const|struct|impl|enum|trait|module|namespace|describe|it|test|let|var"
    r"|CREATE|create)\b"
)
_HEADING: Final = re.compile(r"#{1,6} |\*\*|\d+\. ")
_DEPTH: Final = (1.0, 0.95, 0.6, 0.45, 0.35, 0.25)
_SHORT: Final = 25  # a shorter line seldom tells one place from another
_LONG: Final = 400


class KeyLine(NamedTuple):
    """`bare` is the line without its number and indentation: that is what is quoted, and what tells it from others."""

    place: int
    text: str
    bare: str
    worth: float


def key_lines(text: str) -> list[KeyLine]:
    """Every line that has any worth, in its order."""
    found: list[KeyLine] = []
    blank, before = True, ""
    for place, line in enumerate(text.split("\n")):
        number = _NUMBERED.match(line)
        body = line[number.end() :] if number else line
        bare = body.strip()
        if not bare or bare == GAP or bare.endswith("has all of it]"):
            blank, before = True, "" if bare else before
            continue
        kind = _kind(bare)
        worth = _worth(bare, kind, before, blank) * _DEPTH[min(_indent(body), len(_DEPTH) - 1)]
        if worth > 0.05:
            found.append(KeyLine(place, line if len(line) <= _LONG else line[:_LONG], bare[:_LONG], worth))
        blank, before = False, kind
    return found


def _indent(body: str) -> int:
    """How deep a line stands. Two blanks are a step for some, four for others: the first is taken for half a step."""
    start = body[: len(body) - len(body.lstrip())]
    return start.count("\t") + (len(start) - start.count("\t")) // 4


def _kind(bare: str) -> str:
    if _HEADING.match(bare):
        return "heading"
    if _COMMENT.match(bare):
        return "comment"
    if _IMPORT.match(bare):
        return "import"
    return "declares" if _DECLARES.match(bare) else "other"


def _worth(bare: str, kind: str, before: str, blank: bool) -> float:
    """How much likelier than any line of the same file it is to be quoted, as counted over recorded edits."""
    size = len(bare)
    few = 1.0 if size >= _SHORT else 0.15 if size >= 10 else 0.0
    if kind == "comment":
        return few * (0.15 if before == "comment" and not blank else 2.4 if blank else 0.8)
    if kind == "import":
        return few * (5.0 if before != "import" or blank else 2.0)
    if kind == "declares":
        return few * (3.0 if blank else 0.8)
    if kind == "heading":
        return few * 1.8
    return few * (1.8 if blank else 0.5)
