"""How recall shows what it found: a line for each message with the passage that matches."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from tidegate.core.events import Event, MessageAdded
from tidegate.core.text.tool_calls import file_name_of
from tidegate.memory.log_lines import extract_message_text
from tidegate.memory.message_index import terms_of
from tidegate.memory.words import cut_snippet
from tidegate.session.recall_index import CallNote, RecallHit

_FIRST_HITS: Final = 5
_FIRST_CHARS, _LATER_CHARS = 600, 240
"""Characters of a passage: more for the first hits."""
_MAX_LINE_CHARS: Final = 300
_PASSAGE_CHARS: Final = 1_000
_GROUP_REACH: Final = 8
"""Hits of the same file move up to the first of them from so many places below it."""
_MAX_GROUP: Final = 3
_MAX_OTHER_LINES: Final = 4
_MAX_SCANNED: Final = 200_000
"""Characters of a message that are searched for other lines."""
_MAX_GROUPED: Final = 200
_MAX_SHOWN_CALLS: Final = 3
_MAX_PATH_CHARS: Final = 80


def group_hits(hits: Sequence[RecallHit]) -> list[RecallHit]:
    """Move hits of the same file together, behind the best of them. Each stays near its rank."""
    grouped: list[RecallHit] = []
    waiting = [(hit, frozenset(note.path for note in hit.notes if note.path)) for hit in hits[:_MAX_GROUPED]]
    while waiting:
        first, files = waiting.pop(0)
        grouped.append(first)
        reach = waiting[:_GROUP_REACH] if files else []
        near = [each for each in reach if not files.isdisjoint(each[1])][: _MAX_GROUP - 1]
        for each in near:
            waiting.remove(each)
            grouped.append(each[0])
    return [*grouped, *hits[_MAX_GROUPED:]]


def format_hit(event: Event, hit: RecallHit, terms: frozenset[str], place: int) -> str:
    """Return a hit: the id, the role, the tool and file, and the passage with most of these terms.

    `place` counts the hits of the whole list.
    """
    assert isinstance(event.payload, MessageAdded)
    message = event.payload.message
    descriptions = dict.fromkeys(_describe_note(note) for note in hit.notes)
    about = ", ".join([message.role, *descriptions][: _MAX_SHOWN_CALLS + 1]).replace(",", "", 1)
    chars = _FIRST_CHARS if place < _FIRST_HITS else _LATER_CHARS
    text = extract_message_text(message)
    passage = _cut_passage(text, hit.offset, terms, chars)
    others = _find_other_lines(text, passage, terms) if place < _FIRST_HITS and len(text) > chars else []
    return "\n".join((f"m{event.seq} {about}:{'' if passage.startswith(chr(10)) else ' '}{passage}", *others))


def _describe_note(note: CallNote) -> str:
    path = note.path if len(note.path) <= _MAX_PATH_CHARS else f"…/{file_name_of(note.path)[-_MAX_PATH_CHARS:]}"
    return f"{note.tool} {path}".strip()


def _cut_passage(text: str, offset: int, terms: frozenset[str], chars: int) -> str:
    """Return the lines around the best match, whole where they fit. A single line is cut around the match."""
    if len(text) <= chars:
        return _join_lines(text.strip("\n").splitlines())
    passage = text[offset : _find_line_end(text, offset + _PASSAGE_CHARS)]
    lines = list(_split_lines(passage))
    weights = _weigh_lines(lines, terms)
    best = max(range(len(lines)), key=lambda number: weights[number], default=0)
    if not lines or len(lines) == 1 or len(lines[best]) > chars:
        at = sum(len(line) for line in lines[:best]) + _find_first(lines[best] if lines else "", terms)
        return cut_snippet(text, offset + at, chars)
    first, last, room = best, best + 1, chars - len(lines[best])
    while room > 0 and (first > 0 or last < len(lines)):
        # The side with the better next line grows first; among equals two lines after the match for each before it.
        before = weights[first - 1] if first > 0 else -1
        after = weights[last] if last < len(lines) else -1
        is_behind = 2 * (best - first) < last - best - 1
        grows_back = before > after or (before == after and is_behind)
        line = lines[first - 1] if grows_back else lines[last] if last < len(lines) else ""
        room -= len(line)
        if room < 0:
            break
        first, last = (first - 1, last) if grows_back else (first, last + 1)
    start = "…" if offset or first else ""
    end = "…" if last < len(lines) or offset + len(passage) < len(text) else ""
    return start + _join_lines("".join(lines[first:last]).strip("\n").splitlines()) + end


def _find_other_lines(text: str, passage: str, terms: frozenset[str]) -> list[str]:
    """Return lines elsewhere in the message that have as many of the terms as any line, each as `also: ...`.

    One word of several is not enough: then the passage says more than scattered lines.
    """
    matches = [(line.strip(), terms.intersection(terms_of(line))) for line in text[:_MAX_SCANNED].splitlines()]
    most = max((len(match) for _, match in matches), default=0)
    if most < min(2, len(terms)):
        return []
    lines = dict.fromkeys(
        line for line, match in matches if len(match) == most and line not in passage and len(line) <= _MAX_LINE_CHARS
    )
    return [f"  also: {line[:_LATER_CHARS]}" for line in lines][:_MAX_OTHER_LINES]


def _find_line_end(text: str, at: int) -> int:
    """Where the line ends that a passage would cut, unless it is very long."""
    end = text.find("\n", at, at + _MAX_LINE_CHARS)
    return end if end >= 0 else at + _MAX_LINE_CHARS if at + _MAX_LINE_CHARS >= len(text) else at


def _weigh_lines(lines: Sequence[str], terms: frozenset[str]) -> list[float]:
    """What each line has of the terms. One that many of these lines have, such as a number, says little."""
    matches = [terms.intersection(terms_of(line)) for line in lines]
    counts = Counter(chain.from_iterable(matches))
    return [sum(1 / counts[term] for term in each) for each in matches]


def _split_lines(passage: str) -> Iterator[str]:
    for line in passage.splitlines(keepends=True):
        yield from (line[at : at + _MAX_LINE_CHARS] for at in range(0, len(line), _MAX_LINE_CHARS))


def _join_lines(lines: Sequence[str]) -> str:
    """Return one line as it is, and several below the head of the hit, indented."""
    full_lines = [line.rstrip() for line in lines if line.strip()]
    if len(full_lines) <= 1:
        return full_lines[0].strip() if full_lines else ""
    return "\n" + "\n".join(f"  {line}" for line in full_lines)


def _find_first(line: str, terms: frozenset[str]) -> int:
    """Return where the first word of a line is that has a term of the query."""
    return next((match.start() for match in re.finditer(r"\S+", line) if terms.intersection(terms_of(match[0]))), 0)
