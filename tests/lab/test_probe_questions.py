"""Questions that are generated from a recording, and how answers to them are judged."""

import json
from typing import Any

import pytest

from tidegate.lab.probe.probe import ProbeQuestion, generate_questions, is_right_answer

Json = dict[str, Any]
FILLER = {"role": "user", "content": "x" * 4_000}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def run(command: str, output: str) -> list[Json]:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    return [call, {"role": "tool", "tool_call_id": "c", "content": output}]


def asked(*messages: Json, most: int = 10, window: int = 1_000) -> list[ProbeQuestion]:
    """The questions at the end of these messages; a token is four characters."""
    tokens = [0.0]
    for message in messages:
        tokens.append(tokens[-1] + len(message["content"]) / 4)
    return generate_questions(messages, tokens, at=len(messages), window=window, most=most)


def test_a_port_a_value_a_failed_test_a_ban_and_the_parameters_of_a_function() -> None:
    found = asked(
        user("The database listens on port 5433 now.\nNever restart the cluster before Friday evening."),
        *run("pytest -q tests", "tests ran\nFAILED tests/test_lexer.py::test_nested_quotes - assert 1 == 2"),
        *run("cat a.py", "     1\tdef parse(self, source, *, strict: bool = False) -> Tree:\nretry_limit = 17.5"),
        FILLER,
    )
    assert {question.kind: question.expected for question in found} == {
        "port": ("5433",),
        "forbidden": ("cluster", "before", "Friday", "evening"),
        "failed test": ("test_nested_quotes",),
        "parameters": ("source", "strict"),
        "value": ("17.5",),
    }
    texts = {question.kind: question.text for question in found}
    assert texts["port"] == "Which port number was in the line `The database listens on port ___ now.`?"
    assert texts["failed test"] == "Which test failed when this was run: `pytest -q tests`?"
    assert not any(part in question.text for question in found for part in question.expected)


def test_only_text_that_is_half_a_window_back_is_asked() -> None:
    assert asked(user("The port is 5433."), user("x" * 1_990)) == []
    assert len(asked(user("The port is 5433."), user("x" * 2_010))) == 1


def test_an_answer_that_is_repeated_later_is_not_asked() -> None:
    assert asked(user("The port is 5433."), FILLER, user("I mean 5433!")) == []


def test_a_question_with_two_answers_is_not_asked() -> None:
    assert asked(user("retry_limit = 17.5\nretry_limit = 18.5\nother_limit = 19.5"), FILLER) == [
        ProbeQuestion("value", "What was the value of `other_limit`?", ("19.5",), 0)
    ]


def test_kinds_take_turns() -> None:
    values = "\n".join(f"limit_{letter} = 10{place}5" for place, letter in enumerate("abcdef"))
    found = asked(user(values + "\nThe port is 5433."), FILLER, most=2)
    assert [question.kind for question in found] == ["value", "port"]


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("It is `test_nested_quotes`.", True),
        ("TEST_NESTED_QUOTES", True),
        ("test_nested", False),
        ("my_test_nested_quotes_2", False),
        ("unknown", False),
    ],
)
def test_answers_are_compared_by_words(answer: str, right: bool) -> None:
    assert is_right_answer(answer, ("test_nested_quotes",)) is right


def test_every_part_must_be_there() -> None:
    assert is_right_answer("source and strict", ("source", "strict"))
    assert not is_right_answer("source", ("source", "strict"))
