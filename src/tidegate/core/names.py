"""The names in what leaves a view, ranked by how likely they are to be needed again for what they cost.

What the agent itself put into its calls is named again most often, then what the user named; of what tools printed it
is the paths. A name that came often, or lately, comes again. Weights fitted to recorded sessions did no better at the
ledger's size on sessions they were not fitted to, so these are round.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tidegate.core.facts import Fact, Kind, facts_in
from tidegate.core.messages import Call, Message, calls_of, is_request, result_of, text_of
from tidegate.core.targets import arguments_of, strings

_KIND: Final[dict[Kind, float]] = {
    "path": 1.0, "file": 0.9, "url": 0.7, "email": 0.6, "uuid": 0.6, "hash": 0.5, "id": 0.4, "name": 0.35,
    "quoted": 0.3, "number": 0.12, "version": 0.1,
}  # fmt: skip
_DOTTED: Final = 0.7
_CALL: Final = 3.0
_USER: Final = 2.5
_AGENT: Final = 1.0
_TOOL: Final = 0.5
_AGE: Final = 0.4  # how much less the first message's names are worth than the last one's
_CHANGE: Final = re.compile(r"edit|writ|patch|creat|replac|insert|save|updat|append|delet|remov|mov|renam", re.I)
_QUIET: Final = frozenset({"workdir", "cwd", "description", "timeout", "explanation"})
_ARGUMENT: Final = 1_000  # read of each argument: names stand in front, the rest is content
_TARGET: Final = 300
_READ: Final = 12_000
_LINE: Final = re.compile(r":\d+.*$")
_PATHS: Final = ("path", "file")
_IN_CODE: Final = re.compile(r"[{}$\\]|//nolint|^recall ")


class Name(NamedTuple):
    """`what`: changed, read or named. `ident` is the message in which a file was last changed or read."""

    what: str
    text: str
    ident: str
    weight: float


class _Tally:
    __slots__ = ("fact", "ident", "last", "sum", "value", "what")

    def __init__(self, fact: Fact, value: str) -> None:
        self.fact, self.value = fact, value
        self.sum = 0.0
        self.last = 0
        self.ident = ""
        self.what = "named"


class _Names:
    def __init__(self) -> None:
        self.found: dict[str, _Tally] = {}

    def take(self, facts: Iterable[Fact], source: float, order: int, ident: str, what: str = "named") -> None:
        for fact in facts:
            kind, value, context = fact
            is_path = kind in _PATHS
            if is_path and ":" in value[2:]:  # without the line it was found at
                value = value[:2] + _LINE.sub("", value[2:]).rstrip(":")
            elif kind == "number" and (len(value) < 4 or (source == _TOOL and not context)):
                continue  # short numbers are mostly those of lines, and no names
            elif kind == "quoted" and _IN_CODE.search(value):
                continue
            tally = self.found.get(value)
            if tally is None:
                tally = self.found[value] = _Tally(fact, value)
            tally.sum += source
            tally.last = order
            if is_path and what != "named":
                tally.ident = ident
                tally.what = "changed" if tally.what == "changed" else what


def names_in(messages: Sequence[Message]) -> list[Name]:
    """Each name of these messages once, the best first."""
    names = _Names()
    for order, message in enumerate(messages):
        source = _TOOL if result_of(message) is not None else _USER if is_request(message) else _AGENT
        names.take(facts_in(text_of(message), _READ), source, order, message.id)
        for call in calls_of(message):
            what = "changed" if _CHANGE.search(call.name) else "read"
            for value in _values(call):
                about = what if len(value) < _TARGET else "named"
                names.take(facts_in(value[:_ARGUMENT]), _CALL, order, message.id, about)
    total = max(1, len(messages))
    found = [_name(tally, total) for tally in names.found.values()]
    return sorted(found, key=lambda name: (-name.weight, name.text))


def _values(call: Call) -> Iterator[str]:
    return (value for key, value in strings(arguments_of(call)) if key not in _QUIET)


def _name(tally: _Tally, total: int) -> Name:
    kind, _, context = tally.fact
    text = tally.value
    weight = _DOTTED if kind == "name" and "." in text else _KIND[kind]
    worth = weight * math.log2(1 + tally.sum) * (1 - _AGE + _AGE * tally.last / total)
    if context and kind in ("number", "id"):
        text = f"{context} {text}"
    return Name(tally.what, text, tally.ident, worth / (len(text) / 4 + (2.5 if tally.ident else 1.0)))
