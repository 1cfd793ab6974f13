"""A new dialect is one module and one line of the registry: the session and the gateway know nothing else of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake.server import KEY, Fake
from tests.gateway.serving import open_http, run_gateway
from tests.wire.toy_dialect import NAME, TOY
from tidegate.core.messages import Call
from tidegate.core.usage import Usage
from tidegate.gateway.settings import Upstream
from tidegate.session.session import Session
from tidegate.wire.answers import create_assembler, parse_reply
from tidegate.wire.registry import DIALECTS, detect_dialect
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer
from tidegate.wire.streaming.sse import SseReader, decode_frame

Json = dict[str, Any]
STEP: Json = {"name": "step", "about": "Step on.", "takes": {"type": "object"}}


@pytest.fixture(autouse=True)
def _register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DIALECTS, NAME, TOY)


def user(*parts: Json) -> Json:
    return {"role": "user", "said": list(parts)}


def find_faults(body: Json) -> list[str]:
    check = TOY.create_validator({key: body[key] for key in body if key != "turns"}, TOY.profile_for_model(""))
    for turn in body["turns"]:
        check.feed(turn)
    return [fault.rule for fault in check.finish()]


def test_a_session_parses_shortens_and_renders_it() -> None:
    session = Session(wire=NAME, window=4_000, system="Be kind.", count="chars/4")
    assert detect_dialect(user({"text": "hi"})) == NAME
    session.add(user({"text": "Count the files, and never delete one."}))
    body: Json = {}
    for step in range(40):
        session.add({"role": "robot", "said": [{"do": {"id": f"c{step}", "name": "step", "with": {"n": step}}}]})
        output = {"output": f"file {step}\n" * 60}
        session.add(user({"did": {"id": f"c{step}", "gave": output}}))
        body = session.prepare().body
        assert find_faults(body) == []
    assert session.view.first_edit_seq
    assert body["turns"][0]["said"][0]["text"].startswith("Count the files, and never delete one.")
    assert len(json.dumps(body)) < 4 * 4_000
    session.record({"read": 1_234, "wrote": 5})
    assert session.view.tokens >= 1_234


def test_its_validator_sees_what_is_wrong() -> None:
    answered = [
        user({"text": "go"}),
        {"role": "robot", "said": [{"do": {"id": "c", "name": "step", "with": {}}}]},
        user({"did": {"id": "c", "gave": {"output": "x"}}}),
    ]
    assert find_faults({"turns": answered}) == []
    assert find_faults({"turns": answered[:2]}) == ["TOY2"]
    assert find_faults({"turns": [*answered[:2], user({"text": "and?"})]}) == ["TOY4"]
    assert find_faults({"turns": answered, "temperature": 1}) == ["TOY1"]


class Client:
    """A client of the dialect that keeps its own list of turns."""

    def __init__(self, url: str, http: Any) -> None:
        self.url, self._http = url, http
        self.turns: list[Json] = []

    async def ask(self, *parts: Json, stream: bool = False) -> Json:
        self.turns.append(user(*parts))
        body = {"model": "m", "limit": 500, "tools": [STEP], "turns": self.turns} | ({"stream": True} if stream else {})
        headers = {"authorization": f"Bearer {KEY}", "x-tidegate-session": "s"}
        response = await self._http.post(f"{self.url}/{NAME}/v1/toy", json=body, headers=headers)
        assert response.status_code == 200, response.text
        answer = self._read_stream(response.content) if stream else response.json()
        self.turns.append(answer["turn"])
        return dict(answer)

    @staticmethod
    def _read_stream(data: bytes) -> Json:
        assembler = create_assembler(NAME)
        for frame in SseReader().feed(data):
            if (value := decode_frame(frame)) is not None:
                assembler.feed(value)
        reply = assembler.finish()
        assert parse_reply(NAME, reply)
        return {"turn": reply.message, "cost": reply.usage}


RECALL = Call("r1", "recall", '{"what":"teapot"}')
USAGE = Usage(100, 10, 0, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_logs_it_and_answers_hidden_calls(stream: bool, tmp_path: Path) -> None:
    answers = [
        ScriptedAnswer(text="Noted."),
        ScriptedAnswer(text="Let me look.", calls=(RECALL,), usage=USAGE),
        ScriptedAnswer(text=" It is 4711.", calls=(Call("c1", "step", '{"n":1}'),), usage=USAGE),
        ScriptedAnswer(text="Done."),
    ]

    async def run() -> None:
        async with Fake(NAME, answers) as fake:
            upstream = Upstream(NAME, "openai", fake.host)
            async with run_gateway(tmp_path, upstream, recall=True) as running, open_http() as http:
                client = Client(running.url, http)
                await client.ask({"text": "The code of the teapot is 4711."}, stream=stream)
                found = await client.ask({"text": "What is the code?"}, stream=stream)
                assert found["cost"]["wrote"] == 20
                await client.ask({"did": {"id": "c1", "gave": {"output": "stepped"}}}, stream=stream)
        assert fake.refused == []
        assert len(fake.seen) == 4
        shown, last = json.dumps(client.turns), fake.seen[-1].raw.decode()
        assert "recall" not in shown
        assert "It is 4711." in shown
        assert last.index("Let me look.") < last.index('"r1"') < last.index("It is 4711.") < last.index("stepped")
        assert " user: The code of the teapot is 4711." in last

    asyncio.run(run())


def test_the_gateway_shortens_its_requests(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(NAME, lambda _: ScriptedAnswer(text="Go on. " * 40), window=6_000) as fake:
            upstream = Upstream(NAME, "openai", fake.host)
            async with run_gateway(tmp_path, upstream, window=6_000) as running, open_http() as http:
                client = Client(running.url, http)
                for number in range(30):
                    await client.ask({"text": f"Part {number}: " + "much to read here. " * 60})
        assert fake.refused == []
        assert "Part 29" in fake.seen[-1].raw.decode()
        assert len(fake.seen[-1].body["turns"]) < len(client.turns) - 1

    asyncio.run(run())
