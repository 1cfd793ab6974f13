"""Clients that send only what is new and name the provider's stored answer: `previous_response_id` of Responses."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake.server import KEY, Fake, Step
from tests.gateway.scripted_client import SCHEMA
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.core.events import MessageAdded, NoteAdded
from tidegate.core.messages import Call, text_of
from tidegate.core.notes import SentUnmanaged, SentWhole
from tidegate.datafolder.data_folder import DataFolder
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

Json = dict[str, Any]
WIRE = "openai_responses"
TASK = "Count the teapots. Always answer in lower case."
RULES = {"type": "message", "role": "developer", "content": "You count teapots."}


class ChainingClient:
    """Sends only what is new, as the SDK's examples do, and keeps the id of the last answer."""

    def __init__(self, url: str, http: httpx.AsyncClient, key: str = KEY, **headers: str) -> None:
        self.url, self._http = url, http
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json", **headers}
        self.ids: list[str] = []
        self.calls: list[str] = []
        self.sent: list[bytes] = []

    async def ask(self, *items: Json, previous: str = "", **more: Any) -> httpx.Response:
        tools = [{"type": "function", "name": "step", "parameters": SCHEMA}]
        body: Json = {"model": "gpt-4o", "input": list(items), "tools": tools, **more}
        if previous:
            body["previous_response_id"] = previous
        self.sent.append(json.dumps(body, separators=(",\n ", ": ")).encode())
        response = await self._http.post(f"{self.url}/v1/responses", content=self.sent[-1], headers=self._headers)
        if response.status_code == 200:
            answer = response.json()
            self.ids.append(answer["id"])
            self.calls = [each["call_id"] for each in answer["output"] if each["type"] == "function_call"]
        return response

    async def say(self, text: str) -> httpx.Response:
        return await self.ask({"role": "user", "content": text}, previous=self.ids[-1])

    async def answer_calls(self, result: str, previous: str = "") -> httpx.Response:
        items = [{"type": "function_call_output", "call_id": ident, "output": result} for ident in self.calls]
        return await self.ask(*items, previous=previous or self.ids[-1])


def play_steps(body: Json) -> Step:
    number = sum(item.get("type") == "function_call_output" for item in body["input"])
    call = Call(f"call_{len(json.dumps(body))}", "step", json.dumps({"n": number}))
    return ScriptedAnswer(text=f"step {number}", calls=(call,), thinking="hm", signature=f"sealed {number}")


def read_session(folder: Path) -> tuple[list[str], list[NoteAdded]]:
    """The texts of the messages of the only session, and its notes."""
    with DataFolder(folder) as data:
        (info,) = data.store.sessions()
        with data.open(info.name, "gpt-4o", wire=WIRE, restore=False) as session:
            payloads = [event.payload for event in session.log.read()]
    texts = [text_of(each.message) for each in payloads if isinstance(each, MessageAdded)]
    return texts, [each for each in payloads if isinstance(each, NoteAdded)]


@pytest.mark.parametrize("named", [True, False])
def test_a_request_that_fits_passes_unchanged_and_the_log_has_the_whole_conversation(
    named: bool, tmp_path: Path
) -> None:
    async def run() -> None:
        async with Fake(WIRE, ["one", "two", "three", "fork"], stores=True) as fake, open_http() as http:
            headers = {"x-tidegate-session": "s"} if named else {}
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                client = ChainingClient(running.url, http, **headers)
                await client.ask(RULES, {"role": "user", "content": TASK})
                await client.say("next")
            async with run_gateway(tmp_path, upstream_of(fake)) as running:  # the log knows, not only the process
                client.url = running.url
                await client.say("the last")
                await client.ask({"role": "user", "content": "another way"}, previous=client.ids[0])
            assert [seen.raw for seen in fake.seen] == client.sent
            assert fake.refused == []
            texts, _ = read_session(tmp_path)
            assert texts == [TASK, "one", "next", "two", "the last", "three", "another way", "fork"]

    asyncio.run(run())


def test_a_request_that_would_overflow_is_sent_whole_and_the_next_pass_unchanged_again(tmp_path: Path) -> None:
    steps, window = 40, 6_000

    async def run() -> None:
        async with Fake(WIRE, play_steps, stores=True, window=window) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=window) as running:
                client = ChainingClient(running.url, http)
                await client.ask(RULES, {"role": "user", "content": TASK})
                calls = list[list[str]]()
                for number in range(steps):
                    response = await client.answer_calls(f"line {number} of the tool. " * 60)
                    assert response.status_code == 200, response.text
                    calls.append(client.calls)
                client.calls = calls[2]  # back to before the first sweep
                await client.answer_calls("another line", previous=client.ids[3])
            bodies = [seen.body for seen in fake.seen]
            whole = [at for at, body in enumerate(bodies) if at and "previous_response_id" not in body]
            assert 1 < len(whole) < steps // 3
            pairs = enumerate(zip(fake.seen, client.sent, strict=True))
            assert all(seen.raw == sent for at, (seen, sent) in pairs if at not in whole)
            for at in whole:
                assert fake.contexts[at][0] == RULES
                assert TASK in json.dumps(fake.contexts[at])
                assert "sealed" not in json.dumps(bodies[at])
                assert "store" not in bodies[at]
                assert not any("id" in item for item in bodies[at]["input"])
            notes = [note.text for note in read_session(tmp_path)[1] if note.topic == SentWhole.topic]
            assert len(notes) == len(whole)
            assert "hidden reasoning" in notes[0]
            assert fake.refused == []

    asyncio.run(run())


def test_store_false_stays_and_such_an_answer_is_not_continued_from_the_log(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(WIRE, ["one", "two"], stores=True) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                client = ChainingClient(running.url, http, **{"x-tidegate-session": "s"})
                await client.ask({"role": "user", "content": TASK}, store=False)
                response = await client.say("next")
                assert response.status_code == 400
                assert response.json()["error"]["code"] == "previous_response_not_found"
                page = await http.get(f"{running.url}/ui", headers=running.page_headers)
            assert "1 request was passed on unmanaged" in page.text
            texts, notes = read_session(tmp_path)
            assert texts == [TASK, "one"]
            assert [note.topic for note in notes].count(SentUnmanaged.topic) == 1

    asyncio.run(run())


def test_the_id_of_another_user_is_passed_on_and_never_expanded(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(WIRE, play_steps, stores=True, any_key=True) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=2_000) as running:
                owner, other = (ChainingClient(running.url, http, key) for key in (KEY, "sk-other"))
                await owner.ask({"role": "user", "content": "the secret word is oolong " * 300})
                other.ids = owner.ids
                other.calls = owner.calls
                response = await other.answer_calls("what was it?")
            assert response.status_code == 400
            assert fake.seen[-1].raw == other.sent[-1]
            assert len(read_session(tmp_path)[0]) == 2

    asyncio.run(run())


def test_a_conversation_of_the_provider_passes_and_the_page_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(WIRE, ["one"], stores=True) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                client = ChainingClient(running.url, http)
                await client.ask({"role": "user", "content": TASK}, conversation="conv_1")
                page = await http.get(f"{running.url}/ui", headers=running.page_headers)
            assert fake.seen[0].raw == client.sent[0]
            assert "part of it is stored by the provider" in page.text

    asyncio.run(run())


def test_recall_is_answered_within_a_stored_conversation(tmp_path: Path) -> None:
    recall = Call("r1", "recall", json.dumps({"what": "teapot"}))
    step = Call("c1", "step", "{}")
    answers: list[Step] = [
        ScriptedAnswer(text="Noted."),
        ScriptedAnswer(text="Let me look.", calls=(recall,)),
        ScriptedAnswer(text="It is 4711."),
        ScriptedAnswer(text="Both.", calls=(Call("r2", "recall", recall.arguments), step)),
        ScriptedAnswer(text="Done."),
    ]

    async def run() -> None:
        async with Fake(WIRE, answers, stores=True) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
                client = ChainingClient(running.url, http)
                await client.ask({"role": "user", "content": "The code of the teapot is 4711."})
                found = (await client.say("What is the code?")).json()
                assert [item["type"] for item in found["output"]] == ["message", "message"]
                await client.say("And again, with a step.")
                last = await client.answer_calls("stepped")
                assert last.status_code == 200, last.text
            assert fake.refused == []
            assert "4711" in json.dumps(fake.contexts[2][-1])
            kinds = [item.get("type") for item in fake.contexts[-1]]
            assert kinds.count("function_call_output") == 3
            assert kinds.count("function_call") == 3

    asyncio.run(run())
