"""Each seed test fails when what carries its row is changed: no test here passes whatever the code does."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.seeds.mutate import Mutation, mutated
from tidegate import TidegateError

FAILED = (AssertionError, TidegateError, pytest.fail.Exception)


class Case(NamedTuple):
    test: Callable[..., None]
    row: str
    mutation: Mutation


def cases() -> Iterator[Case]:
    here = Path(__file__)
    for path in sorted(each for each in here.parent.glob("test_*.py") if each.name != here.name):
        module = import_module(f"tests.seeds.{path.stem}")
        for name, test in vars(module).items():
            for mark in getattr(test, "pytestmark", ()) if name.startswith("test_") else ():
                if mark.name == "seed":
                    yield Case(test, mark.args[0], Mutation(**mark.kwargs))


CASES = list(cases())


def marked() -> Iterator[Any]:
    """The cases that change something. The first of each row is tried in `make test`, the others in `make test-all`."""
    rows: set[str] = set()
    for case in CASES:
        if not case.mutation.fixed:
            marks = [pytest.mark.exhaustive] if case.row in rows else []
            yield pytest.param(case, id=name_of(case), marks=marks)
            rows.add(case.row)


def name_of(case: Case) -> str:
    return f"{case.row}-{case.test.__name__}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", list(marked()))
def test_it_fails_when_its_row_is_changed(case: Case, tmp_path: Path) -> None:
    assert not case.mutation.empty, f"{name_of(case)} says neither what breaks it nor why nothing can"
    given: dict[str, Any] = {"preset": mutated(case.mutation), "tmp_path": tmp_path}
    wanted = inspect.signature(case.test).parameters
    with pytest.raises(FAILED):
        case.test(**{name: given[name] for name in wanted})


def test_few_rows_have_nothing_to_change() -> None:
    fixed = sorted({case.row for case in CASES if case.mutation.fixed})
    moved = {case.row for case in CASES if not case.mutation.fixed}
    assert all(len(case.mutation.fixed) > 20 for case in CASES if case.mutation.fixed), "a reason, please"
    assert set(fixed) - moved <= {"PIC-08", "PIC-10"}, fixed
