"""A much smaller request, tried once after a large one was refused with words that are not known.

The words of providers are never all known. If the smaller request is accepted, the refusal was about the length, and
its words are remembered for the upstream (`models/window_evidence.py`). If not, the view is restored and the caller
gets the first refusal unchanged. The gateway and all hosts decide by these rules; they differ in how they send.
"""

from typing import Final, NamedTuple

from tidegate.core.budget import MIN_ROOM, Budget
from tidegate.models.errors.classification import ProviderError

CEILING_SHARE: Final = 0.85
"""Of a request that was refused without a number, for the first smaller one."""
TRIED_SHARE: Final = 0.4
"""Of a request that was refused with unknown words, for the smaller one that is tried."""
_UNCLEAR_STATUSES: Final = frozenset((400, 413, 422))
_LARGE_SHARE: Final = 0.6
_LEAST_HISTORY: Final = 4 * MIN_ROOM


class SmallerTry(NamedTuple):
    """What is known of a much smaller request: the words of the refusal, the size that was refused, and its edits."""

    words: str
    refused_tokens: int
    edits: int


def may_mean_length(status: int | None, error: ProviderError, shrunk: int) -> bool:
    """Whether a refusal may be about the length, although it does not say so in words that are known and believed.

    `shrunk` is how often the request was made smaller already. A refusal that names a window is asked here only if the
    window is not believed.
    """
    if error.kind == "overflow":
        return bool(error.window) and not shrunk
    is_unknown = error.kind == "bytes" or (error.kind == "unknown" and not error.is_certain)
    return status in _UNCLEAR_STATUSES and is_unknown


def is_large(tokens: int, window: int | None, largest_accepted: int) -> bool:
    """Whether a refused request is so large that its length may be the reason."""
    return (window is not None and tokens > _LARGE_SHARE * window) or tokens > largest_accepted


def find_smaller_window(budget: Budget, refused_tokens: int, share: float) -> int | None:
    """The window in which requests have at most this share of a refused one, in tokens.

    It leaves room for a history beside the system prompt and the tools; None if that is not a smaller request.
    """
    size = max(int(refused_tokens * share), int((budget.fixed + _LEAST_HISTORY) * budget.scale))
    return size + min(budget.reserve, size // 3) if size < refused_tokens else None
