"""Anthropic's usage reports."""

from collections.abc import Mapping
from typing import Final

from tidegate.core.usage import Usage
from tidegate.wire.usage import INPUT_USAGE, bound_usage


def _read_compaction(usage: Mapping[str, object]) -> Usage | None:
    """Read what a compaction cost; None if there was none.

    The numbers at the top leave compactions out; each is an entry of `iterations`
    (https://platform.claude.com/docs/en/build-with-claude/compaction-threshold).
    """
    entries = usage.get("iterations")
    if not isinstance(entries, list):
        return None
    compactions = [each for each in entries if isinstance(each, Mapping) and each.get("type") == "compaction"]
    if not compactions:
        return None
    return Usage(*(sum(numbers) for numbers in zip(*map(_read_iteration, compactions), strict=True)))


def _read_iteration(usage: Mapping[str, object]) -> Usage:
    return bound_usage(INPUT_USAGE.read(usage))


ANTHROPIC_USAGE: Final = INPUT_USAGE._replace(
    further_fields=("cache_read_input_tokens", "cache_creation_input_tokens"), read_compaction=_read_compaction
)
