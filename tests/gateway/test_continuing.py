# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Sessions of the gateway are sessions like any other: the commands and `tidegate chat` work on them."""

import asyncio
import json
from pathlib import Path

from tests.cli.calling import called
from tests.cli.test_run import Desk, asked
from tests.fake.server import Fake
from tests.gateway.scripted_client import ScriptedClient, recall_call, step_answer
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.core.events import BranchStarted
from tidegate.datafolder.data_folder import DataFolder
from tidegate.lab.importers.registry import read_recordings
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

IDS = {"x-claude-code-session-id": "abc"}
LOOK = ScriptedAnswer(text="I look it up.", calls=(recall_call(1, "teapot"),))


def run_client(folder: Path, client: ScriptedClient, steps: int, first: list[ScriptedAnswer]) -> list[str]:
    """Let the client make some steps through a gateway of its own; the bodies that the provider got."""

    async def run() -> list[str]:
        known = len([message for message in client.messages if message["role"] == "assistant"])
        answers = [*first, *(step_answer(known + number) for number in range(steps))]
        async with Fake("anthropic", answers) as fake:
            async with run_gateway(folder, upstream_of(fake), recall=True, window=12_000) as running:
                async with open_http() as http:
                    client.url, client.http = running.url, http
                    for number in range(steps):
                        await client.turn(f"result {known + number} " + "words of a tool " * 200)
        assert fake.refused == []
        return [seen.raw.decode() for seen in fake.seen]

    return asyncio.run(run())


def make_client() -> ScriptedClient:
    client = ScriptedClient("anthropic", "", None, IDS)  # type: ignore[arg-type]
    client.say("The teapot is in src/teapot.py. Repair it.")
    return client


def test_the_commands_work_on_sessions_of_the_gateway(tmp_path: Path) -> None:
    data = tmp_path / "data"
    run_client(data, make_client(), 20, [LOOK])
    assert "claude-abc" in called("sessions", "--data", data).stdout
    shown = called("show", "claude-abc", "--data", data)
    assert shown.returncode == 0
    assert "sweep" in shown.stdout
    found = called("recall", "claude-abc", "teapot", "--data", data)
    assert "The teapot is in src/teapot.py" in found.stdout
    page = tmp_path / "page.html"
    assert called("view", "claude-abc", "--data", data, "--out", page).returncode == 0
    assert "claude-abc" in page.read_text()
    arguments = ("--window", 3000, "--policy", "default", "--cache", tmp_path / "cache", "--jobs", 1)
    assert called("lab", data, *arguments, "--json", tmp_path / "lab.json").returncode == 0
    assert json.loads((tmp_path / "lab.json").read_text())


def test_chat_goes_on_where_a_client_stopped_and_the_client_after_it(tmp_path: Path) -> None:
    """The client does not know what was said in the chat: its conversation is a branch, and recall finds the rest."""
    desk = Desk(tmp_path)
    client = make_client()
    run_client(tmp_path / "data", client, 3, [LOOK])

    async def chat(server: Fake) -> None:
        ran = await desk.run("chat", "--plain", "--session", "claude-abc", stdin="Which file was it?\n")
        assert ran.status == 0, ran.err
        assert ran.out.startswith("It was src/teapot.py, says the chat.")

    server = desk.serve(["It was src/teapot.py, says the chat."], chat)
    history = json.dumps(asked(server)[0]["messages"])
    assert "The teapot is in src/teapot.py" in history
    assert "recall1" in history
    assert "result 1 " in history
    bodies = run_client(
        tmp_path / "data", client, 2, [ScriptedAnswer(text="Hm.", calls=(recall_call(2, "says chat"),))]
    )
    assert "Which file was it?" not in bodies[0]
    assert "I look it up." in bodies[0]
    assert "It was src/teapot.py, says the chat." in bodies[1]
    with DataFolder(tmp_path / "data") as data:
        events = list(data.open_log("claude-abc").read())
        assert len([event for event in events if isinstance(event.payload, BranchStarted)]) == 1
    (recording,) = read_recordings(tmp_path / "data")
    typed = [message for message in recording.messages if message["role"] == "user"]
    assert "Which file was it?" not in str(typed), "only a recall shows what was said in the chat"
