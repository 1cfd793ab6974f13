"""The pictures of the documentation are there, fetch nothing, and show what the app shows today."""

import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PICTURES = ROOT / "docs" / "pictures"
MAKER = ROOT / "bench" / "pictures.py"
SVG = "http://www.w3.org/2000/svg"
SCREENS = ("chat", "context", "timeline")
REMAKE = "the app shows this no more, `make pictures` and look at them"

pytestmark = pytest.mark.skipif(not PICTURES.exists(), reason="the documentation is not in the source distribution")


def find_shown(page: Path) -> dict[str, str]:
    """The pictures that a page shows, by file name, each with its description."""
    found = re.findall(r"!\[([^\]]*)\]\((?:docs/)?pictures/([^)]+)\)", page.read_text("utf-8"))
    return {target: words for words, target in found}


def test_every_picture_is_shown_and_described() -> None:
    pages = [README, *(ROOT / "docs").glob("*.md")]
    shown = {target: words for page in pages for target, words in find_shown(page).items()}
    assert set(shown) == {path.name for path in PICTURES.iterdir()}
    assert {f"{name}.svg" for name in SCREENS} | {"view.png"} <= set(shown)
    for words in shown.values():
        assert len(words.split()) > 3


def test_the_readme_shows_one_picture() -> None:
    assert set(find_shown(README)) == {"demo.svg"}


@pytest.mark.parametrize("name", [*SCREENS, "wrap"])
def test_a_screen_fetches_nothing(name: str) -> None:
    text = re.sub(r"http://127\.0\.0\.1:\d+/ui", "", (PICTURES / f"{name}.svg").read_text("utf-8"))  # printed by wrap
    assert len(text) < 200_000
    assert re.findall(r"\w+:?//[^\s\"'<]*", text.replace("&#160;//&#160;", "")) == [SVG]
    assert not re.search(r"@import|@font-face|href|<(script|image|use|foreignObject)|url\((?!#)|\son\w+=", text)


def chunks(png: bytes) -> Iterator[str]:
    at = 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8].decode("ascii")
        at += size + 12


def test_the_picture_of_wrap_has_the_summary() -> None:
    for words_of_it in ("watch", "kept", "left", "saved", "recall"):
        assert words_of_it in drawn("wrap")


@pytest.mark.parametrize("name", ["view", "gateway", "lab"])
def test_a_page_is_a_small_picture_and_nothing_else(name: str) -> None:
    png = (PICTURES / f"{name}.png").read_bytes()
    assert len(png) < 300_000
    assert struct.unpack(">I", png[16:20]) == (1280,)
    assert set(chunks(png)) == {"IHDR", "PLTE", "IDAT", "IEND"}


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d]{3,}", text))


def drawn(name: str) -> str:
    tree = ElementTree.fromstring((PICTURES / f"{name}.svg").read_text("utf-8"))
    (matrix,) = (each for each in tree.iter(f"{{{SVG}}}g") if each.get("class") == "t-matrix")
    return " ".join(each.text or "" for each in matrix.iter(f"{{{SVG}}}text"))


def test_what_the_screens_are_there_to_show() -> None:
    check_screens({name: drawn(name).replace("\xa0", " ") for name in SCREENS})


def check_screens(found: dict[str, str]) -> None:
    """A question, tools, a compaction, an answer; what fills the window; what was done to it."""
    for line in ("Fix it, with a test", "read", "edit", "shell", "compacted", "All tests pass", "ctx", "2 compacted"):
        assert line in found["chat"], line
    for line in ("system", "tools", "results: read", "summaries", "ledger", "next compaction: ", "stands for"):
        assert line in found["context"], line
    for line in ("sweep", "summarize", "why: ", "cost: ", "saved: "):
        assert line in found["timeline"], line


@pytest.mark.exhaustive
def test_the_screens_show_what_the_app_shows() -> None:
    """The same conversation, held by the app as it is now.

    A rule that acts earlier, or gives its reason in other words, makes no picture false: nine of ten words hold.
    """
    command = [sys.executable, str(MAKER), "--show"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^=== (\w+)\n", done.stdout, flags=re.MULTILINE)
    screens = dict(zip(parts[1::2], parts[2::2], strict=True))
    check_screens(screens)
    for name in SCREENS:
        picture = words(drawn(name))
        assert len(picture) > 25
        gone = picture - words(screens[name])
        assert len(gone) <= len(picture) // 10, f"{name}: {REMAKE}: {sorted(gone)}"
