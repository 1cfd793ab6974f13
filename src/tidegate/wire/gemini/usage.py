"""Gemini's usage reports."""

from collections.abc import Mapping
from typing import Final

from tidegate.core.usage import Usage
from tidegate.wire.usage import UsageForm, read_count


def _read(usage: Mapping[str, object]) -> Usage:
    # The total is the sum of four counts: thoughts and the input of Google's own tools are in no other one
    # (https://ai.google.dev/api/generate-content#UsageMetadata).
    read = read_count(usage, "promptTokenCount") + read_count(usage, "toolUsePromptTokenCount")
    output = read_count(usage, "candidatesTokenCount") + read_count(usage, "thoughtsTokenCount")
    return Usage(read, output, read_count(usage, "cachedContentTokenCount"), 0)


GEMINI_USAGE: Final = UsageForm(("promptTokenCount", "candidatesTokenCount"), _read)
