"""Print ten paragraphs drawn at random from the documentation and the docstrings, to be read aloud.

    python bench/paragraphs.py 7            # ten paragraphs for the seed 7
    python bench/paragraphs.py 8 --count 20

The same seed gives the same paragraphs as long as the texts do not change. A paragraph that needs a second reading is
rewritten, and so are others like it; then the next seed is read.
"""

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MIN_WORDS = 12


class Paragraph(NamedTuple):
    place: str
    text: str


def list_paragraphs(root: Path = ROOT) -> list[Paragraph]:
    """All paragraphs of prose with at least twelve words, in the order of their files."""
    pages = [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md")), *sorted((root / "bench").glob("*.md"))]
    paragraphs = [each for page in pages for each in _read_page(page, root)]
    for path in sorted((root / "src").rglob("*.py")):
        paragraphs += _read_docstrings(path, root)
    return [each for each in paragraphs if len(each.text.split()) >= MIN_WORDS]


def _read_page(path: Path, root: Path) -> Iterator[Paragraph]:
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=(?:-|\d+\.) )", text):
        if block.strip() and not block.lstrip().startswith(("|", "#", "!", "<")):
            yield Paragraph(str(path.relative_to(root)), block.strip())


def _read_docstrings(path: Path, root: Path) -> Iterator[Paragraph]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for block in re.split(r"\n\s*\n", ast.get_docstring(node) or ""):
                if block.strip() and not block.startswith("    "):
                    name = getattr(node, "name", "")
                    yield Paragraph(f"{path.relative_to(root)} {name}".strip(), block.strip())


def draw_paragraphs(seed: int, count: int = 10, root: Path = ROOT) -> list[Paragraph]:
    """Draw paragraphs without repetition."""
    return random.Random(seed).sample(list_paragraphs(root), count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    for number, each in enumerate(draw_paragraphs(options.seed, options.count), 1):
        print(f"{number}. {each.place}\n{each.text}\n")


if __name__ == "__main__":
    main()
