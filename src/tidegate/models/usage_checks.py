"""Detects servers that truncate prompts silently or report no usage.

A report below our count has harmless reasons, and false alarms would be ignored when it matters. The model may count
differently, above all images: then the reports grow with the prompts. Or the server reports only uncached input: then a
report is about as large as what was added. A truncated prompt shows when the reports stay the same while the prompts
grow, or when the server once read more of a shorter prompt.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

_MIN_LOW_REPORTS: Final = 3
"""One odd report is an accident; this many in a row are a pattern."""
_MIN_EMPTY_REPORTS: Final = 2
MAX_USAGE_REPORTS: Final = 16
_MIN_COUNTED_TOKENS: Final = 256
"""Below this many tokens the framing of messages is too large a part of the count."""
_LOW_SHARE: Final = 0.7
"""A report below this fraction of the expected count is low."""
_LOW_SHARE_WITHOUT_HISTORY: Final = 0.5
"""The same while there are no earlier reports."""
_IMPOSSIBLE_SHARE: Final = 0.25
"""A report below this fraction of the count is impossible: no two vocabularies differ by a factor of four."""
_MIN_SLOPE: Final = 0.15
"""Reports that grow by at least this fraction of the growth of the prompts follow them."""
_MIN_GROWTH: Final = 1.4
"""Prompts that differ by less than this factor prove little, because reports vary, too."""


class UsageReport(NamedTuple):
    """Our count of a request, and the provider's count of all input, cached or not."""

    counted: int
    reported: int

    @property
    def ratio(self) -> float:
        return self.reported / self.counted


def find_usage_problem(count: int, reported: int, history: Sequence[UsageReport] = ()) -> str | None:
    """Return the warning for the user, or None. `history` are the earlier reports of the same model, oldest first."""
    reports = [*history[-MAX_USAGE_REPORTS:], UsageReport(count, reported)]
    if len(reports) >= _MIN_EMPTY_REPORTS and all(each.reported <= 0 for each in reports[-_MIN_EMPTY_REPORTS:]):
        return (
            "The server reports no token usage: sizes are counted here, and neither the cost nor a prompt that it cut "
            "can be seen."
        )
    if reported <= 0 or count < _MIN_COUNTED_TOKENS:
        return None
    if not _is_truncated([each for each in reports if each.counted >= _MIN_COUNTED_TOKENS and each.reported > 0]):
        return None
    return (
        f"The server says it read {reported:,} of about {count:,} tokens that were sent, and so it was before: "
        "it seems to cut the prompt without a word. Load the model with a larger context (Ollama: num_ctx or "
        "OLLAMA_CONTEXT_LENGTH), or set the window to what is loaded."
    )


def _is_truncated(reports: list[UsageReport]) -> bool:
    whole = [each for each in reports[:-_MIN_LOW_REPORTS] if each.ratio >= _LOW_SHARE_WITHOUT_HISTORY]
    bar = _LOW_SHARE * median(each.ratio for each in whole) if whole else _LOW_SHARE_WITHOUT_HISTORY
    start = len(reports)
    while start > 0 and reports[start - 1].ratio < bar:
        start -= 1
    low = reports[start:]
    if (
        len(low) < _MIN_LOW_REPORTS
        or _reports_follow_prompts(low)
        or _reports_only_new_tokens(reports[max(start - 1, 0) :])
    ):
        return False
    shortest, longest = min(each.counted for each in low), max(each.counted for each in low)
    read_more = any(each.reported >= max(low, key=_get_reported).reported and each.counted < shortest for each in whole)
    return read_more or longest >= _MIN_GROWTH * shortest or all(each.ratio < _IMPOSSIBLE_SHARE for each in low)


def _get_reported(report: UsageReport) -> int:
    return report.reported


def _reports_follow_prompts(low: list[UsageReport]) -> bool:
    """Return whether the reports grow with the prompts, by the slope of the line through them."""
    middle = sum(each.counted for each in low) / len(low)
    spread = sum((each.counted - middle) ** 2 for each in low)
    together = sum((each.counted - middle) * each.reported for each in low)
    return spread > 0 and together / spread >= _MIN_SLOPE


def _reports_only_new_tokens(reports: list[UsageReport]) -> bool:
    """Return whether each report is about the size of what was added; the rest then came from a cache.

    Most reports are near that size or, as the count may be off by a factor, nearer to it than to each other.
    """
    growth = [abs(now.counted - before.counted) for before, now in pairwise(reports)]
    reported_sizes = [now.reported for now in reports[1:]]
    near = [0.65 * new - 32 <= one <= 1.5 * new + 32 for one, new in zip(reported_sizes, growth, strict=True)]
    if 2 * sum(near) > len(near):
        return True
    factor = min(max(sum(reported_sizes) / max(sum(growth), 1), 0.5), 2.0)
    off = sum(abs(one - factor * new) for one, new in zip(reported_sizes, growth, strict=True))
    apart = sum(abs(one - median(reported_sizes)) for one in reported_sizes)
    return off <= apart + _MIN_COUNTED_TOKENS // 4 * len(reported_sizes)
