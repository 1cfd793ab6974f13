"""One row of the rule tables: a request that must be refused, the words of the refusal, and its legal twin."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tidegate.wire.validation.faults import STRICT_PROFILE, RequestFault, ValidationProfile

Body = dict[str, Any]


class Case(NamedTuple):
    """The two requests, or functions that make them: those of many megabytes are made when they are needed."""

    rule: str
    phrase: str  # what the provider says
    bad_source: Any
    good_source: Any
    check: Callable[[object, ValidationProfile], list[RequestFault]]
    profile: ValidationProfile = STRICT_PROFILE

    @property
    def bad(self) -> Any:
        return self.bad_source() if callable(self.bad_source) else self.bad_source

    @property
    def good(self) -> Any:
        return self.good_source() if callable(self.good_source) else self.good_source

    @property
    def name(self) -> str:
        return f"{self.rule}-{self.phrase[:40]}"


GONE = object()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside, the whole included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: object) -> Any:
    """A copy with another value at the path, or without it (GONE)."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is GONE:
        del copy[path[0]]
    else:
        copy[path[0]] = new if len(path) == 1 else replaced(value[path[0]], path[1:], new)
    return copy
