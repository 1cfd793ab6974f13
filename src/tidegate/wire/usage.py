"""Reading a provider's usage report: four numbers under different names."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidegate.core.event_check import is_possible_count


class Usage(NamedTuple):
    """`input_tokens` counts all input, cached or not."""

    input_tokens: int
    output_tokens: int
    cache_read: int
    cache_write: int


USAGE_FIELDS: Final = (
    *("prompt_tokens", "completion_tokens"),  # OpenAI chat
    *("input_tokens", "output_tokens"),  # OpenAI Responses, Anthropic
    *("promptTokenCount", "candidatesTokenCount"),  # Gemini
)
_FURTHER_FIELDS: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")


def is_usage(usage: Mapping[str, object] | None) -> bool:
    """Whether this can be a usage report: it has a known field, or it is empty because nothing was counted."""
    return not usage or any(name in usage for name in (*USAGE_FIELDS, *_FURTHER_FIELDS))


def read_usage(usage: Mapping[str, object]) -> Usage:
    """Read the usage of OpenAI (chat, Responses), Anthropic or Gemini. A missing or impossible number is 0."""
    read = _read(usage)
    total, output, cached, written = read
    if cached + written <= total:
        return read
    cached = min(cached, total)  # cached input is part of the input
    return Usage(total, output, cached, min(written, total - cached))


def _read(usage: Mapping[str, object]) -> Usage:
    if "promptTokenCount" in usage:
        read = _number(usage, "promptTokenCount")
        return Usage(read, _number(usage, "candidatesTokenCount"), _number(usage, "cachedContentTokenCount"), 0)
    if "prompt_tokens" in usage:
        cached = _nested(usage, "prompt_tokens_details", "cached_tokens")
        return Usage(_number(usage, "prompt_tokens"), _number(usage, "completion_tokens"), cached, 0)
    read, written = _number(usage, "cache_read_input_tokens"), _number(usage, "cache_creation_input_tokens")
    total = _number(usage, "input_tokens") + read + written
    cached = read or _nested(usage, "input_tokens_details", "cached_tokens")
    return Usage(total, _number(usage, "output_tokens"), cached, written)


def _number(usage: Mapping[str, object], key: str) -> int:
    value = usage.get(key)
    return value if is_possible_count(value) else 0


def _nested(usage: Mapping[str, object], key: str, inner: str) -> int:
    value = usage.get(key)
    return _number(value, inner) if value and isinstance(value, Mapping) else 0
