"""A provider's usage report as numbers: the same few under different names."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidegate.core.event_check import MAX_TOKEN_COUNT
from tidegate.core.usage import Usage


class UsageForm(NamedTuple):
    """How a dialect reports usage. A report with the first of its `fields` is read by it.

    `further_fields` are those of a report that may lack the others. `read_compaction` gives what a compaction by the
    provider cost, which is not in what `read` gives; None if there was none, or if it has no compactions.
    """

    fields: tuple[str, ...]
    read: Callable[[Mapping[str, object]], Usage]
    further_fields: tuple[str, ...] = ()
    read_compaction: Callable[[Mapping[str, object]], Usage | None] | None = None


def read_count(usage: Mapping[str, object], key: str) -> int:
    value = usage.get(key)
    return value if type(value) is int and 0 <= value <= MAX_TOKEN_COUNT else 0


def read_details(usage: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = usage.get(key)
    return value if isinstance(value, Mapping) else {}


def _read_input_usage(usage: Mapping[str, object]) -> Usage:
    """Read a report of OpenAI Responses or Anthropic, which use the same names.

    OpenAI's counts of the cache are part of `input_tokens`; Anthropic's are not.
    """
    details = read_details(usage, "input_tokens_details")
    read, cache_write = read_count(usage, "cache_read_input_tokens"), read_count(usage, "cache_creation_input_tokens")
    total = read_count(usage, "input_tokens") + read + cache_write
    long = read_count(read_details(usage, "cache_creation"), "ephemeral_1h_input_tokens")
    read, cache_write = (
        read or read_count(details, "cached_tokens"),
        cache_write or read_count(details, "cache_write_tokens"),
    )
    return Usage(total, read_count(usage, "output_tokens"), read, cache_write, long)


INPUT_USAGE: Final = UsageForm(("input_tokens", "output_tokens"), _read_input_usage)


def bound_usage(usage: Usage) -> Usage:
    """Cached input is part of the input, and so is what was written to the cache."""
    cached = min(usage.cache_read, usage.input_tokens)
    cache_write = min(usage.cache_write, usage.input_tokens - cached)
    return usage._replace(
        cache_read=cached, cache_write=cache_write, cache_write_1h=min(usage.cache_write_1h, cache_write)
    )
