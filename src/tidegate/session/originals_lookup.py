"""Quotes originals that left the view, for the stage `bring_back`.

The candidates are those of recall: the newest whole text of a named file, then what the index finds for all names. A
passage is quoted only if it has a rare one of the names, is no mere mention, and most of its lines are not in the view.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidegate.core.messages import Message, calls_of, texts_of
from tidegate.core.outcome import OriginalsRequest
from tidegate.core.stages.bring_back import quote_originals
from tidegate.core.text.tool_calls import iterate_strings, parse_call_arguments
from tidegate.core.tokens.counting import TokenCounter
from tidegate.core.view import View
from tidegate.memory.log_lines import extract_message_text
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.recall import recall_message
from tidegate.session.recall_index import FileTouch, RecallHit, RecallIndex

_MAX_CANDIDATES: Final = 16
_CHARS_PER_TOKEN: Final = 3
_MIN_LINE_CHARS: Final = 12
"""Shorter lines say nothing about whether a passage is in the view."""
_MAX_LINE_CHARS: Final = 300
_MAX_SHOWN_SHARE: Final = 0.5
_SHRINK: Final = 0.75
_MIN_CHARS: Final = 200
_MAX_HOLDERS: Final = 12
"""A name that more messages have does not say which of them is meant."""
_MAX_LATER: Final = 5


class _Passage(NamedTuple):
    hit: RecallHit
    lines: list[str]
    best: int
    names: int
    text: str


def find_originals(index: RecallIndex, view: View, request: OriginalsRequest, counter: TokenCounter) -> str | None:
    """Return the quotation that a request asks for; None if the log has nothing that is not shown."""
    log = ConversationLog(index.log, f"m{view.head}", index.read_branch_points())
    shown = {item.message.id for item in view.items if not item.edited}
    visible = _collect_lines(view)
    cleared = index.find_last_clear(log)
    chars = request.max_tokens * _CHARS_PER_TOKEN // request.most
    rare = [name.casefold() for name in request.names if index.count_messages(name) <= _MAX_HOLDERS]
    passages: list[_Passage] = []
    for hit in _list_candidates(index, log, request.names) if rare else ():
        if hit.seq <= cleared or f"m{hit.seq}" in shown or any(each.hit.seq == hit.seq for each in passages):
            continue
        passage = _find_passage(log, hit, rare, chars)
        if passage is not None and not _is_visible(passage.text, visible):
            passages.append(passage)
    passages.sort(key=lambda passage: -passage.names)  # stable: the rank decides among equals
    while passages and chars >= _MIN_CHARS:
        some = [(each.hit, _cut_around(each.lines, each.best, chars)) for each in passages[: request.most]]
        quoted = quote_originals([(_describe(index, log, hit), text) for hit, text in some])
        if counter.count_text(quoted) <= request.max_tokens:
            return quoted
        chars = int(chars * _SHRINK)
    return None


def _collect_lines(view: View) -> set[str]:
    lines: set[str] = set()
    for item in view.items:
        for text in _iterate_texts(item.message):
            lines.update(map(str.strip, text.splitlines()))
    return lines


def _iterate_texts(message: Message) -> Iterator[str]:
    yield from texts_of(message)
    for call in calls_of(message):
        for _, value in iterate_strings(parse_call_arguments(call)):
            yield value


def _list_candidates(index: RecallIndex, log: ConversationLog, names: Sequence[str]) -> Iterator[RecallHit]:
    for name in names:
        touches = index.find_file(log, name) if "." in name or "/" in name else []
        whole = next((touch for touch in reversed(touches) if touch.note.whole), None)
        if whole is not None:
            yield RecallHit(whole.seq, 0, (whole.note,))
    yield from index.find(log, " ".join(names))[:_MAX_CANDIDATES]


def _find_passage(log: ConversationLog, hit: RecallHit, names: Sequence[str], chars: int) -> _Passage | None:
    """Return the passage of a hit around the line with most of the names; None if it has none, or is very short."""
    text = extract_message_text(recall_message(log, f"m{hit.seq}"))
    lines = [line[:_MAX_LINE_CHARS] for line in text.splitlines()]
    counts = [sum(name in line for name in names) for line in map(str.casefold, lines)]
    best = max(range(len(lines)), key=counts.__getitem__, default=0)
    passage = _cut_around(lines, best, chars) if lines else ""
    named = sum(name in passage.casefold() for name in names)
    return _Passage(hit, lines, best, named, passage) if named and len(passage) >= _MIN_CHARS else None


def _cut_around(lines: Sequence[str], best: int, chars: int) -> str:
    """Return the lines around one, two after it for each before it, with a mark where more was."""
    first, last, room = best, best + 1, chars - len(lines[best])
    while first > 0 or last < len(lines):
        grows_back = first > 0 and (last >= len(lines) or 2 * (best - first) < last - best - 1)
        room -= len(lines[first - 1] if grows_back else lines[last]) + 1
        if room < 0:
            break
        first, last = (first - 1, last) if grows_back else (first, last + 1)
    start = [f"[{first:,} lines before]"] if first else []
    end = [f"[{len(lines) - last:,} lines after]"] if last < len(lines) else []
    return "\n".join([*start, *lines[first:last], *end])


def _is_visible(text: str, visible: set[str]) -> bool:
    lines = [line.strip() for line in text.splitlines()]
    telling = [line for line in lines if len(line) >= _MIN_LINE_CHARS and line[:1] != "["] or lines
    return sum(line in visible for line in telling) > _MAX_SHOWN_SHARE * len(telling)


def _describe(index: RecallIndex, log: ConversationLog, hit: RecallHit) -> str:
    """Return the line that names an original: its id, role, tools and files, and the later changes of the files."""
    role = recall_message(log, f"m{hit.seq}").role
    shown = dict.fromkeys(f"{note.tool} {note.path}".strip() for note in hit.notes[:2])
    touches = [touch for note in hit.notes[:2] if note.path for touch in index.find_file(log, note.path)]
    later = dict.fromkeys(f"m{touch.seq}" for touch in touches if _is_later_change(touch, hit))
    changed = f", CHANGED LATER in {', '.join(list(later)[-_MAX_LATER:])}" if later else ""
    return f"m{hit.seq} {role}{' ' if shown else ''}{', '.join(shown)}{changed}:"


def _is_later_change(touch: FileTouch, hit: RecallHit) -> bool:
    return touch.note.writes and touch.seq > hit.seq
