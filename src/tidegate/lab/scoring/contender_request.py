"""The request that a contender makes for an assistant message of a recording."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_Json = dict[str, Any]


class SummaryUsage(NamedTuple):
    """The tokens that one model call for a summary would have read and written."""

    input_tokens: float
    output_tokens: float


class NoteUsage(NamedTuple):
    """What writing a note costs: the request that the provider has in its cache, the instruction, and the answer."""

    cached_tokens: int
    new_tokens: int
    output_tokens: int


class ContenderRequest(NamedTuple):
    """The request for the assistant message at `message_index`. A failed request has an error and no messages.

    `cpu_seconds` is what preparing it took; `summaries` are the model calls for summaries it needed. `recall` returns
    what a recall call printed in the request would return; contenders without recall leave it out. `was_guarded`: the
    guard cut the contender's request, because no provider would have accepted it. `note`: a model wrote a state note
    after this request.
    """

    message_index: int
    messages: Sequence[_Json]
    error: str = ""
    cpu_seconds: float = 0.0
    summaries: tuple[SummaryUsage, ...] = ()
    recall: Callable[[str], str] | None = None
    was_guarded: bool = False
    note: NoteUsage | None = None
