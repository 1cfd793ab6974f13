"""What `make test` leaves to `make test-all` of a test that runs over all dialects and policies."""

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
from tests.scale import mark_other_variants

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    mark_other_variants(items)
"""
TESTS = """
import pytest

@pytest.mark.parametrize("policy", ["a", "b", "c"])
@pytest.mark.parametrize("wire", ["d", "e"])
def test_of_both(wire, policy): pass

@pytest.mark.parametrize("wire", ["d", pytest.param("e", marks=pytest.mark.exhaustive)])
def test_that_chose(wire): pass

@pytest.mark.parametrize("name", ["d", "e"])
def test_of_something_else(name): pass

@pytest.mark.seed("X-1")
@pytest.mark.parametrize("policy", ["a", "b", "c"])
def test_of_a_seed(policy): pass
"""


def test_a_test_runs_with_one_dialect_and_one_policy(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers =\n    exhaustive\n    seed\n")
    usual = pytester.runpytest_inprocess("-m", "not exhaustive", "-p", "no:xdist", "-p", "no:randomly")
    usual.assert_outcomes(passed=1 + 1 + 2 + 3, deselected=5 + 1)
    pytester.runpytest_inprocess("-p", "no:xdist", "-p", "no:randomly").assert_outcomes(passed=6 + 2 + 2 + 3)
