"""`tidegate run` that is told to end by a signal: as clean as after Ctrl-C. And what is shown before the first turn."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.cli.desk import CONFIG, Desk, ForkedDesk, asked
from tests.fake.server import Fake, Hang
from tidegate.core.messages import Call
from tidegate.models.scripted_provider import ScriptedAnswer


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return ForkedDesk(tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGHUP, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)])
def test_what_was_shown_is_kept_and_the_status_names_the_signal(desk: Desk, number: signal.Signals) -> None:
    words = "It is the linker, because of the flags. " * 40

    async def act(server: Fake) -> None:
        process = await desk.start("run", "Why is it slow?", "--session", "slow")
        assert process.stdout is not None
        await process.stdout.readexactly(20)
        process.send_signal(number)
        _, err = await process.communicate()
        assert (process.returncode, err.decode()) == (128 + number, "tidegate: stopped\n")
        assert (await desk.run("run", "And?", "--session", "slow")).status == 0
        assert (await desk.run("doctor")).status == 0

    server = desk.serve([Hang(ScriptedAnswer(text=words), 2048), "I was stopped."], act)
    assert server.hung_up == 1
    assert server.refused == []
    sent = json.dumps(asked(server)[-1]["messages"])
    assert "It is the linker" in sent
    assert sent.count("[interrupted]") == 1


def test_what_a_tool_had_started_ends_with_it(desk: Desk) -> None:
    desk.configure(CONFIG + "capabilities: {default_policy: allow}\n")
    call = ScriptedAnswer(calls=(Call("c", "shell", '{"command": "echo $$ > pid; sleep 300"}'),))

    async def act(server: Fake) -> None:
        process = await desk.start("run", "Wait.", "--session", "slow", "--json")
        pid = desk.folder / "pid"
        while not (pid.is_file() and pid.read_text().strip()):
            assert process.returncode is None
            await asyncio.sleep(0.02)
        child = Path("/proc") / pid.read_text().strip()
        assert child.exists()
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        assert process.returncode == 143
        assert not child.exists()
        assert (await desk.run("run", "And?", "--session", "slow")).status == 0

    server = desk.serve([call, "It was stopped."], act)
    assert server.refused == []
    (answer,) = [each for each in asked(server)[-1]["messages"] if each["role"] == "tool"]
    assert "interrupted" in answer["content"]


def test_a_greeting_is_shown_once_and_never_to_the_model(desk: Desk) -> None:
    desk.configure(CONFIG + 'execution: {greeting: "Ask me about ports."}\n')

    async def act(server: Fake) -> None:
        first = await desk.run("run", "Hello.", "--session", "s", "--json")
        assert {"type": "greeting", "text": "Ask me about ports."} in first.lines
        again = await desk.run("run", "Hello.", "--session", "s", "--json")
        assert not [line for line in again.lines if line["type"] == "greeting"]
        plain = await desk.run("run", "Hello.")
        assert (plain.out, plain.err) == ("Three.\n", "")

    server = desk.serve(["One.", "Two.", "Three."], act)
    assert "Ask me about ports" not in json.dumps(asked(server))
