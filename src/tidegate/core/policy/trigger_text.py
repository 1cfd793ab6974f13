"""Triggers in words: a clause with numbers and units that says whether a trigger holds."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

_COUNTED: Mapping[str, str] = {
    "turns": "the number of turns",
    "messages": "the number of messages",
    "tool_results": "the number of tool results",
    "tool_calls": "the number of tool calls",
    "recovery": "the number of recoveries of this request",
    "compacted": "the number of rules that have compacted in this run",
}
_RELATIONS: Mapping[str, tuple[str, str]] = {
    ">": ("is above the limit of", "is not above the limit of"),
    ">=": ("has reached the limit of", "has not reached the limit of"),
    "<": ("is below", "is not below"),
    "<=": ("is at most", "is more than"),
    "==": ("is", "is not"),
}
"""For each comparison, the words if it holds and if it does not."""


class TriggerSizes(NamedTuple):
    """The sizes, in tokens, that shares are shares of. `capacity` is the window without the reserve.

    `fill` is the used part of the room, by our own count or by the provider's report, whichever is more; `held_room` is
    the part of the room that is worth what reading it costs.
    """

    request: int
    capacity: int
    window: int | None
    history: int
    room: int
    fill: int
    held_room: int


def describe_trigger(metric: str, op: str, value: float, limit: float, holds: bool, sizes: TriggerSizes) -> str:
    """A clause about one trigger: the value of its metric, and how it compares with the limit."""
    if metric == "unlimited":
        return f"the size of the model's window is {'not ' * bool(value)}known"
    if metric == "cold":
        return f"the provider's cache has {'' if value else 'not '}expired"
    if metric == "new_turn":
        return f"the turn {'has just begun' if value else 'began before the last answer'}"
    relation = _RELATIONS[op][not holds]
    if metric in _COUNTED:
        return f"{_COUNTED[metric]} ({value:,.10g}) {relation} {limit:,.10g}"
    if metric in _SHARES:
        return f"{_SHARES[metric](sizes)}, {_percent(value)}) {relation} {_percent(limit)}"
    subject = "history" if metric == "history" else "request"
    return f"the {subject} ({value:,.0f} tokens) {relation} {limit:,.0f} tokens"


_SHARES: Mapping[str, Callable[[TriggerSizes], str]] = {
    "pressure": lambda sizes: f"the request ({sizes.request:,} of {sizes.capacity:,} usable tokens",
    "window_share": lambda sizes: f"the request ({sizes.request:,} of the {sizes.window or 0:,} tokens of the window",
    "history_share": lambda sizes: f"the history ({sizes.history:,} of {sizes.room:,} tokens",
    "fill": lambda sizes: f"the history ({sizes.fill:,} of {_describe_held_room(sizes)}",
}


def _describe_held_room(sizes: TriggerSizes) -> str:
    if sizes.held_room == sizes.room:
        return f"{sizes.room:,} tokens"
    return f"the {sizes.held_room:,} tokens that are worth holding at the model's prices"


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def make_sentence(*clauses: str) -> str:
    """The clauses that are not empty as one sentence, which begins with a capital letter and ends with a period."""
    text = "; ".join(clause.rstrip(".") if clause is not clauses[-1] else clause for clause in clauses if clause)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""
