"""Gemini CLI in a small window: it gives calls ids of its own, doubles results when it resumes, and adds images.

Its requests stay one session, fit the window, and have the task and the rule. `make test-clients` runs the real one.
"""

import asyncio
import base64
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.fake.server import Fake
from tests.gateway.scripted_client import ScriptedClient
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tests.scale import mark_all_but
from tidegate import DataFolder
from tidegate.core.events import BranchStarted
from tidegate.core.message_key import hash_message
from tidegate.core.messages import Call, Image, Message, Text, calls_of, result_of, text_of
from tidegate.core.sweep.shortening import clip_message
from tidegate.wire.answers import read_reply
from tidegate.wire.gemini.client_request import read_gemini
from tidegate.wire.gemini.dialect import DIALECT as GEMINI
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

Json = dict[str, Any]
WINDOW, STEPS = 8_000, 24
TASK, RULE = "Make all the steps.", "Never push to main."
IMAGE = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(bytes(600)).decode()}}
INTERRUPTED_AT = 17
"""After this call the user says something else: two calls have no results."""
CLIPPED = 9
"""So many of the first messages have clipped copies of their results."""
OUTPUT = "\n".join(f"line {number} of the output of a tool" for number in range(40))


def make_answer(body: Json) -> ScriptedAnswer:
    """A signed call without an id, or two at once; text after the last step of a turn."""
    steps = [int(number) for number in re.findall(r'"n": (\d+)', json.dumps(body))]
    step = max(steps, default=0) + 1
    if step % STEPS == 0 and "Go on." not in json.dumps(body["contents"][-1]):
        return ScriptedAnswer(text="All done.")
    calls = tuple(Call("", "step", json.dumps({"n": number})) for number in range(step, step + 1 + (step % 5 == 1)))
    return ScriptedAnswer(text=f"Step {step}.", calls=calls, thinking=f"Now {step}.", signature=f"c2ln{step:04}")


class GeminiCli(ScriptedClient):
    """Keeps a conversation as Gemini CLI does. `calls` counts them."""

    calls = 0

    def keep(self, answer: Json, result: str = "") -> list[str]:
        content = answer["candidates"][0]["content"]
        content["parts"] = [part for part in content["parts"] if not part.get("thought") and part.get("text") != ""]
        self.messages.append(content)
        results: list[Json] = []
        for part in content["parts"]:
            if "functionCall" not in part:
                continue
            self.calls += 1
            call = part["functionCall"]
            call["id"] = f"{call['name']}_{1794998795847 + self.calls}_0"
            response = {"id": call["id"], "name": call["name"], "response": {"output": f"{result} {self.calls}"}}
            results.append({"functionResponse": response})
        if self.calls == INTERRUPTED_AT:
            self.say("Go on.")
        elif results:
            image = [IMAGE] if self.calls % 3 == 0 else []
            self.messages.append({"role": "user", "parts": [*results, *image]})
        return [str(self.calls)] if results else []

    def _clip(self, part: Json) -> Json:
        response = part["functionResponse"]
        return {"functionResponse": {**response, "response": {"output": f"The rest is in a file: {response['id']}."}}}

    def resume(self, *, without_task: bool = False) -> None:
        """What a new process sends: all results twice, and no signatures. In old ones it writes where the rest is.

        After a long turn it sends the history `without_task`.
        """
        if without_task:
            self.messages[0] = {"role": "user", "parts": [{"text": f"<session_context>{self.calls}</session_context>"}]}
        for place, content in enumerate(self.messages):
            parts = [
                [part, self._clip(part) if place < CLIPPED else part] if "functionResponse" in part else [part]
                for part in content["parts"]
            ]
            content["parts"] = [part for each in parts for part in each]
            for part in content["parts"]:
                if "thoughtSignature" in part:
                    part["thoughtSignature"] = "skip_thought_signature_validator"


def check_pairs(body: Json) -> None:
    """Each result names a call of the message before it."""
    for before, content in pairwise(body["contents"]):
        calls = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
        results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        assert [(call["name"], call["id"]) for call in calls] == [(each["name"], each["id"]) for each in results]


@pytest.mark.filterwarnings("error::tidegate.core.errors.IgnoredResultWarning")
@pytest.mark.parametrize(
    ("model", "without_task"),
    mark_all_but([("gemini-2.5-pro", False), ("gemini-3-pro", False), ("gemini-3-pro", True)], ("gemini-3-pro", True)),
)
def test_all_turns_are_one_session_and_fit_the_window(model: str, without_task: bool, tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            Fake("gemini", make_answer, window=WINDOW) as fake,
            run_gateway(tmp_path, upstream_of(fake), window=WINDOW) as running,
            open_http() as http,
        ):
            client = GeminiCli("gemini", running.url, http)
            for request in (f"{TASK} {RULE}", "Now the other half. Go on.", "And again. Go on.")[: 2 + without_task]:
                client.say(request)
                while True:
                    response = await client.ask(f"/v1beta/models/{model}:generateContent")
                    assert response.status_code == 200, response.text
                    if not client.keep(response.json(), OUTPUT):
                        break
                client.resume(without_task=without_task)
        assert client.calls > 2 * STEPS - 6
        for seen in fake.seen:
            assert TASK in seen.raw.decode()
            assert RULE in seen.raw.decode()
            check_pairs(seen.body)
        assert any("[image left out]" in seen.raw.decode() for seen in fake.seen)
        assert "defect" not in "".join(running.lines)

    asyncio.run(run())
    data = DataFolder(tmp_path, secrets=[])
    (info,) = data.store.sessions()
    with data.open(info.name, model, window=WINDOW) as session:
        branches = sum(isinstance(event.payload, BranchStarted) for event in session.log.read())
        assert branches == (2 if without_task else 0)
        assert without_task or session.view.total_turns == 3, "images of a tool are not a request"
        assert [rule.text for rule in session.rules] == [RULE]


def test_results_are_matched_by_id_and_then_by_place() -> None:
    """The engine's names of calls are those of the answer, whatever the client calls them."""
    calls = [{"functionCall": {"name": "f", "args": {"n": n}, "id": f"f_{n}{n}{n}_0"}} for n in range(3)]
    results = [
        {"functionResponse": {"name": "f", "id": f"f_{n}{n}{n}_0", "response": {"output": str(n)}}} for n in (2, 0)
    ]
    unnamed = {"functionResponse": {"name": "f", "response": {"output": "1"}}}
    answer = {"role": "model", "parts": calls}
    answered, *units = read_gemini({"contents": [answer, {"role": "user", "parts": [*results, unnamed]}]}).units
    assert [call.id for call in calls_of(answered.message)] == ["f", "f_2", "f_3"]
    found = [(result_of(unit.message), text_of(unit.message)) for unit in units]
    assert [(result and result.call_id, text) for result, text in found] == [("f_3", "2"), ("f", "0"), ("f_2", "1")]
    bare = [{"functionCall": {"name": "f", "args": {"n": n}}} for n in range(3)]
    reply = read_reply(GEMINI, GEMINI.to_client_messages([{"role": "model", "parts": bare}]))
    assert reply is not None
    assert hash_message(reply) == hash_message(answered.message)


def test_of_a_message_with_nothing_but_images_a_line_stays() -> None:
    image = Image("image/png", "aGk=")
    assert clip_message(Message("user", (image,), id="m1"), 100) == (Text("[image left out]"),)
    assert clip_message(Message("user", (Text("Look."), image), id="m1"), 100) == (Text("Look.\n[image left out]"),)
