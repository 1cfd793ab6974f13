"""Looking into JSON that nobody has checked: what is not of the wanted kind is empty, never an error."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from tidegate.lab.importers.recording import Json
from tidegate.wire.reading import clean

_LATEST = 4102444800.0
"""Year 2100 in seconds: a larger number counts milliseconds, or smaller units still."""


def a_dict(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def a_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def a_str(value: object) -> str:
    return value if isinstance(value, str) else ""


def dicts(value: object) -> list[Json]:
    return [each for each in a_list(value) if isinstance(each, dict)]


def kinds_of(value: object) -> set[str]:
    """The types of the parts of a content; empty for a part that has none."""
    return {a_str(part.get("type")) for part in dicts(value)}


def text_at(value: Mapping[str, object], *keys: str) -> str:
    """The first of these keys that holds a text with something in it."""
    return next((found for key in keys if (found := a_str(value.get(key)))), "")


def json_text(value: object) -> str:
    return clean(json.dumps(value, ensure_ascii=False))


def time_of(value: object) -> float:
    """A recorded time in Unix seconds: ISO text, or a number of seconds, milliseconds, ... nanoseconds. 0.0 if none."""
    if isinstance(value, bool):
        return 0.0
    if isinstance(value, int | float):
        return _seconds(value)
    if not isinstance(value, str) or len(value) > 64:
        return 0.0
    try:
        read = datetime.fromisoformat(value)
        return max(0.0, (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return _seconds(int(value)) if value.isascii() and value.isdecimal() else 0.0


def _seconds(value: float) -> float:
    for _ in range(4):
        if not 0 < value < 1e40:  # before the division, which an integer of many digits does not survive
            return 0.0
        if value < _LATEST:
            return float(value)
        value = value / 1000
    return 0.0
