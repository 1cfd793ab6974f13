"""What a call of a model used, in tokens."""

from typing import NamedTuple


class Usage(NamedTuple):
    """`input_tokens` counts all input, cached or not; `output_tokens` includes thinking.

    `cache_write_1h` is the part of `cache_write` that the provider keeps for an hour and charges more for.
    """

    input_tokens: int
    output_tokens: int
    cache_read: int
    cache_write: int
    cache_write_1h: int = 0
