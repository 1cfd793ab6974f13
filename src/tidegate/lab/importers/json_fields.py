"""Read fields of unchecked JSON: a value of another type than wanted counts as empty, never as an error."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from tidegate.lab.importers.recording import JsonRecord
from tidegate.wire.parsing import repair_unicode

_MAX_SECONDS = 4102444800.0
"""Year 2100 in seconds: a larger number counts milliseconds, or smaller units still."""


def object_or_empty(value: object) -> JsonRecord:
    return value if isinstance(value, dict) else {}


def list_or_empty(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def string_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def list_objects(value: object) -> list[JsonRecord]:
    return [each for each in list_or_empty(value) if isinstance(each, dict)]


def collect_part_types(value: object) -> set[str]:
    """Return the types of the parts of a content, "" for a part without one."""
    return {string_or_empty(part.get("type")) for part in list_objects(value)}


def first_text(value: Mapping[str, object], *keys: str) -> str:
    """Return the text of the first of these keys that holds a non-empty one."""
    return next((text for key in keys if (text := string_or_empty(value.get(key)))), "")


def encode_recorded_json(value: object) -> str:
    return repair_unicode(json.dumps(value, ensure_ascii=False))


def parse_recorded_time(value: object) -> float:
    """Return a recorded time in Unix seconds, 0.0 if there is none. Reads ISO text and numbers from seconds to
    nanoseconds.
    """
    if isinstance(value, bool):
        return 0.0
    if isinstance(value, int | float):
        return _scale_to_seconds(value)
    if not isinstance(value, str) or len(value) > 64:
        return 0.0
    try:
        read = datetime.fromisoformat(value)
        return max(0.0, (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return _scale_to_seconds(int(value)) if value.isascii() and value.isdecimal() else 0.0


def _scale_to_seconds(value: float) -> float:
    for _ in range(4):
        if not 0 < value < 1e40:  # before the division, which an integer of many digits does not survive
            return 0.0
        if value < _MAX_SECONDS:
            return float(value)
        value = value / 1000
    return 0.0
