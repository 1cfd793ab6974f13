"""The guard: it makes a request out of whatever a peer gave, takes no more than it must, and says what it did."""

import importlib
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.peers.played import chars, complaints, step
from tidegate.lab import peers

SYSTEM = {"role": "system", "content": "s" * 40}


@pytest.fixture(scope="module")
def guarding() -> Any:
    """The module as a script finds it, beside itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(peers.SCRIPTS_FOLDER))
        yield importlib.import_module("guarding")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_what_is_sound_has_no_fault(guarding: Any) -> None:
    assert guarding.faults([SYSTEM, user("a"), *step("c1", "b")], 100) == []


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ([SYSTEM, user("a" * 400)], ["over"]),
        ([SYSTEM, *step("c1", "b")], ["headless"]),
        ([SYSTEM], ["empty"]),
        ([user("a"), step("c1", "b")[1]], ["unpaired"]),
        ([user("a"), step("c1", "b")[0]], ["unpaired"]),
        ([user("a"), step("c1", "b")[0], step("c2", "b")[1]], ["unpaired"]),
        ([*step("c1", "b" * 400)], ["over", "headless"]),
    ],
)
def test_every_fault_is_seen_and_mended(guarding: Any, view: list[Any], found: list[str]) -> None:
    assert guarding.faults(view, 100) == found
    made = guarding.guard(view, 100, [user("newest")])
    assert guarding.faults(made.messages, 100) == []
    assert complaints(made.messages) == []


def test_the_oldest_groups_leave_and_no_more_than_must(guarding: Any) -> None:
    view = [SYSTEM, user("a" * 100), *step("c1", "b" * 100), user("c" * 100), *step("c2", "d" * 100)]
    made = guarding.guard(view, 85, [])
    assert made.messages == [SYSTEM, *view[4:]]
    assert made.dropped == 3
    assert made.clipped == 0
    whole = guarding.guard(view, 1000, [])
    assert whole.messages == view


def test_the_newest_stands_in_for_nothing(guarding: Any) -> None:
    newest = step("c1", "b")
    assert guarding.guard([SYSTEM], 100, newest).messages == [SYSTEM, guarding.FILLER, *newest]


def test_one_group_too_large_is_cut(guarding: Any) -> None:
    view = [user("a"), *step("c1", "b" * 4000, arguments='{"text": "' + "x" * 4000 + '"}')]
    made = guarding.guard(view, 100, [])
    assert made.clipped >= 2
    assert chars(made.messages) <= 400
    assert complaints(made.messages) == []
    assert made.messages[-1]["content"].startswith("bbb")
    assert guarding.CUT in made.messages[-1]["content"]
    assert view[-1]["content"] == "b" * 4000


kinds = st.sampled_from(["user", "said", "step", "two", "orphan", "open"])


@given(st.lists(st.tuples(kinds, st.integers(1, 600)), min_size=1, max_size=25), st.integers(60, 400), st.booleans())
def test_whatever_a_peer_gives_becomes_a_request(guarding: Any, shape: Any, window: int, system: bool) -> None:
    view: list[Any] = [SYSTEM] if system else []
    names = (f"c{number}" for number in itertools.count())
    for kind, length in shape:
        if kind == "user":
            view.append(user("u" * length))
        elif kind == "said":
            view.append({"role": "assistant", "content": "a" * length})
        elif kind == "orphan":
            view.append(step(next(names), "r" * length)[1])
        elif kind == "open":
            view.append(step(next(names), "r")[0])
        else:
            one, other = step(next(names), "r" * length), step(next(names), "q" * length)
            calls = [*one[0]["tool_calls"], *(other[0]["tool_calls"] if kind == "two" else ())]
            view += [{**one[0], "tool_calls": calls}, one[1], *([other[1]] if kind == "two" else [])]
    view.append(user("n" * 30))
    made = guarding.guard(view, window, view[-1:])
    assert complaints(made.messages) == []
    assert chars(made.messages) <= 4 * window
    assert made.messages[-1] == view[-1]
    assert len(view) - made.dropped == len(made.messages) - (guarding.FILLER in made.messages)
