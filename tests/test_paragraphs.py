"""`bench/paragraphs.py` draws from all pages and docstrings, and the same seed draws the same paragraphs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "bench" / "paragraphs.py"
SEED = 6

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="the programs of bench/ are not in the source distribution"
)


def draw(seed: int, count: int = 10) -> str:
    command = [sys.executable, str(PROGRAM), str(seed), "--count", str(count)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_seed_draws_the_same_ten_paragraphs() -> None:
    drawn = draw(SEED)
    assert len(re.findall(r"^\d+\. [\w./-]+\.(?:md|py)\b", drawn, re.MULTILINE)) == 10
    assert drawn == draw(SEED)
    assert drawn != draw(SEED + 1)


def test_pages_and_docstrings_are_drawn_from() -> None:
    places = re.findall(r"^\d+\. (\S+)", draw(SEED, 400), re.MULTILINE)
    assert {"README.md", "docs/guide.md"} & set(places)
    rooms = {place.split("/")[2] for place in places if place.startswith("src/tidegate/") and place.count("/") > 2}
    assert {"core", "wire", "agent", "lab"} <= rooms
