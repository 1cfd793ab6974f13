"""How many cases a test tries.

The tests try few, well-chosen cases. `TIDEGATE_CASES=10 make test-all` tries ten times as many; it is run by hand
before a release.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet

FACTOR = max(1, int(os.environ.get("TIDEGATE_CASES", "1")))

T = TypeVar("T")

_EXHAUSTIVE = pytest.mark.exhaustive
_VARIANTS = {"dialect", "policy", "preset", "wire"}
_WITH_ALL_VARIANTS = ("tests/agent/seeds/", "tests/conformance/", "tests/seeds/", "tests/wire/")


def scaled(usual: int, most: int | None = None) -> int:
    """Return the number of cases to try: `usual` times the factor, at most `most`."""
    return usual * FACTOR if most is None else min(usual * FACTOR, most)


def spread(cases: Sequence[T], usual: int) -> list[T]:
    """Return `usual` times the factor of the cases, evenly spread, the first and the last among them."""
    count = min(scaled(usual), len(cases))
    if count <= 1:
        return list(cases[:1])
    return [cases[round(place * (len(cases) - 1) / (count - 1))] for place in range(count)]


def mark_all_but(cases: Iterable[T], *usual: T) -> list[ParameterSet | T]:
    """Return the cases as parameters of a test. All but the usual ones are tried by `make test-all` only."""
    return [
        case if case in usual else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=_EXHAUSTIVE)
        for case in cases
    ]


def is_exhaustive(item: pytest.Item) -> bool:
    return item.get_closest_marker("exhaustive") is not None


def mark_other_variants(items: Iterable[pytest.Item]) -> None:
    """Mark the cases of a test over all dialects or policies exhaustive, but those of one dialect and one policy.

    Which ones follows from the name of the test, so each dialect and each policy runs in many tests. The tests of the
    dialects themselves and those of the seeds run with all.
    """
    groups: dict[str, list[pytest.Function]] = {}
    for item in items:
        is_kept = item.nodeid.startswith(_WITH_ALL_VARIANTS) or item.get_closest_marker("seed") or is_exhaustive(item)
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not is_kept:
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, tests in groups.items():
        for kind in sorted(_VARIANTS & tests[0].callspec.params.keys()):
            values = sorted({value for test in tests if isinstance(value := test.callspec.params[kind], str)})
            for test in tests if values else ():
                if test.callspec.params[kind] != values[crc32(name.encode()) % len(values)]:
                    test.add_marker(_EXHAUSTIVE)
            tests = [test for test in tests if not is_exhaustive(test)]


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
