"""Reading of a model's answer: the changed sections and the list of passages.

The reading is lenient about form (headings, fences, an enclosing block) and bounded: what is far too long, has none of
the sections, or repeats the instruction is refused with a reason.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tidegate.core.state_note.instruction import PASSAGES_HEADING
from tidegate.core.state_note.note import HEADINGS, SECTIONS
from tidegate.core.state_note.passages import MAX_PASSAGE_LINES, WantedPassage
from tidegate.core.text.lazy_pattern import LazyPattern

MAX_NOTE_ANSWER_CHARS: Final = 80_000
_MAX_WANTED: Final = 200
_MAX_FIND_CHARS: Final = 1_000
_HEADING: Final = LazyPattern(
    r"^\s{0,3}(?:#{1,6}\s*|\*\*\s*)(?:\d{1,2}[.)]\s*)?([^#*:]{2,80}?)\s*:?\s*(?:\*\*)?\s*:?\s*#*\s*$"
)
_THINKING: Final = LazyPattern(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_WRAPPED: Final = LazyPattern(r"\A```(?:markdown|md|text)?\n(.*)\n```\Z", re.DOTALL)
_INVISIBLE: Final = LazyPattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_CHANGES: Final = LazyPattern(r"\(changes?\)", re.I)
_UNCHANGED: Final = LazyPattern(r"[\s(\[*_-]*(?:unchanged|no changes?|same as before|as before|stays)[\s)\]*_.]*", re.I)
_NOTHING: Final = LazyPattern(r"[\s(\[*_-]*(?:none|nothing|n/a|empty)(?: yet| so far)?[\s)\]*_.]*", re.I)
_ECHOES: Final = (
    "the user's goal and every open order, in the user's own words: quote those that matter",
    "Stop here for this one answer: do not go on with the task",
)


class AnswerUnusable(Exception):
    """Why an answer cannot be used. The text is ours, never the model's."""


class ParsedAnswer(NamedTuple):
    """The sections that the model wrote, by heading, and its passages; None if it listed none.

    `changes` are sections of which it wrote only what changes: new lines, and `- drop: ...` with the beginning of a
    line that leaves.
    """

    sections: dict[str, str]
    passages: tuple[WantedPassage, ...] | None
    feedback: tuple[str, ...] = ()
    changes: Mapping[str, str] = MappingProxyType({})


def parse_answer(answer: str) -> ParsedAnswer:
    """Read an answer. AnswerUnusable says why it cannot be used."""
    if len(answer) > MAX_NOTE_ANSWER_CHARS:
        raise AnswerUnusable(f"it was too long: {len(answer):,} characters")
    text = _INVISIBLE.sub("", _THINKING.sub("", answer.replace("\r\n", "\n"))).strip()
    if not text:
        raise AnswerUnusable("it was empty")
    if any(echo in text for echo in _ECHOES):
        raise AnswerUnusable("it repeated the instruction")
    wrapped = _WRAPPED.match(text)
    if wrapped and "\n## " in f"\n{wrapped[1]}":
        text = wrapped[1]
    sections, changes, listed = _split_sections(text)
    passages, feedback = _parse_passages(listed if listed is not None else _find_list(text))
    if not sections and not changes and passages is None:
        raise AnswerUnusable("it had none of the sections")
    return ParsedAnswer(sections, passages, feedback, changes)


def _split_sections(text: str) -> tuple[dict[str, str], dict[str, str], str | None]:
    """The sections by their proper headings, those with changes only, and the text under the passages' heading.

    A fence that nothing closes is removed: it would hide all headings after it.
    """
    lines_by_heading: dict[str, list[str]] = {}
    change_headings: set[str] = set()
    current = ""
    fence, open_line = "", -1
    for number, line in enumerate(text.split("\n")):
        mark = re.match(r"\s*(`{3,})", line)
        if mark:
            open_line = open_line if fence else number
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        name = "" if fence or mark else _match_heading(line)
        if name:
            current = name
            lines_by_heading.setdefault(current, [])
            if _CHANGES.search(line):
                change_headings.add(current)
        elif current:
            lines_by_heading[current].append(line.rstrip())
    if fence:
        return _split_sections("\n".join(line for n, line in enumerate(text.split("\n")) if n != open_line))
    listed = "\n".join(lines_by_heading.pop(PASSAGES_HEADING)) if PASSAGES_HEADING in lines_by_heading else None
    sections: dict[str, str] = {}
    for heading, lines in lines_by_heading.items():
        body = "\n".join(lines).strip("\n")
        if _UNCHANGED.fullmatch(body):
            continue
        sections[heading] = "" if _NOTHING.fullmatch(body) else body
    changes = {
        heading: sections.pop(heading) for heading in HEADINGS if heading in change_headings and heading in sections
    }
    return sections, changes, listed


def _match_heading(line: str) -> str:
    match = _HEADING.match(line)
    if match is None:
        return ""
    words = match[1].casefold()
    if words.startswith(PASSAGES_HEADING.casefold()[:-1]):
        return PASSAGES_HEADING
    return next((kind.heading for kind in SECTIONS if words.startswith(kind.keyword)), "")


def _find_list(text: str) -> str | None:
    """The last JSON list of a text without the heading of the passages."""
    at = text.rfind('[{"')
    return text[at:] if at >= 0 else None


def _parse_passages(text: str | None) -> tuple[tuple[WantedPassage, ...] | None, tuple[str, ...]]:
    if text is None:
        return None, ()
    values = _read_list(text)
    if values is None:
        if re.fullmatch(r"[\s`\[\]a-z().-]*", text, re.I):
            return (), ()
        return (), ("the list of passages was not valid JSON",)
    return tuple(filter(None, map(_read_wanted, values[:_MAX_WANTED]))), ()


def _read_list(text: str) -> list[object] | None:
    """The JSON list in a text; of one that was cut off or has a fault, the objects that can be read."""
    start = text.find("[")
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list):
        return value
    values: list[object] = []
    for match in re.finditer(r"\{[^{}]{0,4000}\}", text[start:]):
        try:
            values.append(json.loads(match[0]))
        except (ValueError, RecursionError):
            continue
    return values or None


def _read_wanted(value: object) -> WantedPassage | None:
    if not isinstance(value, dict):
        return None
    find, why, ident = (_read_text(value.get(name)) for name in ("find", "why", "id"))
    if not find.strip():
        return None
    return WantedPassage(
        find[:_MAX_FIND_CHARS],
        _INVISIBLE.sub("", why)[:400],
        _read_count(value.get("before")),
        _read_count(value.get("after")),
        ident.strip("[] "),
    )


def _read_text(value: object) -> str:
    """A text of the list, without lone surrogates: JSON can name them, and no log takes them."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") if isinstance(value, str) else ""


def _read_count(value: object) -> int:
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 6:
        value = int(value)
    return min(max(value, 0), MAX_PASSAGE_LINES) if isinstance(value, int) and not isinstance(value, bool) else 0
