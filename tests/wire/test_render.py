"""What each dialect writes, by hand, for one small history; and the rules only one of them has."""

import json
from typing import Any

import pytest

from tests.wire.histories import (
    HISTORIES,
    PICTURE,
    REASONING,
    REDACTED,
    SIGNATURE,
    SIGNED,
    History,
    call,
    gave,
    said,
    system,
    told,
    view_of,
)
from tidegate.core.messages import Message, Text, Thinking, Tool
from tidegate.wire.anthropic.render import allows_thinking
from tidegate.wire.gemini.parse import SIGNATURE_PLACEHOLDER
from tidegate.wire.registry import DIALECTS
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.request import RequestRenderer

SMALL = (
    said("Where?"),
    told("Looking.", call("call_1", "read", '{"path": "a"}'), call("call_2", "fs.read", "{oops")),
    gave("call_2", "two", error=True),
    gave("call_1", "one"),
    system("Be brief."),
    said("So?"),
)


def body(dialect: str, history: History | tuple[Message, ...], tools: tuple[Tool, ...] = (), model: str = "m") -> Any:
    rendering = RequestRenderer(dialect, model)
    rendering.update(view_of(history, tools))
    assert rendering.faults() == []
    return json.loads(rendering.to_bytes())


CHAT = [
    {"role": "system", "content": "You are a careful engineer."},
    {"role": "user", "content": "Where?"},
    {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}},
            {
                "id": "call_2",
                "type": "function",
                "function": {"name": "fs_read_E3Xk6Osh", "arguments": '{"input":"{oops"}'},
            },
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "one"},
    {"role": "tool", "tool_call_id": "call_2", "content": "two"},
    {"role": "user", "content": "[system] Be brief.\n\nSo?"},
]


def test_openai_chat() -> None:
    assert body("openai_chat", SMALL) == {"model": "m", "messages": CHAT}


def test_mistral_has_its_own_ids_and_a_bridge() -> None:
    messages = body("mistral", SMALL)["messages"]
    ids = [made["id"] for made in messages[2]["tool_calls"]]
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert [message.get("tool_call_id") for message in messages[3:5]] == ids
    assert messages[5] == {"role": "assistant", "content": "OK."}
    assert messages[6] == CHAT[5]


def test_deepseek_sends_reasoning_back_and_never_images() -> None:
    history = (said("a"), told(Thinking("First this."), call("c1")), gave("c1", PICTURE), told("ok"), said("b"))
    messages = body("deepseek", history)["messages"]
    assert messages[2]["reasoning_content"] == "First this."
    assert messages[3]["content"] == "(image)"
    assert messages[4]["reasoning_content"] == "(none)"
    assert "reasoning_content" not in json.dumps(body("openai_chat", history))


def test_openai_responses() -> None:
    assert body("openai_responses", SMALL) == {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "You are a careful engineer.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where?"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
            {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path": "a"}'},
            {
                "type": "function_call",
                "call_id": "call_2",
                "name": "fs_read_E3Xk6Osh",
                "arguments": '{"input":"{oops"}',
            },
            {"type": "function_call_output", "call_id": "call_1", "output": "one"},
            {"type": "function_call_output", "call_id": "call_2", "output": "two"},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "[system] Be brief."},
                    {"type": "input_text", "text": "So?"},
                ],
            },
        ],
    }


def test_anthropic() -> None:
    assert body("anthropic", SMALL) == {
        "model": "m",
        "max_tokens": 4096,
        "system": "You are a careful engineer.",
        "tools": [{"name": "none", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "none"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Where?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "call_2", "name": "fs_read_E3Xk6Osh", "input": {"input": "{oops"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": "two", "is_error": True},
                    {"type": "text", "text": "[system] Be brief."},
                    {"type": "text", "text": "So?"},
                ],
            },
        ],
    }


def test_gemini() -> None:
    assert body("gemini", SMALL) == {
        "systemInstruction": {"parts": [{"text": "You are a careful engineer."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Where?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Looking."},
                    {
                        "functionCall": {"name": "read", "args": {"path": "a"}},
                        "thoughtSignature": SIGNATURE_PLACEHOLDER,
                    },
                    {"functionCall": {"name": "fs.read", "args": {"input": "{oops"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "read", "response": {"output": "one"}}},
                    {"functionResponse": {"name": "fs.read", "response": {"error": "two"}}},
                    {"text": "[system] Be brief."},
                    {"text": "So?"},
                ],
            },
        ],
    }


def test_gemini_2_gets_no_stand_in_signature() -> None:
    for model in ("gemini-2.5-pro", "models/gemini-1.5-flash"):
        assert SIGNATURE_PLACEHOLDER not in json.dumps(body("gemini", SMALL, model=model))
    assert SIGNATURE_PLACEHOLDER in json.dumps(body("gemini", SMALL, model="gemini-3-pro"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_are_defined_once_under_the_names_the_calls_use(dialect: str) -> None:
    tools = (Tool("fs.read", "Read.", '{"properties":{"p":{"type":"string"}}}'), Tool("fs.read", "Twice."), Tool("x"))
    history = (said("a"), told(call("c1", "fs.read")), gave("c1", "r"))
    found = body(dialect, history, tools)
    names = DIALECTS[dialect].tool_names(tools)
    assert sorted(names.values()) == ["fs.read", "x"]
    text = json.dumps(found)
    for name in names:
        assert f'"name": "{name}"' in text
    assert '"Read."' in text
    assert "Twice." not in text
    assert '"type": "object"' in text


# --- opaque data --------------------------------------------------------------------------------------------------


def test_anthropic_thinking_comes_back_as_it_came() -> None:
    content = body("anthropic", HISTORIES["signed thinking"])["messages"][1]["content"]
    assert content[:2] == [json.loads(SIGNED), json.loads(REDACTED)]
    assert list(content[0]) == list(json.loads(SIGNED))


def test_thinking_that_was_cut_off_goes_as_a_whole() -> None:
    content = body("anthropic", HISTORIES["thinking cut off"])["messages"][1]["content"]
    assert content == [{"type": "text", "text": "so"}]


def test_a_tool_the_server_runs_goes_with_its_result() -> None:
    content = body("anthropic", HISTORIES["tools of the server"])["messages"][1]["content"]
    assert [block["type"] for block in content] == ["server_tool_use", "web_search_tool_result", "text"]


def test_reasoning_comes_back_without_ids_right_before_its_item() -> None:
    items = body("openai_responses", HISTORIES["encrypted reasoning"])["input"]
    reasoning = json.loads(REASONING)
    sent = {key: reasoning[key] for key in ("type", "summary", "encrypted_content")}
    assert [item["type"] for item in items[1:5]] == ["reasoning", "message", "reasoning", "function_call"]
    assert items[1] == items[3] == sent


def test_reasoning_the_server_forgot_is_not_sent() -> None:
    items = body("openai_responses", HISTORIES["reasoning in clear"])["input"]
    assert [item["type"] for item in items] == ["message", "function_call", "function_call_output"]


def test_gemini_signatures_stay_on_their_parts() -> None:
    parts = body("gemini", HISTORIES["signed call"])["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [SIGNATURE, SIGNATURE, None]


@pytest.mark.parametrize("name", ["signed thinking", "encrypted reasoning", "signed call", "from every provider"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_edit_before_signed_data_removes_it_only_if_it_is_bound_to_all_before_it(dialect: str, name: str) -> None:
    whole = json.dumps(body(dialect, HISTORIES[name]))
    edited = json.dumps(body(dialect, History(name, HISTORIES[name].messages, signed=False)))
    for secret in ("EqQBCgIYAhIM", "EmwKAhgBEgy3", "gAAAAABo", SIGNATURE):
        assert (secret in edited) == (secret in whole and dialect != "anthropic")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_opaque_data_goes_only_to_who_made_it(dialect: str) -> None:
    text = json.dumps(body(dialect, HISTORIES["from every provider"]))
    owners = {"anthropic": "EqQBCgIYAhIM", "openai_responses": "gAAAAABo", "gemini": SIGNATURE}
    assert {owner for owner, secret in owners.items() if secret in text} == {dialect} & set(owners)
    assert ("plainly" in text) == DIALECTS[dialect].capabilities.plain_thinking


# --- Anthropic: may a request ask for thinking? -------------------------------------------------------------------

THOUGHT = {"type": "thinking", "thinking": "x", "signature": "s"}
USE = {"type": "tool_use", "id": "a", "name": "n", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "r"}
WORDS = {"type": "text", "text": "t"}


@pytest.mark.parametrize(
    ("blocks", "allowed"),
    [
        ([[WORDS]], True),
        ([[WORDS], [USE], [RESULT]], False),
        ([[WORDS], [THOUGHT, USE], [RESULT]], True),
        ([[WORDS], [WORDS, THOUGHT, USE], [RESULT]], False),
        ([[WORDS], [THOUGHT, USE], [RESULT], [USE], [RESULT]], True),
        ([[WORDS], [USE], [RESULT], [THOUGHT, USE], [RESULT]], False),
        ([[WORDS], [USE], [RESULT], [WORDS], [WORDS]], True),
        ([[WORDS], [USE], [RESULT], [WORDS], [WORDS], [THOUGHT, USE], [RESULT]], True),
        ([[WORDS], [THOUGHT, USE], [RESULT, WORDS], [USE], [RESULT]], False),
        ([[WORDS], [THOUGHT, USE], [RESULT, WORDS], [THOUGHT, USE], [RESULT]], True),
    ],
)
def test_a_loop_must_start_with_its_thinking(blocks: list[list[dict]], allowed: bool) -> None:
    sides = ("user", "assistant")
    messages: list[JsonObject] = [{"role": sides[n % 2], "content": content} for n, content in enumerate(blocks)]
    assert allows_thinking(messages) is allowed


def test_a_blank_system_text_is_not_sent() -> None:
    for dialect in DIALECTS:
        view = view_of((said("a"),), ())
        view.system = " \n"
        rendering = RequestRenderer(dialect)
        rendering.update(view)
        assert b"system" not in rendering.to_bytes()
        assert b"instructions" not in rendering.to_bytes()
        assert rendering.faults() == []


def test_a_text_of_many_parts_stays_one_string_in_chat() -> None:
    message = Message("user", tuple(Text(f"part {n}") for n in range(4)))
    assert body("openai_chat", (message,))["messages"][1]["content"] == "part 0\n\npart 1\n\npart 2\n\npart 3"
