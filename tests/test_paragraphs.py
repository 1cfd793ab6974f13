"""`bench/paragraphs.py` draws from all pages and docstrings, and the same seed draws the same paragraphs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "bench" / "paragraphs.py"
SEED = 6
ROOMS = {"core", "wire", "agent", "lab"}

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="the programs of bench/ are not in the source distribution"
)


def draw(program: Path, seed: int, count: int = 10) -> str:
    command = [sys.executable, str(program), str(seed), "--count", str(count)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def check_places(drawn: str) -> None:
    """Pages and docstrings of all rooms are among the paragraphs."""
    places = set(re.findall(r"^\d+\. (\S+)", drawn, re.MULTILINE))
    assert {"README.md", "docs/guide.md"} & places
    rooms = {place.split("/")[2] for place in places if place.startswith("src/tidegate/") and place.count("/") > 2}
    assert rooms >= ROOMS


@pytest.fixture(scope="module")
def small_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in a repository of six files with five paragraphs each: to read all of the real one takes seconds."""
    root = tmp_path_factory.mktemp("small")
    modules = [f"src/tidegate/{room}/file.py" for room in sorted(ROOMS)]
    for name in ("README.md", "docs/guide.md", *modules):
        text = "\n\n".join(
            f"Paragraph {number} of {name} has enough words to be drawn and to be read aloud." for number in range(5)
        )
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""{text}"""\n' if name.endswith(".py") else text, "utf-8")
    copy = root / "bench" / PROGRAM.name
    copy.parent.mkdir()
    shutil.copyfile(PROGRAM, copy)
    return copy


def test_a_seed_draws_the_same_ten_paragraphs(small_program: Path) -> None:
    drawn = draw(small_program, SEED)
    assert len(re.findall(r"^\d+\. [\w./-]+\.(?:md|py)\b", drawn, re.MULTILINE)) == 10
    assert drawn == draw(small_program, SEED)
    assert drawn != draw(small_program, SEED + 1)


def test_pages_and_docstrings_are_drawn_from(small_program: Path) -> None:
    check_places(draw(small_program, SEED, 30))


@pytest.mark.exhaustive
def test_the_whole_repository_is_drawn_from() -> None:
    check_places(draw(PROGRAM, SEED, 400))
