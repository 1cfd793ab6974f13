# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Recall that the client does not see, with the official SDKs against a strict fake provider."""

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake.server import KEY, Fake, Hang, Step
from tests.fake.words import busy
from tests.gateway.scripted_client import ScriptedClient, recall_call, step_answer
from tests.gateway.serving import open_http, run_gateway, until, upstream_of
from tests.gateway.test_sdks import gemini_client
from tests.scale import mark_all_but
from tidegate.core.messages import Call
from tidegate.core.usage import Usage
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

pytestmark = pytest.mark.sdk

Json = dict[str, Any]
WIRES = ("anthropic", "openai_chat", "openai_responses", "gemini")
each_wire = pytest.mark.parametrize("wire", WIRES)


def count_recall_tools(body: Json) -> int:
    return json.dumps(body.get("tools", [])).count('"name": "recall"')


@each_wire
def test_an_answer_that_recalls_is_continued(wire: str, tmp_path: Path) -> None:
    answers = [
        ScriptedAnswer(text="Noted."),
        ScriptedAnswer(text="Let me look.", calls=(recall_call(1, "teapot"),), usage=Usage(100, 10, 0, 0)),
        ScriptedAnswer(text="It is 4711.", calls=(Call("c1", "step", '{"n":1}'),), usage=Usage(200, 20, 0, 0)),
        ScriptedAnswer(text="Done."),
    ]

    async def run() -> None:
        async with Fake(wire, answers) as fake, run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
            async with open_http() as http:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                client.say("The code of the teapot is 4711.")
                assert await client.turn() == []
                client.say("What is the code?")
                assert await client.turn("stepped") != []
                assert await client.turn() == []
        assert fake.refused == []
        assert len(fake.seen) == 4
        assert [count_recall_tools(seen.body) for seen in fake.seen] == [1, 1, 1, 1]
        said = json.dumps(client.messages)
        assert "recall" not in said
        assert "Let me look." in said
        assert "It is 4711." in said
        third, last = (json.dumps(fake.seen[place].body) for place in (2, 3))
        for body in (third, last):
            assert body.count("recall1") >= (0 if wire == "gemini" else 2)
            assert " user: The code of the teapot is 4711." in body
        assert last.count("Let me look.") == last.count("It is 4711.") == 1
        assert (
            last.index("Let me look.")
            < last.index(" user: The code")
            < last.index("It is 4711.")
            < last.index("stepped")
        )

    asyncio.run(run())


MIXED = [
    ScriptedAnswer(
        text="Both.",
        thinking="Hm.",
        signature="c2lnMQ==",
        calls=(recall_call(1, "teapot"), Call("c1", "step", '{"n":1}')),
        usage=Usage(100, 10, 0, 0),
    ),
    ScriptedAnswer(
        text="Once more.",
        thinking="So.",
        signature="c2lnMg==",
        calls=(recall_call(2, "4711"),),
        usage=Usage(300, 30, 0, 0),
    ),
    ScriptedAnswer(text="It is 4711.", thinking="Ah.", signature="c2lnMw==", usage=Usage(400, 40, 0, 0)),
    ScriptedAnswer(text="Bye.", usage=Usage(500, 50, 0, 0)),
]
STEP: Json = {"type": "object", "properties": {"n": {"type": "integer"}}}


def talk_anthropic(url: str) -> list[Json]:
    import anthropic

    client = anthropic.Anthropic(api_key=KEY, base_url=f"{url}/s/s", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": "The code of the teapot is 4711. What is it?"}]
    usages = []
    while True:
        with client.messages.stream(
            model="claude-opus-5-5",
            max_tokens=20_000,
            thinking={"type": "adaptive"},
            messages=messages,
            tools=[{"name": "step", "input_schema": STEP}],
        ) as stream:
            indices = [event.index for event in stream if event.type == "content_block_start"]
            final = stream.get_final_message()
        assert indices == list(range(len(final.content)))
        usages.append((final.usage.input_tokens, final.usage.output_tokens))
        messages.append({"role": "assistant", "content": [block.to_dict() for block in final.content]})
        calls = [block.id for block in final.content if block.type == "tool_use"]
        assert (final.stop_reason == "tool_use") == bool(calls)
        if not calls and len(usages) == 3:
            assert usages == [(100, 10), (400, 70), (500, 50)]
            return messages
        results = [{"type": "tool_result", "tool_use_id": ident, "content": "stepped"} for ident in calls]
        messages.append({"role": "user", "content": results or "Thanks."})


def talk_chat(url: str) -> list[Json]:
    import openai

    client = openai.OpenAI(api_key=KEY, base_url=f"{url}/s/s/v1", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": "The code of the teapot is 4711. What is it?"}]
    usages = []
    while True:
        with client.chat.completions.stream(
            model="gpt-4o",
            messages=messages,
            tools=[{"type": "function", "function": {"name": "step", "parameters": STEP}}],
            stream_options={"include_usage": True},
        ) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        assert final.usage is not None
        usages.append((final.usage.prompt_tokens, final.usage.completion_tokens))
        message = final.choices[0].message
        messages.append(message.to_dict(exclude_none=True) if hasattr(message, "to_dict") else message)
        calls = [call.id for call in message.tool_calls or []]
        assert final.choices[0].finish_reason == ("tool_calls" if calls else "stop")
        if not calls and len(usages) == 3:
            assert usages == [(100, 10), (400, 70), (500, 50)]
            return messages
        results = [{"role": "tool", "tool_call_id": ident, "content": "stepped"} for ident in calls]
        messages += results or [{"role": "user", "content": "Thanks."}]


def talk_responses(url: str) -> list[Json]:
    import openai

    client = openai.OpenAI(api_key=KEY, base_url=f"{url}/s/s/v1", max_retries=0)
    items: list[Any] = [{"role": "user", "content": "The code of the teapot is 4711. What is it?"}]
    usages = []
    while True:
        numbers = []
        with client.responses.stream(
            model="gpt-4o",
            input=items,
            store=False,
            tools=[{"type": "function", "name": "step", "parameters": STEP, "strict": False}],
        ) as stream:
            for event in stream:
                numbers.append(event.sequence_number)
            final = stream.get_final_response()
        assert numbers == list(range(len(numbers)))
        assert final.usage is not None
        usages.append((final.usage.input_tokens, final.usage.output_tokens))
        items += [item.to_dict(exclude_none=True) for item in final.output]
        calls = [item.call_id for item in final.output if item.type == "function_call"]
        if not calls and len(usages) == 3:
            assert usages == [(100, 10), (400, 70), (500, 50)]
            return items
        results = [{"type": "function_call_output", "call_id": ident, "output": "stepped"} for ident in calls]
        items += results or [{"role": "user", "content": "Thanks."}]


def talk_gemini(url: str) -> list[Json]:
    client = gemini_client(f"{url}/s/s")
    contents: list[Any] = [{"role": "user", "parts": [{"text": "The code of the teapot is 4711. What is it?"}]}]
    declared = [{"name": "step", "parameters": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}}]
    usages = []
    while True:
        parts: list[Json] = []
        usage = (0, 0)
        for piece in client.models.generate_content_stream(
            model="gemini-3-pro-preview", contents=contents, config={"tools": [{"function_declarations": declared}]}
        ):
            content = piece.candidates[0].content
            parts += [part.model_dump(exclude_none=True) for part in content.parts or []] if content else []
            if piece.usage_metadata:
                usage = (piece.usage_metadata.prompt_token_count, piece.usage_metadata.candidates_token_count)
        usages.append(usage)
        contents.append({"role": "model", "parts": parts})
        calls = [part["function_call"] for part in parts if "function_call" in part]
        if not calls and len(usages) == 3:
            assert usages == [(100, 10), (400, 70), (500, 50)]
            return contents
        results: list[Json] = [
            {"function_response": {"id": call["id"], "name": call["name"], "response": {"output": "stepped"}}}
            for call in calls
        ]
        contents.append({"role": "user", "parts": results or [{"text": "Thanks."}]})


TALKS = {
    "anthropic": talk_anthropic,
    "openai_chat": talk_chat,
    "openai_responses": talk_responses,
    "gemini": talk_gemini,
}


@each_wire
def test_a_stream_with_thinking_and_with_calls_of_both(wire: str, tmp_path: Path) -> None:
    """The SDK sends back what it got. The provider judges each request, and where signed thinking is in it."""

    async def run() -> None:
        async with Fake(wire, MIXED, binding="prefix") as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
                messages = await asyncio.to_thread(TALKS[wire], running.url)
        assert fake.refused == []
        assert len(fake.seen) == 4
        assert "recall" not in str(messages)
        second, third, last = (json.dumps(seen.body) for seen in fake.seen[1:])
        assert " user: The code of the teapot is 4711" in second
        assert second.index("Both.") < second.index(" user: The code") < second.index("stepped")
        assert (
            last.index(" user: The code") < last.index("Once more.") < last.index("It is 4711.") < last.index("Thanks.")
        )
        assert len(third) < len(last)
        for text in ("Both.", "Once more.", "It is 4711.", "stepped"):
            assert last.count(f'"{text}"') == 1, text

    asyncio.run(run())


def test_texts_behind_joined_thinking_stay_before_their_hidden_calls(tmp_path: Path) -> None:
    """A client that joins what came in pieces has one thought and one text of three answers."""
    answers = [
        ScriptedAnswer(thinking="One.", calls=(recall_call(1, "start"),)),
        ScriptedAnswer(text="Look.", thinking="Two.", calls=(recall_call(2, "start"),)),
        ScriptedAnswer(text="So.", calls=(Call("c1", "step", '{"n":1}'),)),
        ScriptedAnswer(text="End."),
    ]

    async def run() -> None:
        async with Fake("gemini", answers) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient("gemini", running.url, http, {"x-tidegate-session": "s"})
                client.say("start")
                await client.turn("stepped")
                answer = client.messages[1]
                thoughts, texts = (
                    "".join(
                        part["text"] for part in answer["parts"] if "text" in part and bool(part.get("thought")) == kind
                    )
                    for kind in (True, False)
                )
                calls = [part for part in answer["parts"] if "functionCall" in part]
                answer["parts"] = [{"text": thoughts, "thought": True}, {"text": texts}, *calls]
                assert (thoughts, texts, len(calls)) == ("One.Two.", "Look.So.", 1)
                await client.turn()
        assert fake.refused == []
        last = [part for item in fake.seen[-1].body["contents"] for part in item["parts"] if not part.get("thought")]
        said = [part.get("text") or next(iter(part.values()))["name"] for part in last]
        assert said[said.index("recall") :] == ["recall", "recall", "Look.", "recall", "recall", "So.", "step", "step"]

    asyncio.run(run())


def test_reasoning_whose_id_the_client_omits_stays_before_its_hidden_calls(tmp_path: Path) -> None:
    """An answer of Responses that only recalls: its reasoning goes back in front of the call, not behind the result."""
    answers = [
        ScriptedAnswer(thinking="Hm.", signature="c2lnMQ==", calls=(recall_call(1, "start"),)),
        ScriptedAnswer(text="So.", thinking="Ah.", signature="c2lnMg=="),
        ScriptedAnswer(text="Bye.", thinking="Oh.", signature="c2lnMw=="),
    ]
    bodies = talk_responses_without_ids(answers, tmp_path)
    kinds = [item.get("type", "message") for item in bodies[2]["input"]]
    assert kinds == [
        "message",
        *("reasoning", "function_call", "function_call_output"),
        *("reasoning", "message", "message"),
    ]


def test_a_hidden_call_without_reasoning_is_sent_back_without_its_id(tmp_path: Path) -> None:
    """A model that thinks may answer without reasoning. An item with an id is refused without its reasoning."""
    answers = [
        ScriptedAnswer(text="Yes.", thinking="Hm.", signature="c2lnMQ=="),
        ScriptedAnswer(text="Let me look.", calls=(recall_call(1, "start"),)),
        ScriptedAnswer(text="So."),
    ]
    for body in talk_responses_without_ids(answers, tmp_path)[2:]:
        items = [item for item in body["input"] if item.get("type") == "function_call"]
        assert [(item["name"], item.get("id")) for item in items] == [("recall", None)]


def talk_responses_without_ids(answers: list[ScriptedAnswer], folder: Path) -> list[Json]:
    """The requests of a client that keeps no ids of items, as Codex does. Nothing of it is refused."""

    async def run() -> list[Json]:
        async with Fake("openai_responses", [*answers, ScriptedAnswer(text="End.")]) as fake:
            async with run_gateway(folder, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient("openai_responses", running.url, http, {"x-tidegate-session": "s"})
                while len(fake.seen) <= len(answers):
                    client.say("start")
                    response = await client.ask(include=["reasoning.encrypted_content"])
                    assert response.status_code == 200, response.text
                    client.keep(response.json())
        assert fake.refused == []
        return [seen.body for seen in fake.seen]

    return asyncio.run(run())


@each_wire
def test_at_most_eight_rounds(wire: str, tmp_path: Path) -> None:
    answers = [ScriptedAnswer(text=f"Try {n}.", calls=(recall_call(n, f"m{n}"),)) for n in range(9)]

    async def run() -> None:
        async with Fake(wire, [*answers, "End."]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                client.say("start")
                assert await client.turn() == []
                assert len(fake.seen) == 9
                client.say("go on")
                assert (await client.ask()).status_code == 200
        assert fake.refused == []
        assert "last recall" in json.dumps(fake.seen[8].body)
        assert "recall" not in json.dumps(client.messages)

    asyncio.run(run())


@each_wire
def test_requests_that_get_no_tool(wire: str, tmp_path: Path) -> None:
    """Without tools, and with a tool of that name of the client: forwarded byte for byte."""

    async def run() -> None:
        async with Fake(wire, ["one", "two", "three"]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient(wire, running.url, http)
                client.say("hello")
                own = json.loads(json.dumps(client.body()["tools"]).replace("step", "recall"))
                cases: list[Json] = [{"tools": []}, {"tools": None}, {"tools": own}]
                for more in cases:
                    await client.ask(**more)
        assert [seen.raw for seen in fake.seen] == client.sent

    asyncio.run(run())


@pytest.mark.parametrize("wire", mark_all_but(WIRES, "anthropic", "gemini"))
def test_the_prefix_never_moves_and_survives_a_restart(wire: str, tmp_path: Path) -> None:
    """Each request begins with the messages of the one before it, hidden exchanges included."""
    answers = [
        ScriptedAnswer(text="Look.", calls=(recall_call(1, "start"),)),
        ScriptedAnswer(text="So.", calls=(Call("c1", "step", '{"n":1}'),)),
        ScriptedAnswer(text="And.", calls=(Call("c2", "step", '{"n":2}'), recall_call(2, "start"))),
        ScriptedAnswer(text="Next.", calls=(Call("c3", "step", '{"n":3}'),)),
        ScriptedAnswer(text="End."),
    ]

    async def run() -> None:
        async with Fake(wire, answers) as fake:
            client: ScriptedClient | None = None
            for _ in range(4):
                async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                    if client is None:
                        client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                        client.say("start")
                    client.url, client.http = running.url, http
                    await client.turn("stepped")
        assert fake.refused == []
        key = {"openai_responses": "input", "gemini": "contents"}.get(wire, "messages")
        lists = [[json.dumps(strip_ids(item), sort_keys=True) for item in seen.body[key]] for seen in fake.seen]
        assert [len(each) for each in lists] == sorted(len(each) for each in lists)
        for before, after in pairwise(lists):
            assert after[: len(before)] == before

    asyncio.run(run())


def strip_ids(item: Json) -> Json:
    """An item without what clients leave out or add, such as the ids of items."""
    return {key: value for key, value in item.items() if key not in ("id", "status")}


def test_without_recall_the_notes_do_not_mention_it(tmp_path: Path) -> None:
    bodies: dict[bool, list[str]] = {}

    async def run(recall: bool) -> None:
        answers = (step_answer(number) for number in range(99))
        async with Fake("anthropic", answers) as fake:
            async with run_gateway(tmp_path / str(recall), upstream_of(fake), recall=recall, window=12_000) as running:
                async with open_http() as http:
                    client = ScriptedClient("anthropic", running.url, http)
                    client.say("start")
                    for step in range(30):
                        await client.turn(f"result {step} " + "words of a tool " * 300)
        assert fake.refused == []
        bodies[recall] = [seen.raw.decode() for seen in fake.seen]

    for recall in (True, False):
        asyncio.run(run(recall))
    assert any("recall m" in body for body in bodies[True])
    shortened = re.compile(r"Left out here|cleared|lines\]|characters\]")
    assert any(shortened.search(body) for body in bodies[False])
    assert not any("recall" in body for body in bodies[False])


def test_tokens_are_counted_for_what_is_sent(tmp_path: Path) -> None:
    answers = [
        ScriptedAnswer(text="Look.", calls=(recall_call(1, "start"),)),
        ScriptedAnswer(text="So.", calls=(Call("c1", "step", '{"n":1}'),)),
        ScriptedAnswer(text="End."),
    ]

    async def run() -> None:
        async with Fake("anthropic", answers) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
                client.say("start")
                await client.turn("stepped")
                await client.ask("/v1/messages/count_tokens")
                await client.ask()
        counted, sent = (seen.body for seen in fake.seen[-2:])
        assert counted["messages"] == sent["messages"]
        assert counted["tools"] == sent["tools"]

    asyncio.run(run())


@each_wire
def test_a_request_without_tools_is_sent_without_the_hidden_exchanges(wire: str, tmp_path: Path) -> None:
    answers = [
        ScriptedAnswer(text="Look.", calls=(recall_call(1, "start"),)),
        ScriptedAnswer(text="So."),
        ScriptedAnswer(text="A summary."),
        ScriptedAnswer(text="On."),
    ]

    async def run() -> None:
        async with Fake(wire, answers) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                client.say("start")
                await client.turn()
                client.say("Summarize.")
                assert (await client.ask(tools=None if wire == "openai_chat" else [])).status_code == 200
                client.messages.pop()
                client.say("Go on.")
                await client.turn()
        assert fake.refused == []
        assert fake.seen[2].raw == client.sent[1]
        assert " user: start" in fake.seen[3].raw.decode()

    asyncio.run(run())


@each_wire
def test_an_upstream_that_refuses_to_continue(wire: str, tmp_path: Path) -> None:
    """A whole answer becomes the refusal. A stream breaks off, and the client asks again."""
    refusal = busy(wire, 429, "7")
    answers: list[Step] = [
        ScriptedAnswer(text="Look.", calls=(recall_call(1, "start"),)),
        refusal,
        ScriptedAnswer(text="Look.", calls=(recall_call(2, "start"),)),
        refusal,
        ScriptedAnswer(text="Fine."),
    ]

    async def run() -> None:
        async with Fake(wire, answers) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                client.say("start")
                response = await client.ask()
                assert (response.status_code, response.headers["retry-after"]) == (429, "7")
                path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse" if wire == "gemini" else ""
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.ask(path, **({} if wire == "gemini" else {"stream": True}))
                assert await client.turn() == []
        assert len(fake.refused) == 2
        assert "recall1" not in fake.seen[-1].raw.decode()

    asyncio.run(run())


def test_a_client_that_hangs_up_while_an_answer_is_continued(tmp_path: Path) -> None:
    """The upstream is cancelled, and the same request can be made again."""
    rest = ScriptedAnswer(text="The rest of the answer. " * 60)
    answers: list[Step] = [
        ScriptedAnswer(text="Look.", calls=(recall_call(1, "start"),)),
        Hang(rest, 1500),
        ScriptedAnswer(text="Look.", calls=(recall_call(2, "start"),)),
        ScriptedAnswer(text="Done."),
        ScriptedAnswer(text="Bye."),
    ]

    async def run() -> None:
        async with Fake("anthropic", answers) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
                client.say("start")
                raw = json.dumps(client.body() | {"stream": True}).encode()
                url = running.url + "/v1/messages"
                async with http.stream("POST", url, content=raw, headers=client.headers) as response:
                    async for piece in response.aiter_raw():
                        if b"The rest" in piece:
                            break
                await until(lambda: fake.hung_up)
                assert await client.turn() == []
                client.say("Go on.")
                assert await client.turn() == []
        assert fake.refused == []
        last = fake.seen[-1].raw.decode()
        assert "recall2" in last
        assert "recall1" not in last
        assert [block["text"] for block in client.messages[1]["content"]] == ["Look.", "Done."]

    asyncio.run(run())


def test_a_tool_of_the_client_with_this_name_is_left_to_it_and_that_is_said(tmp_path: Path) -> None:
    async def run() -> list[str]:
        call = ScriptedAnswer(text="", calls=(Call("c1", "recall", '{"n": 1}'),))
        async with Fake("anthropic", [call, "done"]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
                tools = [{"name": "recall", "input_schema": {"type": "object", "properties": {}}}]
                client.say("start")
                for _ in range(2):
                    client.keep((await client.ask(tools=tools)).json(), "remembered by the client")
        assert [seen.raw for seen in fake.seen] == client.sent
        assert "remembered by the client" in fake.seen[1].raw.decode()
        return running.lines

    said = [line for line in asyncio.run(run()) if "a tool named 'recall'" in line]
    assert len(said) == 1
    assert "--recall-tool" in said[0]
