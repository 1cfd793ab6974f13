"""Recall pointers: ranges of ids (`m2..m59`) in summaries and notes, which `recall` accepts.

A summary or note names the range of the messages it replaces. When it is replaced itself, its range is merged into the
new one, so the newest summary always leads to every message. A range may include messages that are still shown; a list
of ids would be longer.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tidegate.core.budget import Budget
from tidegate.core.edits import Drop, Edit, EditIndex, Insert
from tidegate.core.messages import NOTE, SUMMARY, Message, Part, calls_of, text_of, user_message
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.view import View

_SAID: Final = LazyPattern(r"\[recall m(\d{1,15})\.\.m(\d{1,15}) has what was said\]")
_HIDDEN: Final = LazyPattern(r"\[recall m(\d{1,15})\.\.m(\d{1,15}) has what is not shown\]")


class RecallRange(NamedTuple):
    """The seqs of the first and the last message."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"m{self.first}..m{self.last}"


def recall_range_of(messages: Iterable[Message]) -> RecallRange | None:
    """The range of these messages, including the ranges that summaries and notes among them name."""
    places = [place for message in messages for place in _places(message)]
    return RecallRange(min(places), max(places)) if places else None


def _places(message: Message) -> Iterator[int]:
    if message.id[:1] == "m" and message.id[1:].isdecimal():
        yield int(message.id[1:])
    elif message.kind in (SUMMARY, NOTE):
        form = _SAID if message.kind == SUMMARY else _HIDDEN
        for line in text_of(message).split("\n"):
            match = form.fullmatch(line)
            if match:
                yield from (int(match[1]), int(match[2]))


def make_recall_line(messages: Iterable[Message]) -> str:
    """The line below a summary that names the range of its messages; empty if none of them is in the log."""
    span = recall_range_of(messages)
    return f"\n[recall {span} has what was said]" if span else ""


def strip_recall_line(text: str) -> str:
    """A summary without its recall line, which is made again for the next summary."""
    return "\n".join(line for line in text.split("\n") if not _SAID.fullmatch(line))


# --- texts for a model that has no tool to recall --------------------------------------------------------------------

_TARGET: Final = r"[me]\d+(?:\.\d+)?(?:\.\.[me]?\d+)?"
_WITHOUT_TOOL: Final = (
    (LazyPattern(r" recall shows what was said, by an id \(m4\), a range \(m2\.\.m59\) or words\]"), "]"),
    (LazyPattern(r"\(data; recall shows it by id\)"), "(data)"),
    (LazyPattern(r"^- recall .* has all that was said there, shown here or not\n?", re.M), ""),
    (LazyPattern(rf"\[recall {_TARGET} has what (?:was said|is not shown)\]"), "[Earlier messages are not shown.]"),
    (LazyPattern(r"^\[Left the view, and can be had back: "), "[Left the view: "),
    (LazyPattern(rf"To see more: recall {_TARGET}, use"), "To see more: use"),
    (LazyPattern(rf"\n?\[recall {_TARGET} has all of it\]"), ""),
    (LazyPattern(rf"(?:[;:] |, or | or |\b)recall {_TARGET}(?: has all of it)?"), ""),
)


def omit_recall_pointers(text: str) -> str:
    """A text of the engine for a model that cannot recall: what was left out is still named, but not how to read it."""
    if "recall" not in text:
        return text
    for pattern, instead in _WITHOUT_TOOL:
        text = pattern.sub(instead, text)
    return text if text.strip() else "[shortened]"


_POINTER: Final = LazyPattern(rf"\brecall(?= (?:{_TARGET}|shows (?:what was said|it by id)))")


def rename_recall_pointers(text: str, name: str) -> str:
    """A text of the engine for a model that has the tool under another name."""
    return _POINTER.sub(lambda _: name, text)


# --- the note, if no summary or ledger names the range ----------------------------------------------------------------


def is_recall_note(message: Message) -> bool:
    return message.kind == NOTE and _HIDDEN.fullmatch(text_of(message)) is not None


def count_recall_note(budget: Budget) -> int:
    """The largest size of a recall note, in tokens."""
    return budget.count(_note(10**6))


def add_recall_note(view: View, edits: Sequence[Edit], budget: Budget, spare: int) -> tuple[Edit, ...]:
    """The edits with a note that names what they hide, if it costs at most `spare` tokens. It replaces an older note.

    Its range begins with the first message, so it includes everything that there was no room to name earlier.
    """
    changes = EditIndex(edits)
    silent = {ident for ident, edit in changes.replaced.items() if f"recall {ident}" not in _readable(edit.parts)}
    messages = [item.message for item in view.items]
    old = [message for message in messages if is_recall_note(message)]
    recall_range = recall_range_of(
        [*(each for each in messages if each.id in changes.dropped or each.id in silent), *old]
    )
    if recall_range is None or any(recall_range_of([insert.message]) for insert in changes.inserts):
        return tuple(edits)
    note = _note(recall_range.last)
    leaving = [message for message in old if message.id not in changes.dropped]
    tokens = budget.count(note)
    if tokens - sum(map(budget.count, leaving)) > spare:
        return tuple(edits)
    drop: tuple[Edit, ...] = (Drop(tuple(message.id for message in leaving)),) if leaving else ()
    return (*edits, *drop, Insert(note, "", tokens))


def _note(last: int) -> Message:
    return user_message(f"[recall {RecallRange(1, last)} has what is not shown]", NOTE)


def _readable(parts: tuple[Part, ...]) -> str:
    message = Message("assistant", parts)
    return "\n".join([text_of(message), *(call.arguments for call in calls_of(message))])
