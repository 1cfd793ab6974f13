"""Pairs kept whole: whatever a file has of calls and results, what comes out is valid, and the change is said."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.importers.samples import call, result
from tests.scale import scaled
from tidegate.lab.importers.call_repair import MISSING_RESULT_TEXT, repair_messages


def answer(*idents: str, content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": [call(ident) for ident in idents]}


def user(text: str = "go") -> dict[str, Any]:
    return {"role": "user", "content": text}


def shape(*messages: dict[str, Any]) -> list[str]:
    """Calls as `id?`, results as `id=content`, the rest by content."""
    found = []
    for message in repair_messages(list(messages)).messages:
        if message["role"] == "tool":
            found.append(f"{message['tool_call_id']}={message['content']}")
        else:
            idents = [made["id"] for made in message.get("tool_calls", [])]  # type: ignore[attr-defined]
            found.append(" ".join([str(message["content"]), *(f"{ident}?" for ident in idents)]))
    return found


def test_what_is_right_stays() -> None:
    said = [user(), answer("a", "b"), result("a", "1"), result("b", "2"), user("more")]
    done = repair_messages(said)
    assert done.messages == said
    assert (done.original_indices, done.repairs) == ([0, 1, 2, 3, 4], [])


def test_results_come_in_call_order() -> None:
    assert shape(answer("a", "b"), result("b", "2"), result("a", "1")) == ["None a? b?", "a=1", "b=2"]


def test_a_late_result_is_moved() -> None:
    said = [answer("a"), user("wait"), result("a", "1")]
    assert shape(*said) == ["None a?", "a=1", "wait"]
    assert repair_messages([answer("a"), user("wait"), result("a", "1")]).repairs == ["1 result moved after its call"]


def test_an_early_result_is_moved() -> None:
    assert shape(user(), result("a", "1"), answer("a")) == ["go", "None a?", "a=1"]


def test_an_interrupted_call_gets_the_placeholder() -> None:
    assert shape(answer("a", "b"), result("b", "2"), user()) == ["None a? b?", f"a={MISSING_RESULT_TEXT}", "b=2", "go"]


def test_results_without_a_call_go() -> None:
    done = repair_messages([user(), result("x", "1"), result("", "2")])
    assert (done.messages, done.repairs) == ([user()], ["2 results without a call left out"])


def test_a_second_result_goes_and_is_not_taken_by_a_later_call_of_that_id() -> None:
    said = [answer("a"), result("a", "1"), result("a", "again"), answer("a"), result("a", "2")]
    assert shape(*said) == ["None a?", "a=1", "None a_2?", "a_2=2"]


def test_ids_used_again_are_renamed_and_the_newest_call_is_answered() -> None:
    assert shape(answer("a"), answer("a"), result("a", "2")) == [
        "None a?",
        f"a={MISSING_RESULT_TEXT}",
        "None a_2?",
        "a_2=2",
    ]


def test_a_name_made_for_a_call_is_not_used_by_another() -> None:
    said = [answer("a"), result("a", "1"), answer("a"), result("a", "2"), answer("a_2"), result("a_2", "3")]
    assert shape(*said) == ["None a?", "a=1", "None a_2?", "a_2=2", "None a_2_3?", "a_2_3=3"]


def test_results_without_ids_are_joined_by_position() -> None:
    done = repair_messages([answer("", ""), result("", "1"), result("", "2")])
    assert [message.get("tool_call_id") for message in done.messages] == [None, "call_1", "call_2"]
    assert done.repairs == [
        "2 results without an id joined to a call by position",
        "2 call ids missing or used again: renamed",
    ]


def test_an_empty_message_goes() -> None:
    assert repair_messages([user(), {"role": "assistant", "content": None}]).repairs == ["1 empty message left out"]


IDENTS = st.sampled_from(["", "a", "b", "c"])
MESSAGES = st.lists(
    st.one_of(
        st.builds(user),
        st.lists(IDENTS, min_size=1, max_size=3).map(lambda idents: answer(*idents)),
        st.tuples(IDENTS, st.sampled_from("12")).map(lambda pair: result(*pair)),
        st.builds(lambda: {"role": "assistant", "content": "text"}),
    ),
    max_size=12,
)


def check_pairs(messages: list[dict[str, Any]]) -> None:
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
        else:
            assert not waiting
            waiting = [made["id"] for made in message.get("tool_calls", [])]
            assert all(waiting)
            assert not seen & set(waiting)
            assert len(set(waiting)) == len(waiting)
            seen.update(waiting)
    assert not waiting


@given(MESSAGES)
@settings(max_examples=scaled(100))
def test_whatever_comes_in_comes_out_paired(messages: list[dict[str, Any]]) -> None:
    done = repair_messages(messages)
    check_pairs(done.messages)
    spoken = [message for message in messages if message["role"] != "tool"]
    assert [message for message in done.messages if message["role"] != "tool"] == spoken
    assert len(done.original_indices) == len(done.messages)
