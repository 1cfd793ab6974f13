"""Key lines: the lines of a text that are likely to be needed again.

Edits quote the beginning of a paragraph, a declaration or the first line of its comment far more often than the middle
of a block. Of a report, the line with the failure is needed, and how it ended; of a diff, the changed lines; of a file
with a merge conflict, the conflict. The rules know no programming language: they use blank lines, indentation and the
words that begin a declaration in most languages.
"""

from collections.abc import Container, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from tidegate.core.recognition.client_outputs import ENVELOPE_LINE, EXIT_LINE, EXIT_ZERO_LINE
from tidegate.core.text.bounded_memo import BoundedMemo
from tidegate.core.text.facts import find_error_lines
from tidegate.core.text.lazy_pattern import LazyPattern

GAP_MARK: Final = "…"
"""The line that takes the place of omitted lines."""

# A line: its number, if a tool put one before it, its indentation, and its beginning.
_LINE: Final = LazyPattern(
    r"(?:\s*\d+(?:→|\t|: ?|\| ?|-(?=\s)))?(\s*)(?:"
    r"(?P<heading>#{1,6} |\*\*|\d+\. )"
    r"|(?P<comment>//|#|/\*|\*|--|<!--|\"\"\"|;;)"
    r"|(?P<import>(?:import|from|use|using|require|#include|package)\b|\"[\w./@-]+\"[,;]?\s*$)"
    r"|(?P<declares>"
    r"(?:(?:export|default|async|pub|static|public|private|protected|abstract|override|final|inline|virtual) ){0,4}"
    r"(?:def|class|func|function|fn|type|interface|const|struct|impl|enum|trait|module|namespace|describe|it|test|let|var"
    r"|CREATE|create)\b))?"
)
_CONFLICT_MARK: Final = LazyPattern(r"[ +-]{0,2}(?:([<|>])\1{6}(?: |$)|(=)={6}$)")  # signs: in the diff of a merge
_CONFLICT_WORTH: Final = 16.0  # of each line of a merge conflict: one half of it, or one without its marks, misleads
_LONGEST_CONFLICT: Final = 60  # lines: of a longer one only the marks are worth more than other lines
_LONGEST_WORTH: Final = 160  # further characters of a line add nothing
_SHORT: Final = 25  # shorter lines are seldom unique
SHORTEST_LINE: Final = 10
"""Characters: a shorter line has no worth."""
_LONG: Final = 400  # of a longer line only the beginning is kept


_MARKER: Final = LazyPattern(
    r"…$|\[(?:first )?[\d,]+ (?:of [\d,]+ )?(?:lines|characters); recall "
    r"|\[\.\.\. .* left out|\[truncated by |\[recall m\d+ has all"
    r"|RESULT TRUNCATED: showing |To see more: recall m\d|Do NOT guess or invent results that are not shown above"
)


_MARKER_STARTS: Final = frozenset(f"{GAP_MARK}[RTD")


def is_marker(line: str) -> bool:
    """Whether a line was written by this program where it shortened a text."""
    return line[:1] in _MARKER_STARTS and _MARKER.match(line) is not None


def is_envelope(line: str) -> bool:
    """Whether a line is what a shell tool prints around an output, such as its number. Only the client needs it."""
    return ENVELOPE_LINE.match(line) is not None


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
    key_lines: list[KeyLine] = []
    behind = _BLANK
    lines = text.split("\n")
    in_conflict = _find_conflict_lines(lines, seen, without) if "<<<<<<<" in text or ">>>>>>>" in text else ()
    in_diff = find_diff_lines(lines).prefixes if may_have_diff(text) else {}
    for place, line in enumerate(lines):
        prefix = in_diff.get(place)
        bare, scale, worths, leaves = _TRAITS[line] if prefix is None else _find_diff_traits(line, prefix)
        if place in in_conflict:
            bare = _TRAITS[line][0]
            seen.add(bare)
            key_lines.append(KeyLine(place, clip_line(line), bare, _CONFLICT_WORTH))
        elif scale and bare not in seen:
            if worths is _FAILED and not report:
                worths = _OTHERS
            worth = scale * worths[behind]
            if worth > 0.05 and bare not in without:
                seen.add(bare)
                key_lines.append(KeyLine(place, clip_line(line), bare, worth))
        behind = leaves
    return key_lines


def _find_conflict_lines(lines: Sequence[str], seen: Container[str], without: Container[str]) -> set[int]:
    """The places of the marks of merge conflicts, and of what is between them if it is short.

    Many conflicts have the same marks, so one was resolved, or is shown again later, only if that is true of all its
    lines.
    """
    found: set[int] = set()
    marks: list[int] = []
    bares = [_TRAITS[line][0] for line in lines]

    def end_conflict() -> None:
        places = [place for place in range(marks[0], marks[-1] + 1) if bares[place]]
        if not any(all(bares[place] in gone for place in places) for gone in (seen, without)):
            found.update(places if len(places) <= _LONGEST_CONFLICT else marks)
        marks.clear()

    for place, bare in enumerate(bares):
        mark = _CONFLICT_MARK.match(bare)
        if mark is None or not (marks or mark[1] in ("<", ">")):
            continue
        if mark[1] == "<" and marks:
            end_conflict()
        marks.append(place)
        if mark[1] == ">":
            end_conflict()
    if marks:
        end_conflict()
    return found


class DiffLines(NamedTuple):
    """The places of the lines that name a file, once for each; of other lines the length of what is not code.

    That is the sign of a line, the numbers of a hunk, and all of a line that only git needs. Text around the diff is in
    neither.
    """

    files: list[int]
    prefixes: dict[int, int]


_FILE_IN_DIFF: Final = LazyPattern(r"diff --(?:git|cc|combined) ")
_HUNK_FACTOR: Final = 0.5  # for the code after the numbers of a hunk, which says little without the changed lines
_DIFF_STARTS: Final = frozenset(f"d@-+i{GAP_MARK}")  # of the lines outside of hunks
_HUNK: Final = LazyPattern(r"(@@@?) -[-+\d, ]+ @@@?\s*")


def may_have_diff(text: str) -> bool:
    """A cheap test: most texts have no diff."""
    return "diff --" in text or "@@ -" in text or "+++ " in text


def find_diff_lines(lines: Sequence[str]) -> DiffLines:
    """The lines of the diffs in a text, which may have been shortened before."""
    files: list[int] = []
    prefixes: dict[int, int] = {}
    columns = 0  # signs in front of each line of a hunk; 0 outside
    is_named = False
    for place, line in enumerate(lines):
        if not columns and line[:1] not in _DIFF_STARTS:
            continue
        after = lines[place + 1] if place + 1 < len(lines) else ""
        if _FILE_IN_DIFF.match(line):
            files.append(place)
            columns, is_named = 0, True
        elif hunk := _HUNK.match(line):
            prefixes[place] = hunk.end()
            columns, is_named = len(hunk[1]) - 1, False
        elif line.startswith("--- ") and after.startswith("+++ "):
            prefixes[place] = len(line)
            columns = 0
        elif line.startswith("+++ ") and not columns and after.startswith(("@@", GAP_MARK)):
            if is_named:
                prefixes[place] = len(line)
            else:
                files.append(place)
        elif line.startswith("index ") and is_named:
            prefixes[place] = len(line)
        elif line == GAP_MARK and files:  # the beginning of a hunk may have been left out
            columns, is_named = columns or 1, False
        elif columns and line[:1] in ("+", "-", " "):
            prefixes[place] = min(columns, len(line))
        elif line and line[0] != "\\":
            columns = 0
    return DiffLines(files, prefixes)


_EXIT_REACH: Final = 6  # lines from the beginning and the end of an output
_VERDICT: Final = LazyPattern(
    r"\W*(?:(?:ok|OK|PASS|PASSED|FAIL|FAILED|FAILURE|not ok|BUILD \w+)(?=$|:|\s+[^\s:=])|[Tt]ests?(?: result)?: )"
    r"|.*\b\d+ (?:passed|failed|passing|failing|failures?|errors?|issues?|problems?)\b"
)
_FAILED_VERDICT: Final = LazyPattern(
    r"\W*(?:FAIL|not ok|BUILD FAIL)|.*\b[1-9]\d* (?:failed|failing|failures?|errors?|issues?|problems?)\b"
)
_VERDICT_CHARS: Final = 200  # a longer line does not count as a verdict
_VERDICT_REACH: Final = 400  # lines from the end of an output


_LINES_BEFORE_FAULT: Final = 2  # before the first line of a failure
_LINES_FROM_FAULT: Final = 2


def find_fault_lines(lines: Sequence[str]) -> set[int]:
    """The places of the lines around the first failure in an output: the program often says the cause before it."""
    faults = set(find_error_lines("\n".join(lines)))
    if not faults:
        return set()
    first = next((place for place, line in enumerate(lines) if line.strip() in faults and _is_printed(line)), None)
    if first is None:
        return set()
    before = (place for place in range(first - 1, -1, -1) if _is_printed(lines[place]))
    after = (place for place in range(first, len(lines)) if _is_printed(lines[place]))
    return {*islice(before, _LINES_BEFORE_FAULT), *islice(after, _LINES_FROM_FAULT)}


def _is_printed(line: str) -> bool:
    """Whether a line of an output has something that the program itself printed."""
    return bool(line.strip()) and not (is_envelope(line) or EXIT_LINE.match(line) or is_marker(line))


def find_outcome_lines(lines: Sequence[str], *, only_reads: bool = False) -> set[int]:
    """The places of the lines that say how a command ended, at least one unless it printed nothing.

    They are its exit code, the lines around the first failure, its last verdict and the last one that is a failure.
    Without a verdict it is the last line with words; of a diff, in which that is any line, it is the first that names a
    file. `only_reads`: the command changes nothing and has no verdict, so only an exit code counts, and not 0: alone it
    reads as if nothing had been found.
    """
    edges = {*range(min(_EXIT_REACH, len(lines))), *range(max(0, len(lines) - _EXIT_REACH), len(lines))}
    found = {place for place in edges if EXIT_LINE.match(lines[place])}
    if only_reads:
        return {place for place in found if not EXIT_ZERO_LINE.match(lines[place])}
    files = find_diff_lines(lines).files
    if files:
        return found | {files[0]}
    last = verdict = -1
    for place in range(len(lines) - 1, max(-1, len(lines) - 1 - _VERDICT_REACH), -1):
        line = lines[place]
        if place in found or not any(map(str.isalnum, line)) or is_envelope(line) or is_marker(line):
            continue
        last = max(last, place)
        if len(line) <= _VERDICT_CHARS and _VERDICT.match(line):
            verdict = max(verdict, place)
            if _FAILED_VERDICT.match(line):
                found.add(place)
                break
    ends = verdict if verdict >= 0 else last
    found |= find_fault_lines(lines)
    return found | {ends} if ends >= 0 else found


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
_FAILED: Final = (12.0, 12.0, 12.0, 12.0)
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
    if size >= SHORTEST_LINE:
        scale = min(size, _LONGEST_WORTH) / 50
        if size < _SHORT:
            scale *= 0.4
    return bare if size <= _LONG else bare[:_LONG], scale, worths, _LEAVES.get(kind, _OTHER)


def _find_diff_traits(line: str, prefix: int) -> _LineTraits:
    """The traits of a line of a diff: those of its code, and of a changed line no less than those of other code."""
    bare, scale, worths, leaves = _TRAITS[line[prefix:]]
    if worths is _FAILED:
        worths = _OTHERS
    signs = line[:prefix].strip()
    if signs not in ("+", "-", "++", "--"):
        return bare, scale * _HUNK_FACTOR if signs else scale, worths, leaves
    return signs + bare, scale, tuple(map(max, worths, _OTHERS)), leaves


def _may_fail(line: str) -> bool:
    """A cheap test before the exact one, because nearly no line is a failure."""
    return "rror" in line or "ail" in line or "FAIL" in line or "xception" in line or "annot" in line or "not f" in line


_TRAITS: Final = BoundedMemo(_find_traits, longest=_LONG, most=1 << 15)
