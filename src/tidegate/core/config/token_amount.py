"""Amounts of tokens as people write them: 16000, "16,000", "16k" or "1M"."""

import re
from typing import Final

from tidegate.core.errors import BadInput
from tidegate.core.text.lazy_pattern import LazyPattern

_AMOUNT: Final = LazyPattern(r"(\d+(?:[,_]\d{3})*(?:\.\d+)?)\s*([kKmM]?)")
_FACTORS: Final = {"": 1, "k": 1_000, "m": 1_000_000}


def parse_token_amount(amount: int | str, what: str = "The window") -> int:
    """Return a positive number of tokens. "16k" is 16,000: with 1,024 a request could be too long. BadInput if none."""
    if isinstance(amount, str):
        match = _AMOUNT.fullmatch(amount.strip())
        number = float(re.sub("[,_]", "", match[1])) * _FACTORS[match[2].lower()] if match else 0.0
    else:
        number = amount
    if number < 1 or number != int(number):
        raise BadInput(f"{what} is {amount!r} tokens."[:200], 'Give a positive whole number, such as 16000 or "16k".')
    return int(number)
