"""Tokens of a view by category, updated as the view is folded: linear in the length of the log."""

from collections.abc import Sequence
from typing import Final

from tidegate.core.tokens.counting import REQUEST_OVERHEAD
from tidegate.core.view import View
from tidegate.session.reports.window_usage import categorize_message

CHART_CATEGORIES: Final = tuple("framing system tools rules ledger summaries notes user assistant results".split())
"""In the order of the chart, from the bottom up: the categories that change least come first. Skills and memory are
part of the system prompt: a log does not tell them apart."""


class CategoryCounter:
    """Our own token count of each category, in the order of `CHART_CATEGORIES`."""

    def __init__(self) -> None:
        self._counts = [0] * len(CHART_CATEGORIES)
        self._counted_items = 0
        self._epoch = -1

    def count_view(self, view: View) -> list[int]:
        if view.prefix_seq != self._epoch or len(view.items) < self._counted_items:
            self._counts, self._counted_items, self._epoch = [0] * len(CHART_CATEGORIES), 0, view.prefix_seq
        for item in view.items[self._counted_items :]:
            self._counts[CHART_CATEGORIES.index(categorize_message(item.message))] += item.tokens
        self._counted_items = len(view.items)
        counts = list(self._counts)
        counts[0] += REQUEST_OVERHEAD
        counts[1] += view.system_tokens
        counts[2] += view.tools_tokens
        return counts


def scale_counts(counts: Sequence[int], total: int) -> list[int]:
    """Scale the counts to this sum, in whole tokens: the largest remainders are rounded up."""
    whole = sum(counts)
    if not whole:
        return list(counts)
    parts = [divmod(count * total, whole) for count in counts]
    short = total - sum(part for part, _ in parts)
    for place in sorted(range(len(parts)), key=lambda each: -parts[each][1])[:short]:
        parts[place] = (parts[place][0] + 1, 0)
    return [part for part, _ in parts]
