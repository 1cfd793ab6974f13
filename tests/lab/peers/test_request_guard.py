"""The guard makes a valid request of any output of a peer, removes no more than it must, and reports what it did."""

import importlib
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.peers.peer_replay import count_characters, find_complaints, make_step
from tidegate.lab.peer_registry import get_scripts_folder

SYSTEM = {"role": "system", "content": "s" * 40}


@pytest.fixture(scope="module")
def guard() -> Any:
    """The module as a script finds it, beside itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(get_scripts_folder()))
        yield importlib.import_module("request_guard")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_a_valid_request_has_no_defect(guard: Any) -> None:
    assert guard.find_request_defects([SYSTEM, user("a"), *make_step("c1", "b")], 100) == []


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ([SYSTEM, user("a" * 400)], ["over"]),
        ([SYSTEM, *make_step("c1", "b")], ["headless"]),
        ([SYSTEM], ["empty"]),
        ([user("a"), make_step("c1", "b")[1]], ["unpaired"]),
        ([user("a"), make_step("c1", "b")[0]], ["unpaired"]),
        ([user("a"), make_step("c1", "b")[0], make_step("c2", "b")[1]], ["unpaired"]),
        ([*make_step("c1", "b" * 400)], ["over", "headless"]),
    ],
)
def test_every_defect_is_found_and_repaired(guard: Any, view: list[Any], found: list[str]) -> None:
    assert guard.find_request_defects(view, 100) == found
    made = guard.guard_request(view, 100, [user("newest")])
    assert guard.find_request_defects(made.messages, 100) == []
    assert find_complaints(made.messages) == []


def test_the_oldest_groups_are_dropped_and_no_more_than_needed(guard: Any) -> None:
    view = [SYSTEM, user("a" * 100), *make_step("c1", "b" * 100), user("c" * 100), *make_step("c2", "d" * 100)]
    made = guard.guard_request(view, 85, [])
    assert made.messages == [SYSTEM, *view[4:]]
    assert made.dropped == 3
    assert made.clipped == 0
    whole = guard.guard_request(view, 1000, [])
    assert whole.messages == view


def test_the_newest_messages_replace_an_empty_request(guard: Any) -> None:
    newest = make_step("c1", "b")
    assert guard.guard_request([SYSTEM], 100, newest).messages == [SYSTEM, guard.FILLER_MESSAGE, *newest]


def test_one_group_too_large_is_cut(guard: Any) -> None:
    view = [user("a"), *make_step("c1", "b" * 4000, arguments='{"text": "' + "x" * 4000 + '"}')]
    made = guard.guard_request(view, 100, [])
    assert made.clipped >= 2
    assert count_characters(made.messages) <= 400
    assert find_complaints(made.messages) == []
    assert made.messages[-1]["content"].startswith("bbb")
    assert guard.CUT_MARK in made.messages[-1]["content"]
    assert view[-1]["content"] == "b" * 4000


kinds = st.sampled_from(["user", "said", "step", "two", "orphan", "open"])


@given(st.lists(st.tuples(kinds, st.integers(1, 600)), min_size=1, max_size=25), st.integers(60, 400), st.booleans())
def test_any_output_of_a_peer_becomes_a_request(guard: Any, shape: Any, window: int, system: bool) -> None:
    view: list[Any] = [SYSTEM] if system else []
    names = (f"c{number}" for number in itertools.count())
    for kind, length in shape:
        if kind == "user":
            view.append(user("u" * length))
        elif kind == "said":
            view.append({"role": "assistant", "content": "a" * length})
        elif kind == "orphan":
            view.append(make_step(next(names), "r" * length)[1])
        elif kind == "open":
            view.append(make_step(next(names), "r")[0])
        else:
            one, other = make_step(next(names), "r" * length), make_step(next(names), "q" * length)
            calls = [*one[0]["tool_calls"], *(other[0]["tool_calls"] if kind == "two" else ())]
            view += [{**one[0], "tool_calls": calls}, one[1], *([other[1]] if kind == "two" else [])]
    view.append(user("n" * 30))
    made = guard.guard_request(view, window, view[-1:])
    assert find_complaints(made.messages) == []
    assert count_characters(made.messages) <= 4 * window
    assert made.messages[-1] == view[-1]
    assert len(view) - made.dropped == len(made.messages) - (guard.FILLER_MESSAGE in made.messages)
