"""`tidegate wrap --session` with another client: what is refused, what is said before, what is sent.

These are the commands of README.md and docs/shared-sessions.md.
"""

import asyncio
import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake.server import KEY, Fake, strings
from tests.gateway.scripted_client import step_answer
from tests.gateway.test_wrap import Finished, Machine
from tidegate.datafolder.data_folder import DataFolder
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

CODEX = '''#!{python}
"""Plays Codex: it says one thing and prints the answer."""
import json, os, re, sys, urllib.request

url = re.search(r'base_url="([^"]+)"', " ".join(sys.argv))[1]
body = {{"model": "gpt-5", "store": False, "input": [{{"role": "user", "content": "Go on."}}],
        "tools": [{{"type": "function", "name": "step", "parameters": {{"type": "object"}}}}]}}
headers = {{"content-type": "application/json", "authorization": "Bearer {key}", "session-id": "x1", "thread-id": "x1",
           "x-tidegate-token": os.environ["TIDEGATE_GATEWAY_TOKEN"]}}
with urllib.request.urlopen(urllib.request.Request(url + "/responses", json.dumps(body).encode(), headers)) as answer:
    print(json.load(answer)["output"][0]["content"][0]["text"])
'''


def make_machine(folder: Path) -> Machine:
    machine = Machine(folder)
    codex = folder / "bin" / "codex"
    codex.write_text(CODEX.format(python=sys.executable, key=KEY))
    codex.chmod(stat.S_IRWXU)
    return machine


def begin_session(machine: Machine) -> None:
    """Two steps of Claude Code in the session `pump`."""

    async def run() -> None:
        async with Fake("anthropic", [step_answer(0), step_answer(1)]) as fake:
            found = await machine.wrap("claude", "--session", "pump", "--", "2", "0", ANTHROPIC_BASE_URL=fake.host)
            assert found.status == 0, found.errors

    asyncio.run(run())


def read_log(machine: Machine) -> int:
    with DataFolder(machine.data) as data:
        return data.store.head("pump")


def test_codex_continues_what_claude_began(tmp_path: Path) -> None:
    machine = make_machine(tmp_path)
    has_git = shutil.which("git") is not None
    if has_git:
        subprocess.run(["git", "init", "-b", "main", str(machine.work)], check=True, capture_output=True)
    begin_session(machine)
    (machine.work / "pump.py").write_text("speed = 1\n")
    head = read_log(machine)

    async def run() -> tuple[Finished, Finished, Finished, Fake]:
        async with Fake("openai_responses", [ScriptedAnswer(text="I go on.")], alternate=False) as fake:
            dry = await machine.wrap("codex", "--session", "pump", "--dry-run", OPENAI_BASE_URL=fake.host)
            assert not fake.seen
            assert read_log(machine) == head
            done = await machine.wrap("codex", "--last", OPENAI_BASE_URL=fake.host)
            resumed = await machine.wrap("claude", "--last", "--dry-run")
            return dry, done, resumed, fake

    dry, done, resumed, fake = asyncio.run(run())
    assert dry.status == 0, dry.errors
    assert "Codex would continue the session pump, worked on in Claude Code" in dry.errors
    assert "Nothing was sent." in dry.errors
    assert "  cost           at $1 per million input tokens $0.00" in dry.errors
    assert done.status == 0, done.errors
    assert done.printed == "I go on.\n"
    assert "note           the session pump goes on in Codex" in done.errors
    record = next(text for text in strings(json.loads(fake.seen[0].raw)) if "earlier-work" in text)
    assert "Run the steps." in record
    if has_git:
        assert "Changed since: files pump.py." in record
    assert "worked on in Codex\n" in resumed.errors, "it knows its own part"


@pytest.mark.exhaustive
def test_a_client_returns_to_its_own_conversation(tmp_path: Path) -> None:
    """The session has a name that the user chose, so the client's own id is in the log."""
    machine = make_machine(tmp_path)
    begin_session(machine)
    (tmp_path / "bin" / "claude").write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
    returned = asyncio.run(machine.wrap("claude", "--last"))
    assert returned.printed == "['--resume', 'abc']\n"


@pytest.mark.parametrize("option", ["--dry-run", pytest.param("--quiet", marks=pytest.mark.exhaustive)])
def test_a_session_of_another_project_is_refused(option: str, tmp_path: Path) -> None:
    machine = make_machine(tmp_path)
    begin_session(machine)
    before, machine.work = machine.work, tmp_path / "other"
    machine.work.mkdir()

    async def run() -> tuple[Finished, Finished, Fake]:
        async with Fake("openai_responses", [ScriptedAnswer(text="I go on.")], alternate=False) as fake:
            refused = await machine.wrap("codex", "--session", "pump", option, OPENAI_BASE_URL=fake.host)
            assert not fake.seen
            named = ("--session", "pump", "--from", str(before), option)
            return refused, await machine.wrap("codex", *named, OPENAI_BASE_URL=fake.host), fake

    refused, done, fake = asyncio.run(run())
    assert refused.status != 0
    assert f"last used in {before}, which is another project" in refused.errors
    assert done.status == 0, done.errors
    assert len(fake.seen) == (option != "--dry-run")


def test_a_dry_run_needs_a_session(tmp_path: Path) -> None:
    found = asyncio.run(make_machine(tmp_path).wrap("codex", "--dry-run"))
    assert found.status == 2, found.errors
    assert "There is no session to continue." in found.errors
