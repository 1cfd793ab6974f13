"""Admission: limit new tool results before the model sees them. The log keeps the whole result."""

from collections.abc import Callable
from typing import NamedTuple

from tidegate.core.budget import Budget
from tidegate.core.config.values import Share
from tidegate.core.edits import Edit, Replace
from tidegate.core.messages import Image, Part, Result, Text, result_of, text_of
from tidegate.core.outcome import NO_OUTCOME, Effect, Outcome, make_spill
from tidegate.core.text.clip import ClipMode, ClippedText, clip_bytes, clip_chars, clip_lines, clip_tokens
from tidegate.core.text.json_shrink import cut_json_array
from tidegate.core.text.plural import format_count
from tidegate.core.turns import tool_names_by_call
from tidegate.core.view import Item, View

_TRUNCATION_NOTICE = (
    "RESULT TRUNCATED: showing {shown} of {total} {unit} from {tool}. The full result was too large for the context.\n"
    "To see more: recall {ident}, use a narrower pattern or filter, search for one name or keyword instead of listing"
    " everything, or ask the user to narrow the request.\n"
    "Do NOT guess or invent results that are not shown above."
)
_MAX_NOTICE_CHARS = 1_000
"""Texts of a tool after an array, up to this length, are its notices about it and stay."""


def _new_results(view: View) -> list[Item]:
    """Tool results the model has not seen yet and no edit has touched."""
    return [item for item in view.items_since_reply() if item.message.role == "tool" and not item.edited]


class _Limits(NamedTuple):
    lines: int
    chars: int
    bytes: int
    tokens: int
    mode: ClipMode


def cap_result(
    view: View,
    budget: Budget,
    *,
    lines: int = 0,
    chars: int = 0,
    bytes: int = 0,  # noqa: A002 - the settings are named alike: lines, chars, bytes, tokens
    tokens: int = 0,
    share: Share = 0.0,
    mode: ClipMode = "head_tail",
    json_arrays: bool = False,
) -> Outcome:
    """Limit each new tool result, also errors: by lines, then characters, bytes, and tokens (or a share of the room).

    With `json_arrays` a JSON array keeps its first items and stays valid JSON. The notice is a separate part, so that
    it is not mixed with the content.
    """
    if share:
        tokens = min(tokens or budget.room, max(1, int(budget.room * share)))
    limits = _Limits(lines, chars, bytes, tokens, mode)
    edits: list[Edit] = []
    # The tokens of a message are those of its text and a few more, so most results need not be counted again.
    large = [item for item in _new_results(view) if lines or chars or bytes or item.tokens > tokens]
    calls_and_results = view.items[-1 - len(view.items_since_reply()) :]
    names = tool_names_by_call(calls_and_results) if large else {}
    for item in large:
        result = result_of(item.message)
        if result is None:
            continue
        tool = names.get(result.call_id, "the tool")
        parts = _limit_result(item, result, limits, budget, tool, json_arrays)
        if parts is not None:
            edits.append(Replace(item.message.id, (Result(result.call_id, parts, result.error),)))
    if not edits:
        return NO_OUTCOME
    part = f" ({share:.0%} of the room of {budget.room:,})" if share else ""
    limit = f" of {tokens:,} tokens{part}" if tokens else ""
    return Outcome(tuple(edits), why=f"{format_count(len(edits), 'new result')} over the limit{limit}")


def _limit_result(
    item: Item, result: Result, limits: _Limits, budget: Budget, tool: str, json_arrays: bool
) -> tuple[Text | Image, ...] | None:
    """The shortened parts of a result, or None if it is within the limits."""
    text = text_of(item.message)
    images = tuple(part for part in result.parts if isinstance(part, Image))
    if json_arrays and limits.tokens and budget.counter.count_text(text) > limits.tokens:
        first, *others = [part for part in result.parts if isinstance(part, Text)]
        are_notices = sum(len(part.text) for part in others) <= _MAX_NOTICE_CHARS
        source = first.text if are_notices else text
        cut = cut_json_array(source, lambda some: budget.counter.count_text(some) <= limits.tokens)
        if cut is not None:
            notice = _TRUNCATION_NOTICE.format(
                shown=cut.shown, total=cut.total, unit="results", tool=tool, ident=item.message.id
            )
            return (Text(cut.text), Text(notice), *others, *images)
    clip, exceeded, left_out = _clip(text, limits, budget)
    if not exceeded:
        return None
    if json_arrays:
        whole, total, unit = _count_shown(text, max(0, len(text) - left_out), limits.mode)
        notice = _TRUNCATION_NOTICE.format(shown=whole, total=total, unit=unit, tool=tool, ident=item.message.id)
    else:
        notice = (
            f"[truncated by {' and '.join(exceeded)}: {text.count(chr(10)) + 1:,} lines, {len(text):,} characters;"
            f" recall {item.message.id} has all of it]"
        )
    return (Text(clip), Text(notice), *images)


class _Shown(NamedTuple):
    shown: int
    total: int
    unit: str


def _count_shown(text: str, chars: int, mode: ClipMode) -> _Shown:
    """How much of a text is shown, if `chars` characters are: the lines that are whole, or else the characters."""
    lines = text.count("\n", 0, chars) if mode == "head" else 0
    if not lines:
        return _Shown(chars, len(text), "characters")
    return _Shown(lines, text.count("\n") + (not text.endswith("\n")), "lines")


class _Clipped(NamedTuple):
    """A text within all limits, the limits it exceeded, and the number of characters left out."""

    text: str
    exceeded: list[str]
    left_out: int


def _clip(text: str, limits: _Limits, budget: Budget) -> _Clipped:
    steps: list[tuple[str, int, Callable[[str], ClippedText]]] = [
        ("lines", limits.lines, lambda t: clip_lines(t, limits.lines, mode=limits.mode)),
        ("characters", limits.chars, lambda t: clip_chars(t, limits.chars, mode=limits.mode)),
        ("bytes", limits.bytes, lambda t: clip_bytes(t, limits.bytes, mode=limits.mode)),
        ("tokens", limits.tokens, lambda t: clip_tokens(t, limits.tokens, budget.counter, mode=limits.mode)),
    ]
    exceeded: list[str] = []
    left_out = 0
    for name, limit, cut in steps:
        if limit:
            clip = cut(text)
            if clip.cut:
                text = clip.text
                exceeded.append(name)
                left_out += clip.chars_left_out
    return _Clipped(text, exceeded, left_out)


def spill_result(
    view: View,
    budget: Budget,
    *,
    tokens: int = 0,
    chars: int = 0,
    folder: str = "large_tool_results",
    preview_lines: int = 10,
    preview_chars: int = 2000,
) -> Outcome:
    """Move a new result that is too large to a file of the session. A preview and the file's name stay in the view."""
    edits: list[Edit] = []
    effects: list[Effect] = []
    for item in _new_results(view):
        result = result_of(item.message)
        text = text_of(item.message)
        if result is None or not _is_too_large(text, tokens, chars, budget):
            continue
        effect = make_spill(f"{folder}/{item.message.id}", text)
        preview = clip_chars(clip_lines(text, preview_lines).text, preview_chars).text if preview_lines else ""
        notice = (
            f"[Result too large for the context: {len(text):,} characters, {text.count(chr(10)) + 1:,} lines."
            f" Saved to {effect.path} (SHA-256 {effect.sha256}). Read that file in parts, or recall {item.message.id}.]"
        )
        parts: tuple[Text, ...] = (Text(preview), Text(notice)) if preview else (Text(notice),)
        edits.append(Replace(item.message.id, _result(result, parts)))
        effects.append(effect)
    return (
        Outcome(tuple(edits), effects=tuple(effects), why=f"{format_count(len(edits), 'result')} too large")
        if edits
        else NO_OUTCOME
    )


def _is_too_large(text: str, tokens: int, chars: int, budget: Budget) -> bool:
    if chars and len(text) > chars:
        return True
    return bool(tokens) and len(text) > tokens and budget.counter.count_text(text) > tokens


def _result(result: Result, parts: tuple[Text, ...]) -> tuple[Part, ...]:
    return (Result(result.call_id, parts, result.error),)
