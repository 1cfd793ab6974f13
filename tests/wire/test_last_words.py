"""A text of the user at the end of a request: everything else keeps its bytes."""

import json
from typing import Any

import pytest

from tidegate.wire.registry import get_dialect
from tidegate.wire.splicing.last_words import append_user_text

Json = dict[str, Any]
WORDS = 'Say "what" is left.\n\u2028'
TEXT = {"type": "text", "text": WORDS}
CASES: list[tuple[str, Json, Json]] = [
    ("anthropic", {"role": "user", "content": "Hello"}, {"role": "user", "content": f"Hello\n\n{WORDS}"}),
    (
        "anthropic",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}, TEXT]},
    ),
    ("anthropic", {"role": "user", "content": []}, {"role": "user", "content": [TEXT]}),
    ("openai_chat", {"role": "user", "content": "Hello"}, {"role": "user", "content": f"Hello\n\n{WORDS}"}),
    ("gemini", {"parts": [{"text": "Hello"}]}, {"parts": [{"text": "Hello"}, {"text": WORDS}]}),
]
NEW_ITEMS: list[tuple[str, Json, Json]] = [
    ("anthropic", {"role": "assistant", "content": "{"}, {"role": "user", "content": [TEXT]}),
    ("openai_chat", {"role": "tool", "tool_call_id": "c1", "content": "x"}, {"role": "user", "content": WORDS}),
    (
        "openai_responses",
        {"role": "user", "content": "Hello"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": WORDS}]},
    ),
    ("gemini", {"role": "model", "parts": [{"text": "Hi"}]}, {"role": "user", "parts": [{"text": WORDS}]}),
]
KEYS = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input", "gemini": "contents"}
FIRST: Json = {"role": "assistant", "content": "First."}


def append(dialect: str, listed: object) -> object:
    """The list of messages with the words, after a check that only bytes were added, in one place."""
    body = {"head": [1, 2], KEYS[dialect]: listed, "tail": {"messages": "no"}}
    text = json.dumps(body, indent=2).encode()
    found = append_user_text(get_dialect(dialect).form, text, WORDS)
    added = len(found) - len(text)
    same = next(place for place in range(len(text)) if text[place] != found[place])
    assert any(found[:place] + found[place + added :] == text for place in range(same + 1))
    decoded = json.loads(found)
    assert (decoded["head"], decoded["tail"]) == (body["head"], body["tail"])
    return decoded[KEYS[dialect]]


@pytest.mark.parametrize(("dialect", "last", "expected"), CASES)
def test_the_last_item_of_the_user_goes_on(dialect: str, last: Json, expected: Json) -> None:
    assert append(dialect, [FIRST, last]) == [FIRST, expected]


@pytest.mark.parametrize(("dialect", "last", "added"), NEW_ITEMS)
def test_after_any_other_item_there_is_a_new_one(dialect: str, last: Json, added: Json) -> None:
    assert append(dialect, [FIRST, last]) == [FIRST, last, added]
    assert append(dialect, []) == [added]


def test_a_single_text_goes_on() -> None:
    assert append("openai_responses", "Hello") == f"Hello\n\n{WORDS}"
