"""Threat: a defense is dropped, or a new one is not written down, and nobody notices.
SECURITY.md lists each threat with the tests that hold its defense, and this test holds the list to the files there are.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECURITY = ROOT / "tests" / "security"


def rows() -> list[list[str]]:
    """The cells of each row of the table of threats."""
    section = (ROOT / "SECURITY.md").read_text("utf-8").partition("## Threats\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def named() -> list[str]:
    return [name for row in rows() for name in re.findall(r"`(tests/[^`]+\.py)`", row[-1])]


def test_every_row_has_a_threat_a_defense_and_a_test() -> None:
    assert len(rows()) > 10
    for row in rows():
        assert len(row) == 3, row
        assert all(row), row
        assert re.search(r"`tests/[^`]+\.py`", row[-1]), row


def test_every_test_of_a_threat_is_in_the_table_and_every_test_in_the_table_is_there() -> None:
    ours = {str(path.relative_to(ROOT)) for path in SECURITY.glob("test_*.py")} - {
        f"tests/security/{Path(__file__).name}"
    }
    listed = {name for name in named() if name.startswith("tests/security/")}
    assert sorted(ours - listed) == [], "not in SECURITY.md"
    assert sorted(listed - ours) == [], "in SECURITY.md, and not there"


def test_the_other_tests_in_the_table_are_there() -> None:
    assert [name for name in named() if not name.startswith("tests/security/") and not (ROOT / name).is_file()] == []


def test_every_file_says_which_threat_it_is_about() -> None:
    for path in SECURITY.glob("test_*.py"):
        assert path.read_text("utf-8").startswith('"""Threat: '), path.name
