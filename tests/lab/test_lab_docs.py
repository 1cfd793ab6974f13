"""docs/lab.md says of every measure what the product says."""

from pathlib import Path

import pytest

from tidegate.lab.scoring.measures import MEASURES

PAGE = Path(__file__).parents[2] / "docs" / "lab.md"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not in the source distribution")


def test_every_measure_with_its_definition_and_its_limit() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    told = [
        f"| {each.name} (`{each.key}`) | {each.better or '-'} | {each.definition} | {each.not_shown} |"
        for each in MEASURES
    ]
    assert rows[1:] == told
