"""Reading a provider's usage report: the same few numbers under different names."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidegate.core.event_check import is_possible_count


class Usage(NamedTuple):
    """`input_tokens` counts all input, cached or not; `output_tokens` includes thinking.

    `cache_write_1h` is the part of `cache_write` that the provider keeps for an hour and charges more for.
    """

    input_tokens: int
    output_tokens: int
    cache_read: int
    cache_write: int
    cache_write_1h: int = 0


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
    """Read the usage of OpenAI (chat, Responses), Anthropic or Gemini. A missing or impossible number is 0.

    What a compaction by the provider cost is not in it: it says nothing about the size of the request.
    """
    total, output, cached, written, long = _read(usage)
    cached = min(cached, total)  # cached input is part of the input
    written = min(written, total - cached)
    return Usage(total, output, cached, written, min(long, written))


def read_compaction_usage(usage: Mapping[str, object]) -> Usage | None:
    """Read what Anthropic's compaction cost; None if there was none.

    The numbers at the top leave compactions out; each is an entry of `iterations`
    (https://platform.claude.com/docs/en/build-with-claude/compaction-threshold).
    """
    entries = usage.get("iterations")
    if not isinstance(entries, list):
        return None
    compactions = [each for each in entries if isinstance(each, Mapping) and each.get("type") == "compaction"]
    if not compactions:
        return None
    return Usage(*(sum(numbers) for numbers in zip(*map(read_usage, compactions), strict=True)))


def _read(usage: Mapping[str, object]) -> Usage:
    if "promptTokenCount" in usage:
        # The total is the sum of four counts: thoughts and the input of Google's own tools are in no other one
        # (https://ai.google.dev/api/generate-content#UsageMetadata).
        read = _number(usage, "promptTokenCount") + _number(usage, "toolUsePromptTokenCount")
        output = _number(usage, "candidatesTokenCount") + _number(usage, "thoughtsTokenCount")
        return Usage(read, output, _number(usage, "cachedContentTokenCount"), 0)
    if "prompt_tokens" in usage:
        details = _object(usage, "prompt_tokens_details")
        cached, written = _number(details, "cached_tokens"), _number(details, "cache_write_tokens")
        return Usage(_number(usage, "prompt_tokens"), _number(usage, "completion_tokens"), cached, written)
    # OpenAI's counts of the cache are part of `input_tokens`; Anthropic's are not.
    details = _object(usage, "input_tokens_details")
    read, written = _number(usage, "cache_read_input_tokens"), _number(usage, "cache_creation_input_tokens")
    total = _number(usage, "input_tokens") + read + written
    long = _number(_object(usage, "cache_creation"), "ephemeral_1h_input_tokens")
    read, written = read or _number(details, "cached_tokens"), written or _number(details, "cache_write_tokens")
    return Usage(total, _number(usage, "output_tokens"), read, written, long)


def _number(usage: Mapping[str, object], key: str) -> int:
    value = usage.get(key)
    return value if is_possible_count(value) else 0


def _object(usage: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = usage.get(key)
    return value if isinstance(value, Mapping) else {}
