"""Anthropic Messages and Bedrock: for each rule a refused request and the accepted one closest to it."""

import base64
from typing import Any

from tests.fake.issued_thinking import IssuedThinking, drops_misplaced_thinking
from tests.wire.cases import Body, Case
from tidegate.wire.anthropic import validate as check_anthropic
from tidegate.wire.validation.faults import STRICT_PROFILE, RequestFault, ValidationProfile

SCHEMA = {"type": "object", "properties": {}}
TOOL = {"name": "find", "input_schema": SCHEMA}
THINK = {"type": "enabled", "budget_tokens": 1024}
MARK: Any = {"cache_control": {"type": "ephemeral"}}


def user(*blocks: Any) -> Body:
    return {"role": "user", "content": list(blocks)}


def model(*blocks: Any) -> Body:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str = "hi", **more: Any) -> Body:
    return {"type": "text", "text": words, **more}


def use(key: str = "toolu_1", **more: Any) -> Body:
    return {"type": "tool_use", "id": key, "name": "find", "input": {}, **more}


def result(key: str = "toolu_1", **more: Any) -> Body:
    return {"type": "tool_result", "tool_use_id": key, "content": "ok", **more}


def thinking(words: str = "hm", **more: Any) -> Body:
    return {"type": "thinking", "thinking": words, "signature": "sig1", **more}


def png(width: int = 1, height: int = 1, fill: int = 0) -> Body:
    raw = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    data = base64.b64encode(raw).decode().ljust(fill, "A")
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def ask(*messages: Any, tools: Any = (TOOL,), **head: Any) -> Body:
    body = {"model": "m", "max_tokens": 2048, "messages": list(messages), **head}
    return body if tools is None else {**body, "tools": list(tools)}


def row(rule: str, phrase: str, bad: Any, good: Any, **flags: Any) -> Case:
    return Case(
        rule,
        phrase,
        bad,
        good,
        check_anthropic.AnthropicValidator.validate,
        ValidationProfile(**flags) if flags else STRICT_PROFILE,
    )


U, M = user(text()), model(text())
CALLED = ask(U, model(use()), user(result()))
SERVED = model({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}, use())
WIDE = [png(2001)] * 20

ANTHROPIC = [
    row("SHAPE", "messages.0: Input should be a valid dictionary", ask(1), ask(U)),
    row("AN1", 'messages: first message must use the "user" role', ask(M, U), ask(U, M, U)),
    row("AN1", "at least one message is required", ask(), ask(U)),
    row("AN1", "Unexpected role 'system'", ask({"role": "system", "content": "x"}, U), ask(U)),
    row("AN2", 'found multiple "user" roles in a row', ask(U, U), ask(user(text(), text()))),
    row(
        "AN3",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.",
        ask(U, model(use()), U, M, U),
        ask(U, model(use()), user(result(), text()), M, U),
    ),
    row(
        "AN4",
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1.",
        ask(U, M, user(result())),
        CALLED,
    ),
    row(
        "AN5",
        "tool_result blocks must come first",
        ask(U, model(use()), user(text(), result())),
        ask(U, model(use()), user(result(), text())),
    ),
    row(
        "AN5",
        "only `tool_result` blocks may follow",
        ask(U, SERVED, user(result(), text())),
        ask(U, SERVED, user(result())),
    ),
    row(
        "AN6",
        "each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1",
        ask(U, model(use()), user(result(), result())),
        CALLED,
    ),
    row(
        "AN6",
        "messages.3.content.0: tool_use ids must be unique",
        ask(U, model(use()), user(result()), model(use()), user(result())),
        ask(U, model(use()), user(result()), model(use("toolu_2")), user(result("toolu_2"))),
    ),
    row("AN6", "should match pattern '^[a-zA-Z0-9_-]+$'", ask(U, model(use("a:1")), user(result("a:1"))), CALLED),
    row("AN7", "messages: text content blocks must be non-empty", ask(user(text(""))), ask(U)),
    row("AN7", "must contain non-whitespace text", ask(user(text(" \n"))), ask(U)),
    row(
        "AN7",
        "messages.1: all messages must have non-empty content except for the optional final assistant message",
        ask(U, model(), U),
        ask(U, model()),
        allows_prefill=True,
    ),
    row("AN7", "messages.0: user messages must have non-empty content", ask({"role": "user", "content": ""}), ask(U)),
    row(
        "AN7",
        "content cannot be empty if `is_error`",
        ask(U, model(use()), user(result(content="", is_error=True))),
        CALLED,
    ),
    row(
        "AN8",
        "does not support assistant message prefill. The conversation must end with a user message.",
        ask(U, M),
        ask(U),
    ),
    row(
        "AN8",
        "final assistant content cannot end with trailing whitespace",
        ask(U, model(text("So "))),
        ask(U, model(text("So"))),
        allows_prefill=True,
    ),
    row(
        "AN9",
        "Requests which include `tool_use` or `tool_result` blocks must define tools.",
        ask(U, model(use()), user(result()), tools=None),
        CALLED,
    ),
    row(
        "AN10",
        "tools: Tool names must be unique.",
        ask(U, tools=[TOOL, TOOL]),
        ask(U, tools=[TOOL, {**TOOL, "name": "b"}]),
    ),
    row("AN10", "should match pattern '^[a-zA-Z0-9_-]{1,64}$'", ask(U, tools=[{**TOOL, "name": "a.b"}]), ask(U)),
    row("AN10", "input_schema.type: Input should be 'object'", ask(U, tools=[{**TOOL, "input_schema": {}}]), ask(U)),
    row(
        "AN10",
        "tool_use.input: Input should be a valid dictionary",
        ask(U, model(use(input="{}")), user(result())),
        CALLED,
    ),
    row(
        "AN11",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ask(user(*[text(**MARK)] * 4), system=[text(**MARK)]),
        ask(user(*[text(**MARK)] * 3), system=[text(**MARK)]),
    ),
    row(
        "AN11",
        "Extra inputs are not permitted",
        ask(U, model(thinking(**MARK), text()), U),
        ask(U, model(thinking(), text(**MARK)), U),
    ),
    row(
        "AN12",
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final "
        "`assistant` message must start with a thinking block",
        ask(U, model(use()), user(result()), thinking=THINK, model="claude-sonnet-4-5"),
        ask(U, model(thinking(), use()), user(result()), thinking=THINK, model="claude-sonnet-4-5"),
    ),
    row(
        "AN12",
        "signature: Field required",
        ask(U, model(thinking(signature=""), text()), U),
        ask(U, model(thinking(), text()), U),
    ),
    row(
        "AN14",
        "max_tokens must be greater than thinking.budget_tokens",
        ask(U, thinking=THINK, max_tokens=1024),
        ask(U, thinking=THINK),
    ),
    row(
        "AN14",
        "greater than or equal to 1024",
        ask(U, thinking={**THINK, "budget_tokens": 1023}),
        ask(U, thinking=THINK),
    ),
    row(
        "AN14",
        "Thinking may not be enabled when tool_choice forces tool use.",
        ask(U, thinking=THINK, tool_choice={"type": "any"}),
        ask(U, thinking=THINK, tool_choice={"type": "auto"}),
    ),
    row(
        "AN15",
        "image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes",
        lambda: ask(user(png(fill=5_242_884))),
        lambda: ask(user(png(fill=5_242_880))),
    ),
    row("AN15", "exceed max allowed size: 8000 pixels", ask(user(png(1, 8001))), ask(user(png(1, 8000)))),
    row("AN15", "many-image requests: 2000 pixels", ask(user(*WIDE, png())), ask(user(*WIDE))),
    row(
        "AN15",
        "Too much media: 0 document pages + 101 images > 100",
        ask(user(*[png()] * 101)),
        ask(user(*[png()] * 100)),
    ),
    row(
        "AN15",
        "Request exceeds the maximum size",
        lambda: ask(user(*[text("x" * 3_400_000)] * 10)),
        lambda: ask(user(*[text("x" * 3_300_000)] * 10)),
    ),
    row(
        "AN16",
        "tool_choice may only be specified while providing tools.",
        ask(U, tools=None, tool_choice={"type": "auto"}),
        ask(U, tool_choice={"type": "auto"}),
    ),
    row("OC10", "The request body is not valid JSON: no low surrogate", ask(user(text("\ud83d"))), ask(U)),
]


def _bound(later: object, profile: ValidationProfile) -> list[RequestFault]:
    assert isinstance(later, dict)
    issued = IssuedThinking()
    for step in (1, 3):
        issued.issue({**NEXT, "messages": NEXT["messages"][:step]}, NEXT["messages"][step]["content"])
    faults = [] if drops_misplaced_thinking(later) else issued.find_faults(later)
    return faults + check_anthropic.AnthropicValidator.validate(later, profile)


FIRST = ask(U, model(thinking(), use()), user(result()), system="s", thinking=THINK)
STEP = (model(thinking("and", signature="sig2"), use("toolu_2")), user(result("toolu_2")))
NEXT = ask(*FIRST["messages"], *STEP, system="s", thinking=THINK)
DROP = {**THINK, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
ELSEWHERE = "The block is bound to a different conversation."

BINDING = [
    Case(
        "AN12",
        "cannot be modified",
        {**FIRST, "messages": [U, model(thinking("!"), use()), user(result())]},
        FIRST,
        _bound,
    ),
    Case("AN13", ELSEWHERE, {**NEXT, "system": "t"}, NEXT, _bound),
    Case("AN13", ELSEWHERE, {**NEXT, "system": "t"}, {**NEXT, "system": "t", "thinking": DROP}, _bound),
    Case("AN13", ELSEWHERE, ask(user(text("ho")), *NEXT["messages"][1:], system="s"), {**NEXT, "system": "s"}, _bound),
    Case(
        "AN13",
        ELSEWHERE,
        {**NEXT, "tools": [{**TOOL, "description": "new"}]},
        {**NEXT, "tools": [{**TOOL, **MARK}]},
        _bound,
    ),
]
