# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Tools that are declared elsewhere than in `tools`, or that the model sees later."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.fake.server import Fake, Json, Step
from tests.gateway.scripted_client import ScriptedClient
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.core.messages import Call
from tidegate.core.tokens.counting import count_message, count_tools
from tidegate.models.token_counters import create_counter
from tidegate.wire.registry import get_dialect
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

COUNTER = create_counter("gpt-4o")
SCHEMA = {"type": "object", "properties": {f"field_{n}": {"type": "string", "description": "x y z"} for n in range(40)}}


def test_recall_is_offered_in_the_item_with_the_tools_of_codex_and_answered(tmp_path: Path) -> None:
    answers: list[Step] = [
        "Noted.",
        ScriptedAnswer(text="Let me look.", calls=(Call("r1", "recall", '{"what":"teapot"}'),)),
        "It is 4711.",
    ]

    async def run() -> None:
        async with Fake("openai_responses", answers) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
                client = ScriptedClient("openai_responses", running.url, http, {"session-id": "7"})
                tools = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
                client.messages.append({"type": "additional_tools", "role": "developer", "tools": tools})
                client.say("The code of the teapot is 4711.")
                for _ in range(2):
                    response = await client.ask(tools=[])
                    client.keep(response.json())
                    client.say("What is the code?")
        assert fake.refused == []
        for seen in fake.seen:
            first, *_ = seen.body["input"]
            assert [tool["name"] for tool in first["tools"]] == ["functions", "recall"]
            assert seen.body["tools"] == []
        assert len(fake.seen) == 3
        assert "4711" in json.dumps(fake.seen[2].body["input"][-1])
        assert "recall" not in json.dumps(client.messages)

    asyncio.run(run())


def measure(wire: str, body: Json) -> tuple[int, int]:
    """Our count of the tools and of the messages of a request."""
    host = get_dialect(wire).read_request(body)
    return count_tools(host.tools, COUNTER), sum(count_message(unit.message, COUNTER) for unit in host.units)


def make_anthropic(*blocks: Json, **deferral: bool) -> Json:
    find: Json = {"name": "find", "input_schema": {"type": "object"}}
    call = {"type": "tool_use", "id": "t1", "name": "find", "input": {}}
    messages = [
        {"role": "user", "content": "Book a room."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": list(blocks)}]},
    ]
    return {"tools": [find, {"name": "book", "input_schema": SCHEMA, **deferral}], "messages": messages}


def test_a_deferred_tool_of_anthropic_counts_where_it_is_found() -> None:
    reference = {"type": "tool_reference", "tool_name": "book"}
    tools, messages = measure("anthropic", make_anthropic(defer_loading=True))
    all_tools, _ = measure("anthropic", make_anthropic())
    _, after = measure("anthropic", make_anthropic(reference, defer_loading=True))
    definition = all_tools - tools
    assert definition > 400
    assert 0.8 * definition < after - messages < 1.5 * definition


def test_a_tool_that_a_system_message_adds_is_counted() -> None:
    body = make_anthropic(defer_loading=True)
    addition = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "book"}}
    inline = {
        "type": "tool_addition",
        "tool": {"type": "tool_definition", "definition": {"name": "b", "input_schema": SCHEMA}},
    }
    _, before = measure("anthropic", body)
    for block in (addition, inline):
        later = {**body, "messages": [*body["messages"], {"role": "system", "content": [block]}]}
        assert measure("anthropic", later)[1] > before + 400


@pytest.mark.parametrize("in_namespace", [True, False])
def test_a_deferred_function_of_openai_counts_with_what_the_model_sees(in_namespace: bool) -> None:
    def make(found: list[Json], **deferral: bool) -> Json:
        function: Json = {
            "type": "function",
            "name": "book",
            "description": "Book it.",
            "parameters": SCHEMA,
            **deferral,
        }
        space = {"type": "namespace", "name": "rooms", "description": "Rooms.", "tools": [function]}
        call = {"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {}}
        output = {"type": "tool_search_output", "call_id": "s1", "execution": "client", "tools": found}
        items = [{"role": "user", "content": "Book a room."}, call, output]
        return {"tools": [space if in_namespace else function, {"type": "tool_search"}], "input": items}

    tools, messages = measure("openai_responses", make([], defer_loading=True))
    all_tools, _ = measure("openai_responses", make([]))
    definition = {"type": "function", "name": "book", "parameters": SCHEMA}
    assert all_tools - tools > 400
    assert measure("openai_responses", make([definition], defer_loading=True))[1] > messages + 400
