"""Reading every dialect: what is kept, and how bad input is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.histories import PICTURE, REASONING, SIGNATURE, SIGNED
from tidegate.core.messages import TOOL_RESULT, Call, Image, Message, Result, Text, Thinking, Tool, calls_of
from tidegate.wire.parsing import ParsedRequest, normalize_arguments, repair_unicode
from tidegate.wire.registry import DIALECTS

URL = f"data:image/png;base64,{PICTURE.data}"
SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}}
TOOL = Tool("read", "Read.", '{"type":"object","properties":{"p":{"type":"string"}}}')


def parse(dialect: str, body: object) -> ParsedRequest:
    return DIALECTS[dialect].parse_body(body)


def one(dialect: str, obj: object) -> Message:
    messages = DIALECTS[dialect].parse_message(obj)
    assert len(messages) == 1
    return messages[0]


# --- what is kept -------------------------------------------------------------------------------------------------

CALLING = (Text("Looking."), Call("c1", "read", '{"p": "a"}'))
GIVEN = Message("tool", (Result("c1", (Text("one"),)),), kind=TOOL_RESULT)


def test_openai_chat() -> None:
    function = {"name": "read", "description": "Read.", "parameters": SCHEMA}
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"p": "a"}'}}
    body = {
        "messages": [
            {"role": "developer", "content": "One."},
            {"role": "system", "content": [{"type": "text", "text": "Two."}]},
            {
                "role": "user",
                "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": URL}}],
            },
            {"role": "assistant", "content": "Looking.", "reasoning_content": "hm", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "system", "content": "Late."},
        ],
        "tools": [{"type": "function", "function": function}],
    }
    assert parse("openai_chat", body) == ParsedRequest(
        "One.\n\nTwo.",
        (TOOL,),
        (
            Message("user", (Text("see"), PICTURE)),
            Message("assistant", (Thinking("hm"), *CALLING), origin="openai_chat"),
            GIVEN,
            Message("system", (Text("Late."),)),
        ),
    )


def test_anthropic() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PICTURE.data}
    body = {
        "system": [{"type": "text", "text": "One."}],
        "tools": [{"name": "read", "description": "Read.", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": [
                    json.loads(SIGNED),
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"p": "a"}},
                    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "and"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "image", "source": source}],
                        "is_error": True,
                    },
                ],
            },
        ],
    }
    parsed = parse("anthropic", body)
    assert (parsed.system, parsed.tools) == ("One.", (TOOL,))
    user, answer, result, words = parsed.messages
    assert user == Message("user", (Text("go"),))
    thought, text, call, unknown = answer.parts
    assert isinstance(thought, Thinking)
    assert json.loads(thought.block) == json.loads(SIGNED)
    assert (text, call) == (Text("Looking."), Call("c1", "read", '{"p":"a"}'))
    assert isinstance(unknown, Thinking)
    assert json.loads(unknown.block)["type"] == "server_tool_use"
    assert result == Message("tool", (Result("c1", (PICTURE,), error=True),), kind=TOOL_RESULT)
    assert words == Message("user", (Text("and"),))
    assert answer.origin == "anthropic"


def test_responses_items_of_one_answer_become_one_message() -> None:
    body = {
        "instructions": "One.",
        "tools": [{"type": "function", "name": "read", "description": "Read.", "parameters": SCHEMA}],
        "input": [
            {"role": "developer", "content": "Two."},
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": URL}],
            },
            json.loads(REASONING),
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": '{"p": "a"}'},
            {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        ],
    }
    parsed = parse("openai_responses", body)
    assert (parsed.system, parsed.tools) == ("One.\n\nTwo.", (TOOL,))
    user, answer, first, second = parsed.messages
    assert user == Message("user", (Text("see"), PICTURE))
    thought, *rest = answer.parts
    assert isinstance(thought, Thinking)
    assert json.loads(thought.block) == json.loads(REASONING)
    assert rest == [*CALLING, Call("c2", "patch", '{"input":"*** Begin"}')]
    assert answer.origin == "openai_responses"
    assert first == GIVEN
    assert second.parts == (Result("c2", (Text("two"),)),)
    assert parse("openai_responses", {"input": "hello"}).messages == (Message("user", (Text("hello"),)),)


def test_gemini() -> None:
    declared = {"name": "read", "description": "Read.", "parameters": SCHEMA}
    body = {
        "systemInstruction": {"parts": [{"text": "One."}]},
        "tools": [{"functionDeclarations": [declared]}],
        "contents": [
            {"parts": [{"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": PICTURE.data}}]},
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "Looking.", "thoughtSignature": SIGNATURE},
                    {"functionCall": {"name": "read", "args": {"p": "a"}, "id": "c1"}, "thoughtSignature": SIGNATURE},
                    {"functionCall": {"name": "read", "args": {"p": "b"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "read", "response": {"output": "one"}}},
                    {"functionResponse": {"name": "read", "response": {"error": "two"}}},
                    {"functionResponse": {"name": "else", "response": {"a": 1}}},
                    {"text": "and"},
                ],
            },
        ],
    }
    parsed = parse("gemini", body)
    assert (parsed.system, parsed.tools) == ("One.", (TOOL,))
    user, answer, first, second, third, words = parsed.messages
    assert user == Message("user", (Text("see"), PICTURE))
    assert answer.parts == (
        Thinking("hm"),
        Text("Looking.", SIGNATURE),
        Call("c1", "read", '{"p":"a"}', SIGNATURE),
        Call("read", "read", '{"p":"b"}'),
    )
    assert first == GIVEN
    assert second.parts == (Result("read", (Text("two"),), error=True),)
    assert third.parts == (Result("else", (Text('{"a":1}'),)),)
    assert words == Message("user", (Text("and"),))


def test_gemini_as_its_python_package_spells_it() -> None:
    part = {"function_call": {"name": "read", "args": {}}, "thought_signature": SIGNATURE}
    assert one("gemini", {"role": "model", "parts": [part]}).parts == (Call("read", "read", "{}", SIGNATURE),)


def test_gemini_thoughts_that_are_signed_stay_whole() -> None:
    part = {"thought": True, "text": "hm", "thought_signature": SIGNATURE}
    (thought,) = one("gemini", {"role": "model", "parts": [part]}).parts
    assert isinstance(thought, Thinking)
    assert json.loads(thought.block) == {"thought": True, "text": "hm", "thoughtSignature": SIGNATURE}


def test_a_message_with_nothing_to_say_is_still_a_message() -> None:
    assert one("openai_chat", {"role": "assistant", "content": None}).parts == ()
    assert one("openai_chat", {"role": "user", "content": ""}).parts == ()
    assert one("anthropic", {"role": "user", "content": []}).parts == ()


# --- arguments and text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        ('{ "a" : 1.50 }', '{ "a" : 1.50 }'),
        ("", "{}"),
        ("  ", "{}"),
        ("[1]", '{"input":"[1]"}'),
        ('{"a": ', '{"input":"{\\"a\\": "}'),
        ("*** Begin Patch", '{"input":"*** Begin Patch"}'),
        ('{"a": NaN}', '{"input":"{\\"a\\": NaN}"}'),
        ('{"a": "\\ud83d!"}', '{"a":"\ufffd!"}'),
        ("null", '{"input":"null"}'),
    ],
)
def test_arguments_are_always_an_object(raw: str, kept: str) -> None:
    assert normalize_arguments(raw) == kept
    call = {"id": "c1", "function": {"name": "read", "arguments": raw}}
    message = one("openai_chat", {"role": "assistant", "content": None, "tool_calls": [call]})
    assert calls_of(message)[0].arguments == kept


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_any_arguments_are_an_object_with_every_character_in_it(raw: str) -> None:
    kept = normalize_arguments(repair_unicode(raw))
    assert isinstance(json.loads(kept), dict)
    assert normalize_arguments(kept) == kept


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("plain", "plain"),
        ("日本", "日本"),
        ("a\ud83d", "a\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
    ],
)
def test_text_is_made_sound(text: str, sound: str) -> None:
    assert repair_unicode(text) == sound
    obj = {"role": "user", "content": [{"type": "text", "text": text}]}
    for dialect in ("openai_chat", "anthropic"):
        assert one(dialect, obj).parts == (Text(sound),)


def test_half_pairs_inside_opaque_blocks_and_inputs_are_made_sound_too() -> None:
    block = {"type": "thinking", "thinking": "x\ud83d", "signature": "s"}
    use = {"type": "tool_use", "id": "c", "name": "n", "input": {"k\ud83d": ["\udfff"]}}
    thought, call = one("anthropic", {"role": "assistant", "content": [block, use]}).parts
    assert isinstance(thought, Thinking)
    assert json.loads(thought.block)["thinking"] == "x\ufffd"
    assert isinstance(call, Call)
    assert json.loads(call.arguments) == {"k\ufffd": ["\ufffd"]}


def test_image_addresses_are_kept() -> None:
    obj = {"role": "user", "content": [{"type": "image_url", "image_url": "https://example.com/a.png"}]}
    assert one("openai_chat", obj).parts == (Image(url="https://example.com/a.png"),)
