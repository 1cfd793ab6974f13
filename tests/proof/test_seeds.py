"""`tidegate seeds`: the rows, the tie to tests by marker, and the states that a run gives."""

import ast
import json
from pathlib import Path

import pytest

from tests.cli.calling import called
from tidegate.proof import seeds

SOURCE = """
import pytest

@pytest.mark.seed("COW-01")
def test_plain(): ...

@pytest.mark.seed("COW-01", "COW-02")
@pytest.mark.seed("JUT-01")
@pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.seed("AI-01"))])
async def test_several(x): ...

@pytest.mark.seed("PIC-01")
class TestAll:
    def test_inside(self): ...

    @pytest.mark.seed("PIC-02")
    def test_both(self): ...

    def not_a_test(self): ...

@pytest.mark.skip
def test_unmarked(): ...

@pytest.mark.seed("DIG-01")
def helper(): ...
"""


def tied(source: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for test, ident in seeds.find_marked_tests(ast.parse(source), "t.py"):
        found.setdefault(ident, []).append(test)
    return found


def test_markers_are_read_from_the_source() -> None:
    assert tied(SOURCE) == {
        "COW-01": ["t.py::test_plain", "t.py::test_several"],
        "COW-02": ["t.py::test_several"],
        "JUT-01": ["t.py::test_several"],
        "AI-01": ["t.py::test_several"],
        "PIC-01": ["t.py::TestAll::test_inside", "t.py::TestAll::test_both"],
        "PIC-02": ["t.py::TestAll::test_both"],
    }


def test_a_mark_on_the_file_holds_for_all_its_tests() -> None:
    source = 'import pytest\npytestmark = [pytest.mark.seed("COW-01")]\ndef test_a(): ...\ndef test_b(): ...\n'
    assert tied(source) == {"COW-01": ["t.py::test_a", "t.py::test_b"]}


def test_rows_have_unique_ids_and_say_something() -> None:
    found = seeds.load_seeds()
    assert len({row.id for row in found}) == len(found) == 79
    assert {row.id.partition("-")[0] for row in found} == {"COW", "JUT", "PIC", "DIG", "AI"}
    assert all(len(row.text) > 20 for row in found)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small project with a test of each fate."""
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["seed(id): x"]\n')
    inside = tmp_path / "tests" / "deep"
    inside.mkdir(parents=True)
    (inside / "test_fates.py").write_text(
        """
import pytest

@pytest.mark.seed("COW-01")
@pytest.mark.parametrize("x", [1, 2])
def test_passes(x): assert x

@pytest.mark.seed("COW-02")
class TestIn:
    def test_passes(self): pass

    @pytest.mark.parametrize("x", [1, 0])
    def test_one_fails(self, x): assert x

@pytest.mark.seed("COW-03")
def test_skips(): pytest.skip("not today")

@pytest.mark.seed("COW-99")
def test_of_no_row(): pass
"""
    )
    return tmp_path


@pytest.mark.exhaustive
def test_run_gives_states(checkout: Path) -> None:
    """Also where a file of tests does not load: the other files are run all the same."""
    broken = checkout / "tests" / "test_broken.py"
    broken.write_text("import pytest, nowhere\n@pytest.mark.seed('JUT-01')\ndef test_x(): pass\n")
    found = seeds.load_seeds()
    assert seeds.link_tests(found, checkout) == ["COW-99 (tests/deep/test_fates.py::test_of_no_row)"]
    assert {row.state for row in found} == {None}
    words = seeds.run_seed_tests(found, checkout)
    states = {row.id: row.state for row in found}
    assert states.pop("COW-01") == "proved"
    assert states.pop("COW-02") == "failing"
    assert states.pop("COW-03") == "failing", "a skipped test proves nothing"
    assert states.pop("JUT-01") == "failing"
    assert set(states.values()) == {"open"}
    assert "test_one_fails" in words


def test_run_without_any_test(tmp_path: Path) -> None:
    found = seeds.load_seeds()
    assert seeds.run_seed_tests(found, tmp_path) == "no test is marked"
    assert {row.state for row in found} == {"open"}


@pytest.mark.exhaustive
def test_the_command_lists_rows_as_json() -> None:
    done = called("seeds", "--json")
    assert (done.returncode, done.stderr) == (0, ""), "every marker of this checkout names a row"
    rows = json.loads(done.stdout)
    assert [set(row) for row in rows] == [{"id", "text", "tests", "state"}] * 79
    assert {row["state"] for row in rows} == {None}
    assert [row["id"] for row in rows] == [row.id for row in seeds.load_seeds()]
    assert [row["id"] for row in rows if not row["tests"]] == []


@pytest.mark.exhaustive  # it reads all tests again
def test_the_command_lists_rows_as_text() -> None:
    done = called("seeds")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("COW-01  A turn")
    assert "79 rows" in done.stdout


def test_the_text_of_rows() -> None:
    text = seeds.format_seeds(seeds.load_seeds(), as_json=False)
    assert text.startswith("COW-01  A turn")
    assert "79 rows" in text
