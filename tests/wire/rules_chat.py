"""Chat Completions: for each rule a refused request and the accepted one closest to it."""

from typing import Any

from tests.wire.cases import Body, Case
from tests.wire.chat_demands import MINIMAX_DEMANDS, MOONSHOT_DEMANDS, XAI_DEMANDS
from tidegate.wire.openai_chat import validate as check_openai_chat
from tidegate.wire.registry import DIALECTS
from tidegate.wire.validation.faults import STRICT_PROFILE, ChatDemands, ValidationProfile

OBJECT = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "hello"}
SYSTEM = {"role": "system", "content": "be brief"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def call(key: str = "call_1", arguments: Any = "{}", name: str = "find") -> Body:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made: Body, content: Any = None, **more: Any) -> Body:
    return {"role": "assistant", "content": content, "tool_calls": list(made), **more}


def answer(key: str = "call_1", content: Any = "ok") -> Body:
    return {"role": "tool", "tool_call_id": key, "content": content}


def tool(name: str = "find", parameters: Any = OBJECT) -> Body:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def chat(*messages: Any, **head: Any) -> Body:
    return {"model": "m", "messages": list(messages), **head}


def row(rule: str, phrase: str, bad: Any, good: Any, **flags: Any) -> Case:
    return Case(
        rule,
        phrase,
        bad,
        good,
        check_openai_chat.ChatValidator.validate,
        ValidationProfile(**flags) if flags else STRICT_PROFILE,
    )


MISTRAL_DEMANDS = DIALECTS["mistral"].profile_for_model("").chat
A, B = "call_1", "call_2"
A9, B9 = "abcdEF123", "abcdEF124"
TWO = calls(call(A), call(B))
MANY = [call(f"call_{n}") for n in range(129)]
MANY_ANSWERS = [answer(f"call_{n}") for n in range(129)]
DONE = chat(USER, calls(call()), answer())
UNIQUE = "function names must be unique"

CHAT = [
    row("SHAPE", "expected an object, but got an integer", chat(USER, 1), chat(USER)),
    row("OC1", "Invalid 'messages': empty array. Expected an array with minimum length 1", chat(), chat(USER)),
    row("OC2", "must be a response to a preceeding message with 'tool_calls'", chat(USER, answer()), DONE),
    row("OC2", "'tool_call_id' of 'call_1' not found in 'tool_calls'", chat(*DONE["messages"], answer()), DONE),
    row(
        "OC3",
        "The following tool_call_ids did not have response messages: call_2",
        chat(USER, TWO, answer(A), USER),
        chat(USER, TWO, answer(B), answer(A), USER),
    ),
    row("OC3", "must be followed by tool messages responding to each", chat(USER, calls(call()), USER), DONE),
    row(
        "OC4",
        "Invalid 'messages[1].tool_calls': empty array",
        chat(USER, calls(content="x"), USER),
        chat(USER, SAID, USER),
    ),
    row(
        "OC4",
        "array too long. Expected an array with maximum length 128",
        chat(USER, calls(*MANY), *MANY_ANSWERS),
        chat(USER, calls(*MANY[:128]), *MANY_ANSWERS[:128]),
    ),
    row(
        "OC5",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 152",
        chat(USER, tools=[tool(f"t{n}") for n in range(152)]),
        chat(USER, tools=[tool(f"t{n}") for n in range(128)]),
    ),
    row("OC5", "Invalid 'tools': empty array", chat(USER, tools=[]), chat(USER, tools=[tool()])),
    row("OC5", "does not match pattern", chat(USER, tools=[tool("a b")]), chat(USER, tools=[tool("a_b")])),
    row("OC5", "maximum length 64", chat(USER, tools=[tool("a" * 65)]), chat(USER, tools=[tool("a" * 64)])),
    row("OC5", UNIQUE, chat(USER, tools=[tool(), tool()]), chat(USER, tools=[tool(), tool("f2")])),
    row(
        "OC5", "Invalid schema for function 'find'", chat(USER, tools=[tool(parameters={})]), chat(USER, tools=[tool()])
    ),
    row(
        "OC5",
        "only allowed when 'tools'",
        chat(USER, tool_choice="auto"),
        chat(USER, tools=[tool()], tool_choice="auto"),
    ),
    row(
        "OC6",
        "string too long. Expected a string with maximum length 40",
        chat(USER, calls(call("x" * 41)), answer("x" * 41)),
        chat(USER, calls(call("x" * 40)), answer("x" * 40)),
    ),
    row("OC6", "maximum length 64", chat(USER, user="u" * 65), chat(USER, user="u" * 64)),
    row("OC7", "arguments must be a valid JSON object string", chat(USER, calls(call(A, '{"a": ')), answer()), DONE),
    row("OC7", "arguments must be a valid JSON object string", chat(USER, calls(call(A, "[1]")), answer()), DONE),
    row(
        "OC7",
        "maximum length 1048576",
        chat(USER, calls(call(A, '{"a":"' + "x" * 1_048_569 + '"}')), answer()),
        chat(USER, calls(call(A, '{"a":"' + "x" * 1_048_568 + '"}')), answer()),
    ),
    row(
        "OC8",
        "Invalid value for 'content': expected a string, got null.",
        chat(USER, SAID | {"content": None}, USER),
        chat(USER, SAID | {"content": ""}, USER),
    ),
    row("OC8", "expected a string, got null", chat({"role": "user", "content": None}), chat(USER)),
    row(
        "OC8",
        "only allowed for messages with role 'user'",
        chat(SYSTEM | {"content": [IMAGE]}, USER),
        chat(SYSTEM, USER | {"content": [IMAGE]}),
    ),
    row(
        "OC8",
        "empty array",
        chat({"role": "user", "content": []}),
        chat(USER | {"content": [{"type": "text", "text": "a"}]}),
    ),
    row("OC9", 'Unexpected role "developer"', chat(SYSTEM | {"role": "developer"}, USER), chat(SYSTEM, USER)),
    row(
        "OC9",
        'Unexpected role "robot"',
        chat(SYSTEM, USER, {"role": "robot", "content": "x"}),
        chat(SYSTEM | {"role": "developer"}, USER),
        allows_developer_role=True,
    ),
    row(
        "OC10", "no low surrogate in string", chat(USER | {"content": "\ud83d"}), chat(USER | {"content": "\U0001f600"})
    ),
    row(
        "OC10",
        "maximum length 10485760",
        lambda: chat(USER | {"content": "x" * 10_485_761}),
        lambda: chat(USER | {"content": "x" * 10_485_760}),
    ),
    row("OC11", "Conversation roles must alternate user/assistant", chat(SAID, USER), chat(USER, SAID, USER)),
    row("OC11", "(messages[0] and messages[1] in your input)", chat(USER, USER), chat(USER, SAID, USER)),
    row(
        "OC11",
        "... No repeats. (messages[0]",
        chat(USER, USER),
        chat(USER, SAID, USER),
        chat=ChatDemands(repeated_role_text="No repeats."),
    ),
    row("OC11", "roles must alternate", chat(*DONE["messages"], SAID), chat(*DONE["messages"], SAID, USER)),
    row("OC11", "System message must be at the beginning", chat(USER, SYSTEM), chat(SYSTEM, USER)),
    row("OC11", "Only one system message", chat(SYSTEM, SYSTEM, USER), chat(SYSTEM, USER)),
    row(
        "OC12",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
        DONE,
        chat(USER, calls(call(), reasoning_content="hm"), answer()),
        requires_reasoning=True,
    ),
    row(
        "OC12",
        "Missing `reasoning_content` field in the assistant message at message index 3",
        chat(USER, calls(call(), reasoning_content="hm"), answer(), SAID, USER),
        chat(USER, SAID, USER),
        requires_reasoning=True,
    ),
    row("OC13", "Invalid request: tool_call_id  is not found", chat(USER, answer()), DONE, chat=MOONSHOT_DEMANDS),
    row(
        "OC14",
        "invalid params, tool call result does not follow tool call (2013)",
        chat(USER, TWO, answer(B), answer(A)),
        chat(USER, TWO, answer(A), answer(B)),
        chat=MINIMAX_DEMANDS,
    ),
    row(
        "OC14",
        "tool call result does not follow tool call",
        chat(USER, calls(call()), USER),
        DONE,
        chat=MINIMAX_DEMANDS,
    ),
    row(
        "OC15", "expected string, got list", chat(USER, calls(call()), answer(A, [{"type": "text", "text": "x"}])), DONE
    ),
    row(
        "OC15",
        "messages.content.type",
        chat(USER | {"content": [IMAGE]}),
        chat(USER | {"content": [{"type": "text", "text": "x"}]}),
        text_only=True,
    ),
    row(
        "XA1",
        '/required: null is not of type "array"',
        chat(USER, tools=[tool(parameters={"type": "object"})]),
        chat(USER, tools=[tool()]),
        chat=XAI_DEMANDS,
    ),
]

MISTRAL_DONE = chat(USER, calls(call(A9)), answer(A9), tools=[tool()])
PREFIX = SAID | {"prefix": True}
MISTRAL = [
    row("MI1", "prefix True must be last", chat(USER, PREFIX, USER), chat(USER, SAID, USER), chat=MISTRAL_DEMANDS),
    row(
        "MI1",
        "Expected last role User or Tool",
        chat(USER, SAID),
        chat(USER, SAID | {"prefix": True}),
        chat=MISTRAL_DEMANDS,
    ),
    row(
        "MI1",
        "Unexpected role 'user' after role 'tool'",
        chat(USER, calls(call(A9)), answer(A9), USER),
        MISTRAL_DONE,
        chat=MISTRAL_DEMANDS,
    ),
    row(
        "MI2",
        "Not the same number of function calls and responses",
        chat(USER, calls(call(A9), call(B9)), answer(A9), SAID, USER),
        chat(USER, calls(call(A9), call(B9)), answer(A9), answer(B9), SAID, USER),
        chat=MISTRAL_DEMANDS,
    ),
    row(
        "MI3",
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        DONE,
        MISTRAL_DONE,
        chat=MISTRAL_DEMANDS,
    ),
    row(
        "MI4",
        "Assistant message must have either content or tool_calls",
        chat(USER, SAID | {"content": ""}, USER),
        chat(USER, SAID, USER),
        chat=MISTRAL_DEMANDS,
    ),
    row(
        "MI5",
        "does not match pattern",
        chat(USER, tools=[tool("a b")]),
        chat(USER, tools=[tool("a_b")]),
        chat=MISTRAL_DEMANDS,
    ),
    row(
        "MI5",
        "Invalid tool schema",
        chat(USER, tools=[tool(parameters=OBJECT | {"required": 5})]),
        chat(USER, tools=[tool()]),
        chat=MISTRAL_DEMANDS,
    ),
    row(
        "MI5",
        "System prompt must have content",
        chat(SYSTEM | {"content": None}, USER),
        chat(SYSTEM, USER),
        chat=MISTRAL_DEMANDS,
    ),
]
