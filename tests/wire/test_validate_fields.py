"""One field of a good request at a time: each wrong value is told, at its place and under its rule."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.wire import rules_anthropic as an
from tests.wire import rules_chat as oc
from tests.wire import rules_gemini as ge
from tests.wire import rules_responses as rs
from tests.wire.cases import GONE, Body, replaced
from tests.wire.chat_demands import MINIMAX_DEMANDS
from tidegate.wire.anthropic import validate as check_anthropic
from tidegate.wire.gemini import validate as check_gemini
from tidegate.wire.openai_chat import validate as check_openai_chat
from tidegate.wire.openai_responses import validate as check_openai_responses
from tidegate.wire.validation.faults import STRICT_PROFILE, RequestFault, ValidationProfile

# path, new value, rule, words of the refusal
Row = tuple[tuple[Any, ...], Any, str, str]

TWO_CALLS = oc.calls(oc.call(), oc.call("call_2"))
CHAT = oc.chat(oc.USER, TWO_CALLS, oc.answer(), oc.answer("call_2"), oc.SAID, oc.USER, tools=[oc.tool()])
CALL = ("messages", 1, "tool_calls", 0)
CHAT_ROWS: list[Row] = [
    ((), 5, "SHAPE", "'body'"),
    (("messages",), 5, "SHAPE", "'messages': expected an array"),
    (("messages", 0, "tool_calls"), [], "OC4", "Unknown parameter: 'messages[0].tool_calls'"),
    (("messages", 2, "tool_call_id"), GONE, "OC2", "Missing required parameter: 'messages[2].tool_call_id'"),
    (("messages", 2, "tool_call_id"), "", "OC6", "'messages[2].tool_call_id': empty string"),
    (("messages", 1, "tool_calls"), None, "OC4", "'messages[1].tool_calls': expected an array"),
    (CALL, 5, "SHAPE", "'messages[1].tool_calls[0]'"),
    ((*CALL, "type"), "custom", "SHAPE", "'messages[1].tool_calls[0]'"),
    ((*CALL, "id"), GONE, "OC6", "Missing required parameter"),
    ((*CALL, "id"), "call_2", "OC2", "'call_2' is repeated"),
    ((*CALL, "function", "name"), "a b", "OC5", "function.name': string does not match pattern"),
    ((*CALL, "function", "name"), "", "OC5", "function.name': empty string"),
    ((*CALL, "function", "arguments"), {}, "OC7", "expected a string, but got an object"),
    ((*CALL, "function", "arguments"), '{"a": "\\ud83d"}', "OC7", "valid JSON object string"),
    ((*CALL, "function", "arguments"), '{"a": NaN}', "OC7", "valid JSON object string"),
    (("messages", 0, "content"), 5, "OC8", "'messages[0].content': expected one of a string or array"),
    (("messages", 0, "content"), ["x"], "OC8", "'messages[0].content[0]'"),
    (("messages", 0, "content"), [{"type": "refusal", "refusal": "no"}], "OC8", "Invalid value: 'refusal'"),
    (("messages", 0, "content"), [{"type": "text"}], "OC8", "'messages[0].content[0].text': expected a string"),
    (("messages", 0, "content"), [{"type": "image_url", "image_url": {"url": ""}}], "OC8", "content[0].image_url"),
    (("tools",), 5, "OC5", "'tools': expected an array"),
    (("tools", 0), 5, "OC5", "'tools[0].function'"),
]

RESPONSES = rs.ask(
    rs.USER, rs.reasoning(**rs.BLOB), rs.call(key="fc_1"), rs.output(), rs.said(), rs.USER, instructions="be brief"
)
RESPONSES_ROWS: list[Row] = [
    ((), [], "SHAPE", "'body'"),
    (("input",), 5, "SHAPE", "'input'"),
    (("input", 0), 5, "SHAPE", "'input[0]'"),
    (("input", 0, "type"), 5, "SHAPE", "'input[0].type'"),
    (("input", 0, "type"), "poem", "SHAPE", "Invalid value: 'poem'"),
    (("instructions",), [], "SHAPE", "'instructions'"),
    (("user",), "u" * 65, "OC6", "'user': string too long"),
    (("input", 2, "id"), 5, "OR6", "'input[2].id': expected a string"),
    (("input", 2, "id"), "", "OR6", "'input[2].id': empty string"),
    (("input", 2, "id"), "fc_" + "x" * 62, "OR6", "'input[2].id': string too long"),
    (("input", 2, "id"), "fc:1", "OR6", "letters, numbers, underscores, or dashes"),
    (("input", 2, "call_id"), GONE, "OR6", "Missing required parameter: 'input[2].call_id'"),
    (("input", 2, "call_id"), "", "OR6", "'input[2].call_id': empty string"),
    (("input", 4), rs.call(), "OR6", "Duplicate item found with call_id call_1"),
    (("input", 2, "name"), "a b", "OC5", "'input[2].name'"),
    (("input", 2, "arguments"), {}, "OR9", "'input[2].arguments': expected a string"),
    (("input", 2, "arguments"), "[]", "OR9", "valid JSON object string"),
    (("input", 1, "encrypted_content"), 5, "OR7", "'input[1].encrypted_content'"),
    (("input", 0, "role"), "tool", "OC9", "Invalid value: 'tool'"),
    (("input", 0, "content"), None, "OC8", "'input[0].content'"),
    (("input", 3, "output"), [], "OC8", "'input[3].output': empty array"),
    (("input", 4, "content", 0, "text"), 5, "OC8", "'input[4].content[0].text'"),
    (("tools",), [5], "OC5", "'tools[0]'"),
]

ANTHROPIC = an.ask(
    an.user(an.text(), an.png()),
    an.model(an.thinking(), an.use()),
    an.user(an.result(content=[an.text()])),
    system=[an.text("be brief")],
)
SOURCE = ("messages", 0, "content", 1, "source")
USE = ("messages", 1, "content", 1)
RESULT = ("messages", 2, "content", 0)
ANTHROPIC_ROWS: list[Row] = [
    ((), 5, "SHAPE", "valid dictionary"),
    (("messages",), 5, "SHAPE", "messages: Input should be a valid list"),
    (("messages", 0, "content"), 5, "SHAPE", "messages.0.content"),
    (("messages", 0, "content"), " ", "AN7", "must contain non-whitespace text"),
    (("messages", 0, "content", 0), 5, "SHAPE", "messages.0.content.0"),
    (("messages", 0, "content", 0), an.thinking(), "AN12", "`thinking` blocks can only be in `assistant` messages"),
    (("messages", 0, "content", 0), an.use(), "AN3", "`tool_use` blocks can only be in `assistant` messages"),
    (("messages", 0, "content", 0, "text"), 5, "SHAPE", "messages.0.content.0.text.text: Field required"),
    (("messages", 0, "content", 0, "cache_control"), {"type": "ever"}, "AN11", "Input should be 'ephemeral'"),
    (("messages", 0, "content", 0), an.text("", **an.MARK), "AN7", "cache_control cannot be set for empty text blocks"),
    (SOURCE, None, "AN15", "source: Field required"),
    ((*SOURCE, "data"), "", "AN15", "data: Field required"),
    ((*SOURCE, "media_type"), "image/tiff", "AN15", "media_type: Input should be 'image/jpeg'"),
    (("messages", 1, "content", 0, "thinking"), GONE, "AN12", "thinking.thinking: Field required"),
    (("messages", 1, "content", 0), {"type": "redacted_thinking"}, "AN12", "redacted_thinking.data: Field required"),
    (("messages", 1, "content", 0), an.result(), "AN4", "`tool_result` blocks can only be in `user` messages"),
    ((*USE, "name"), "a b", "AN10", "tool_use.name: String should match pattern"),
    ((*USE, "input"), {"a": [float("nan")]}, "OC10", "NaN or Infinity"),
    ((*RESULT, "tool_use_id"), GONE, "AN4", "tool_use_id: Field required"),
    ((*RESULT, "content"), 5, "SHAPE", "tool_result.content.0"),
    ((*RESULT, "content", 0), an.text(""), "AN7", "must be non-empty"),
    (("system",), 5, "SHAPE", "system: Input should be a valid list"),
    (("system", 0), 5, "SHAPE", "system.0.type"),
    (("system", 0, "text"), "", "AN7", "system: text content blocks must be non-empty"),
    (("system", 0, "text"), "\n", "AN7", "system: text content blocks must contain non-whitespace text"),
    (("tools",), 5, "AN10", "tools: Input should be a valid list"),
    (("tools",), [5, an.TOOL], "AN10", "tools.0: Input should be a valid dictionary"),
    (("tools", 0, "input_schema"), GONE, "AN10", "input_schema: Field required"),
    (("tools", 0, "input_schema", "required"), "q", "AN10", "JSON schema is invalid"),
    (("thinking",), {"type": "on"}, "AN14", "thinking: Input tag 'on'"),
]

GEMINI = ge.ask(
    ge.U, ge.model(ge.call()), ge.user(ge.response()), systemInstruction={"parts": [ge.text()]}, tools=ge.declare()
)
DECLARED = ("tools", 0, "functionDeclarations")
PART = ("contents", 0, "parts", 0)
GEMINI_ROWS: list[Row] = [
    ((), 5, "SHAPE", "Invalid JSON payload received"),
    (("contents",), 5, "SHAPE", "'contents'"),
    (("systemInstruction",), "x", "GE1", "at least one parts field"),
    (("systemInstruction", "name"), "x", "GE8", "Unknown name \"name\" at 'system_instruction'"),
    (("systemInstruction", "parts", 0), ge.text(""), "GE1", "empty text parameter"),
    (("contents", 1), ge.model(ge.call(), ge.response()), "GE4", "function response turn comes immediately after"),
    (("contents", 0), ge.M, "GE2", "alternate between user and model"),
    (PART, 5, "SHAPE", "'contents[0].parts[0]'"),
    ((*PART, "text"), 5, "SHAPE", "(TYPE_STRING)"),
    ((*PART, "fileData"), {"fileUri": "f", "mimeType": "a/b"}, "GE8", "oneof field 'data' is already set"),
    (PART, {"inlineData": 5}, "SHAPE", "'contents[0].parts[0].inlineData'"),
    (PART, {"inlineData": {"mimeType": "image/png"}}, "GE1", "mimeType and data are required"),
    (("contents", 1, "parts", 0, "functionCall", "id"), -1, "SHAPE", "functionCall.id' (TYPE_STRING)"),
    (("contents", 1, "parts", 0, "functionCall", "args"), {"a": float("inf")}, "OC10", "NaN or Infinity"),
    (("contents", 1, "parts", 0, "functionCall", "arg"), {}, "GE8", 'Unknown name "arg"'),
    (("tools",), 5, "SHAPE", "'tools'"),
    (("tools", 0), 5, "SHAPE", "'tools[0]'"),
    (("tools", 0, "functions"), [], "GE8", 'Unknown name "functions"'),
    (DECLARED, 5, "SHAPE", "function_declarations"),
    (DECLARED, [5], "SHAPE", "function_declarations[0]"),
    (DECLARED, [{"name": "a"}, {"name": "a"}], "GE5", "Duplicate function declaration found: a"),
    ((*DECLARED, 0, "parametersJsonSchema"), {"type": "thing"}, "GE8", "parameters_json_schema"),
    ((*DECLARED, 0, "parameters_json_schema"), {"type": "thing"}, "GE8", "parameters_json_schema"),
    ((*DECLARED, 0, "parameters"), {"type": "array", "items": 5}, "GE8", "(Schema)"),
    ((*DECLARED, 0, "parameters"), {"anyOf": [{"$ref": "#"}]}, "GE8", 'Unknown name "$ref"'),
]

Judge = Callable[[object, ValidationProfile], list[RequestFault]]
TABLES: list[tuple[str, Body, Judge, list[Row]]] = [
    ("chat", CHAT, check_openai_chat.ChatValidator.validate, CHAT_ROWS),
    ("responses", RESPONSES, check_openai_responses.ResponsesValidator.validate, RESPONSES_ROWS),
    ("anthropic", ANTHROPIC, check_anthropic.AnthropicValidator.validate, ANTHROPIC_ROWS),
    ("gemini", GEMINI, check_gemini.GeminiValidator.validate, GEMINI_ROWS),
]
ROWS = [
    pytest.param(base, judge, row, id=f"{name}-{'.'.join(map(str, row[0]))}-{row[2]}-{at}")
    for name, base, judge, rows in TABLES
    for at, row in enumerate(rows)
]


@pytest.mark.parametrize(("base", "judge", "row"), ROWS)
def test_one_wrong_field_is_told(base: Body, judge: Judge, row: Row) -> None:
    path, value, rule, phrase = row
    assert judge(base, STRICT_PROFILE) == []
    faults = judge(replaced(base, path, value), STRICT_PROFILE)
    assert any(fault.rule == rule and phrase in fault.text for fault in faults), faults


MERGED = an.ask(an.U, an.model(an.use()), an.user(an.result()), an.U, an.M, an.M, an.U)
LOOSE = ValidationProfile(alternate=False)


def test_without_alternation_neighbours_are_read_as_one_message() -> None:
    assert check_anthropic.AnthropicValidator.validate(MERGED, LOOSE) == []
    assert {fault.rule for fault in check_anthropic.AnthropicValidator.validate(MERGED)} == {"AN2"}
    late = an.ask(an.U, an.model(an.use()), an.U, an.user(an.result()))
    assert {fault.rule for fault in check_anthropic.AnthropicValidator.validate(late, LOOSE)} == {"AN5"}
    lost = an.ask(an.U, an.model(an.use()), an.U, an.U)
    assert {fault.rule for fault in check_anthropic.AnthropicValidator.validate(lost, LOOSE)} == {"AN3"}
    twice = oc.chat(oc.USER, oc.USER, oc.SAID, oc.SYSTEM)
    assert check_openai_chat.ChatValidator.validate(twice, LOOSE) == []
    assert check_gemini.GeminiValidator.validate(ge.ask(ge.U, ge.U), LOOSE) == []


def test_a_call_turn_needs_a_turn_before_it() -> None:
    faults = check_gemini.GeminiValidator.validate(
        ge.ask(ge.U, ge.M, ge.model(ge.call()), ge.user(ge.response())), LOOSE
    )
    assert [fault.rule for fault in faults] == ["GE3"]


def test_minimax_and_mistral_tell_orphans_in_their_own_words() -> None:
    orphan = oc.chat(oc.USER, oc.answer())
    assert [
        fault.rule
        for fault in check_openai_chat.ChatValidator.validate(orphan, ValidationProfile(chat=MINIMAX_DEMANDS))
    ] == ["OC14"]
    twice = oc.chat(oc.USER, oc.calls(oc.call(oc.A9)), oc.answer(oc.A9), oc.answer(oc.A9))
    assert [
        fault.rule
        for fault in check_openai_chat.ChatValidator.validate(twice, ValidationProfile(chat=oc.MISTRAL_DEMANDS))
    ] == ["MI2"]
    system = oc.chat(oc.USER, oc.SAID, oc.SYSTEM, oc.USER)
    assert [
        fault.rule
        for fault in check_openai_chat.ChatValidator.validate(system, ValidationProfile(chat=oc.MISTRAL_DEMANDS))
    ] == ["MI1"]


def test_a_tool_loop_goes_on_until_the_user_speaks() -> None:
    """Thinking is owed for the running loop only, and only at its start. Newer models demand none."""
    options: dict[str, Any] = {"thinking": an.THINK, "model": "claude-sonnet-4-5"}
    first = (an.U, an.model(an.thinking(), an.use()), an.user(an.result()))
    later = (an.model(an.use("toolu_2")), an.user(an.result("toolu_2")))
    assert check_anthropic.AnthropicValidator.validate(an.ask(*first, *later, **options)) == []
    bare = (an.U, an.model(an.use()), an.user(an.result()), an.M)
    assert check_anthropic.AnthropicValidator.validate(an.ask(*bare, an.U, **options)) == []
    words = an.ask(an.U, an.model(an.use()), an.user(an.result(), an.text()), **options)
    assert [fault.rule for fault in check_anthropic.AnthropicValidator.validate(words)] == ["AN12"]
    newer = an.ask(an.U, an.model(an.use()), an.user(an.result()), thinking=an.THINK, model="claude-opus-5-5")
    assert check_anthropic.AnthropicValidator.validate(newer) == []
