"""Telling dialects apart, and refusing what cannot be read: always with a remedy, never with a traceback."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.laws.sampled_law import sampled_law
from tests.wire.histories import REASONING, REDACTED
from tidegate.core.errors import BadInput
from tidegate.core.messages import Message
from tidegate.wire.anthropic.models import accepts_system_messages
from tidegate.wire.registry import DIALECTS, detect_dialect, parse_any_message

URL = "https://example.com/a.png"


DETECTED: list[tuple[dict[str, Any], str]] = [
    ({"role": "user", "content": "hi"}, "openai_chat"),
    ({"role": "assistant", "content": "hi"}, "openai_chat"),
    ({"role": "developer", "content": "hi"}, "openai_chat"),
    ({"role": "tool", "tool_call_id": "c", "content": "x"}, "openai_chat"),
    ({"role": "assistant", "content": None, "tool_calls": []}, "openai_chat"),
    ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}]}, "openai_chat"),
    ({"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": []}, "openai_chat"),
    ({"role": "assistant", "content": [{"type": "text", "text": "x"}]}, "anthropic"),
    ({"role": "assistant", "content": [json.loads(REDACTED)]}, "anthropic"),
    ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}, "anthropic"),
    (
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "text", "text": "x"}]},
        "anthropic",
    ),
    ({"type": "message", "role": "user", "content": "x"}, "openai_responses"),
    ({"role": "user", "content": [{"type": "input_text", "text": "x"}]}, "openai_responses"),
    ({"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}, "openai_responses"),
    ({"type": "function_call_output", "call_id": "c", "output": "x"}, "openai_responses"),
    (json.loads(REASONING), "openai_responses"),
    ({"role": "model", "parts": [{"text": "x"}]}, "gemini"),
    ({"parts": [{"text": "x"}]}, "gemini"),
]


def test_detect() -> None:
    for obj, dialect in DETECTED:
        assert detect_dialect(obj) == dialect, obj
        assert parse_any_message(obj) == DIALECTS[dialect].parse_message(obj), obj


# --- refusals -----------------------------------------------------------------------------------------------------

BAD: list[tuple[str, Any]] = [
    ("openai_chat", None),
    ("openai_chat", []),
    ("openai_chat", "text"),
    ("openai_chat", {}),
    ("openai_chat", {"role": "robot", "content": "x"}),
    ("openai_chat", {"role": ["user"], "content": "x"}),
    ("openai_chat", {"role": "user", "content": 7}),
    ("openai_chat", {"role": "user", "content": {"text": "x"}}),
    ("openai_chat", {"role": "user", "content": ["x"]}),
    ("openai_chat", {"role": "user", "content": [{"type": "text"}]}),
    ("openai_chat", {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}),
    ("openai_chat", {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}),
    ("openai_chat", {"role": "tool", "content": "x"}),
    ("openai_chat", {"role": "tool", "tool_call_id": 3, "content": "x"}),
    ("openai_chat", {"role": "assistant", "content": None, "tool_calls": {}}),
    ("openai_chat", {"role": "assistant", "content": None, "tool_calls": [None]}),
    ("openai_chat", {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}),
    ("openai_chat", {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {}}]}),
    ("openai_chat", {"role": "assistant", "content": None, "function_call": {"name": "x", "arguments": "{}"}}),
    ("openai_chat", {"role": "assistant", "content": "x", "reasoning_content": ["x"]}),
    ("anthropic", {"role": "tool", "content": "x"}),
    ("anthropic", {"role": "user", "content": 7}),
    ("anthropic", {"role": "user", "content": [7]}),
    ("anthropic", {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}),
    ("anthropic", {"role": "user", "content": [{"type": "document", "source": {}}]}),
    ("anthropic", {"role": "user", "content": [{"type": "image"}]}),
    ("anthropic", {"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}),
    ("anthropic", {"role": "assistant", "content": [{"type": "tool_use", "id": "c"}]}),
    ("anthropic", {"role": "assistant", "content": [{"text": "x"}]}),
    ("anthropic", {"role": "assistant", "content": [{"type": "thinking", "thinking": b"x"}]}),
    ("openai_responses", {}),
    ("openai_responses", {"type": "item_reference", "id": "x"}),
    ("openai_responses", {"type": "function_call", "name": "x", "arguments": "{}"}),
    ("openai_responses", {"type": "function_call_output", "output": "x"}),
    ("openai_responses", {"type": "message", "role": "tool", "content": "x"}),
    ("openai_responses", {"type": "message", "role": "user", "content": [{"type": "input_image", "file_id": "f"}]}),
    ("gemini", {"role": "user"}),
    ("gemini", {"role": "user", "parts": "x"}),
    ("gemini", {"role": "robot", "parts": []}),
    ("gemini", {"role": "user", "parts": [{"inlineData": {"mimeType": "audio/wav", "data": "x"}}]}),
    ("gemini", {"role": "user", "parts": [{"functionResponse": {"response": {}}}]}),
    ("gemini", {"role": "model", "parts": [{"functionCall": {"args": {}}}]}),
    ("gemini", {"role": "model", "parts": [{"text": "x", "thoughtSignature": b"x"}]}),
]


def refusal(read: Callable[[Any], object], obj: object) -> BadInput | None:
    """Why it is refused; None if it is read."""
    try:
        read(obj)
    except BadInput as refused:
        return refused
    return None


def test_bad_input_is_refused_with_a_remedy() -> None:
    for dialect, obj in BAD:
        refused = refusal(DIALECTS[dialect].parse_message, obj)
        assert refused is not None, (dialect, obj)
        assert refused.remedy.endswith("."), (dialect, obj)
        assert len(str(refused)) < 200, (dialect, obj)


BAD_BODIES: list[Any] = [None, [], {}, {"messages": "x", "input": 3, "contents": {}}, {"messages": [3]}]
BAD_TOOLS: list[Any] = [3, {}, {"type": "web_search"}, {"type": "function", "function": 3}]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_bad_body_and_a_bad_tool_are_refused(dialect: str) -> None:
    read = DIALECTS[dialect].parse_body
    with_tools = [{"messages": [], "input": [], "contents": [], "tools": [tool]} for tool in BAD_TOOLS]
    assert [body for body in BAD_BODIES + with_tools if refusal(read, body) is None] == []


_KEYS = st.sampled_from(
    "role content type text parts tool_calls tool_call_id function name arguments id call_id output input source data "
    "image_url functionCall functionResponse response args inlineData thought thoughtSignature summary is_error".split()
)
_VALUES = st.sampled_from(
    "user assistant tool system model text image_url tool_use tool_result thinking message function_call".split()
)
_JSON = st.recursive(
    _VALUES | st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=20,
)


@sampled_law(80, 100, _JSON, st.sampled_from(sorted(DIALECTS)))
def test_any_json_is_read_or_refused(obj: object, dialect: str) -> None:
    for read in (DIALECTS[dialect].parse_message, parse_any_message):
        try:
            messages = read(obj)
        except BadInput:
            continue
        assert all(isinstance(message, Message) for message in messages)


@pytest.mark.parametrize(
    ("model", "accepted"),
    [
        ("claude-opus-4-8", True),
        ("claude-opus-4-7", False),
        ("claude-sonnet-5", False),
        ("claude-sonnet-5-1", True),
        ("claude-haiku-4-9", False),
        ("us.anthropic.claude-opus-5-5-v1:0", True),
        ("a-model-without-a-version", False),
    ],
)
def test_which_models_accept_system_messages_in_between(model: str, accepted: bool) -> None:
    assert accepts_system_messages(model) is accepted


def test_dialects_of_a_vendor_have_the_family_whose_data_they_may_send_back() -> None:
    families = {name: dialect.family for name, dialect in DIALECTS.items()}
    assert families["anthropic"] == "anthropic"
    assert set(families.values()) <= set(families), "a family is a dialect, too"
