"""Usage reports of OpenAI chat."""

from collections.abc import Mapping
from typing import Final

from tidegate.core.usage import Usage
from tidegate.wire.usage import UsageForm, read_count, read_details


def _read(usage: Mapping[str, object]) -> Usage:
    details = read_details(usage, "prompt_tokens_details")
    cached, written = read_count(details, "cached_tokens"), read_count(details, "cache_write_tokens")
    return Usage(read_count(usage, "prompt_tokens"), read_count(usage, "completion_tokens"), cached, written)


CHAT_USAGE: Final = UsageForm(("prompt_tokens", "completion_tokens"), _read)
