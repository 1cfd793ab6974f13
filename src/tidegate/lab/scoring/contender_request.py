"""What a contender gives for each assistant message of a recording."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_Json = dict[str, Any]


class SummaryUsage(NamedTuple):
    """What one call to a model for a summary would have read and written."""

    input_tokens: float
    output_tokens: float


class ContenderRequest(NamedTuple):
    """One request: `at` is the place of the assistant message it asks for. Refused: no messages but an error.

    `cpu` is what preparing it took, in seconds; `summaries` what a model would have been asked for meanwhile. `recall`
    gives what a recall call that the request prints would give back; a contender that has none leaves it out.
    `mended`: the contender's own request was cut, not by it, because no provider would have taken it.
    """

    message_index: int
    messages: Sequence[_Json]
    error: str = ""
    cpu_seconds: float = 0.0
    summaries: tuple[SummaryUsage, ...] = ()
    recall: Callable[[str], str] | None = None
    was_guarded: bool = False
