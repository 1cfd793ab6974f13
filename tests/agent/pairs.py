"""Parametrization over two lists: few pairs in `make test`, all pairs in `make test-all`."""

from collections.abc import Iterable
from typing import Any

import pytest


def parametrize_pairs(names: tuple[str, str], first: Iterable[Any], second: Iterable[Any]) -> pytest.MarkDecorator:
    """Every value of both lists is in a pair that always runs. All other pairs are exhaustive."""
    rows, columns = list(first), list(second)
    always = {(at % len(rows), at % len(columns)) for at in range(max(len(rows), len(columns)))}
    pairs = [
        pytest.param(row, column, marks=() if (x, y) in always else pytest.mark.exhaustive)
        for x, row in enumerate(rows)
        for y, column in enumerate(columns)
    ]
    return pytest.mark.parametrize(names, pairs)
