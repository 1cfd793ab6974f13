"""One session, several clients: another client continues it, and the first one returns."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.fake.server import Fake, Json
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.settings import ContinuedSession
from tidegate.wire.streaming.response_encoder import ScriptedAnswer

SESSION = "pump"
RULE = "Never push to main."
TASK = "Find out why the pump stops."


class ClientKind(NamedTuple):
    """A client: its dialect, the ids that it sends, and what it puts before the user's first message."""

    client: str
    title: str
    wire: str
    ids: dict[str, str]
    preface: Sequence[Json] = ()


CLIENTS = {
    each.client: each
    for each in (
        ClientKind("claude", "Claude Code", "anthropic", {"x-claude-code-session-id": "c1"}),
        ClientKind(
            "codex",
            "Codex",
            "openai_responses",
            {"session-id": "x1", "thread-id": "x1"},
            (
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox: off."}]},
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "<environment_context>\n</environment_context>"}],
                },
            ),
        ),
        ClientKind(
            "opencode",
            "OpenCode",
            "openai_chat",
            {"x-session-id": "o1"},
            ({"role": "system", "content": "You are OpenCode."},),
        ),
        ClientKind(
            "gemini",
            "Gemini CLI",
            "gemini",
            {},
            (
                {"role": "user", "parts": [{"text": "This is the Gemini CLI. The folder is /work."}]},
                {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
            ),
        ),
        ClientKind("pi", "pi", "openai_chat", {}, ({"role": "system", "content": "You are pi."},)),
        ClientKind("qwen", "Qwen Code", "openai_chat", {}, ({"role": "system", "content": "You are Qwen Code."},)),
    )
}


def make_client(kind: ClientKind) -> ScriptedClient:
    client = ScriptedClient(kind.wire, "", None, kind.ids)  # type: ignore[arg-type]
    client.messages += kind.preface
    return client


class Run(NamedTuple):
    """The bodies that the provider got in a run, and the lines and notices of its gateway."""

    bodies: list[str]
    notices: list[str]


def run_client(
    folder: Path,
    kind: ClientKind,
    client: ScriptedClient,
    said: str,
    steps: int = 2,
    *,
    answers: Sequence[ScriptedAnswer] = (),
    window: int = 60_000,
    words: int = 200,
    **more: Any,
) -> Run:
    """One run of `tidegate wrap CLIENT --session`: the user says something, the client makes some steps."""

    async def run() -> Run:
        with DataFolder(folder) as data:
            source = data.store.head(SESSION)
        continued = ContinuedSession(SESSION, kind.client, kind.title, source, **more)
        done = len([each for each in client.messages if each.get("role") in ("assistant", "model")])
        script = [*answers, *(step_answer(done + number) for number in range(steps - 1)), ScriptedAnswer(text="Done.")]
        async with Fake(kind.wire, script, alternate=False) as fake:
            settings: dict[str, Any] = {"recall": True, "window": window, "continued": continued}
            async with run_gateway(folder, upstream_of(fake), **settings) as running:
                async with open_http() as http:
                    client.url, client.http = f"{running.url}/s/{SESSION}", http
                    client.say(said)
                    for number in range(steps):
                        await client.turn(f"result {done + number} of {kind.client} " + "words of a tool " * words)
                notices = [*running.gateway.notices]
                assert not [line for line in running.lines if "defect" in line], running.lines
        assert fake.refused == []
        return Run([seen.raw.decode() for seen in fake.seen], notices)

    return asyncio.run(run())


def test_another_client_continues_a_session(tmp_path: Path) -> None:
    claude, codex = make_client(CLIENTS["claude"]), make_client(CLIENTS["codex"])
    first = run_client(tmp_path, CLIENTS["claude"], claude, f"{TASK} {RULE}", 3)
    assert "earlier-work" not in first.bodies[0]
    second = run_client(tmp_path, CLIENTS["codex"], codex, "Go on.", 3)
    for body in second.bodies:
        items = json.loads(body)["input"]
        texts = [item["content"][0]["text"] for item in items if item.get("type") == "message"][:4]
        place = next(place for place, text in enumerate(texts) if "earlier-work" in text)
        record = texts[place]
        assert TASK in record
        assert RULE in record
        assert "Called the tool `step` of Claude Code" in record
        assert "result 1 of claude" in record
        assert place <= texts.index("Go on.") if "Go on." in texts else True
    assert len({body[body.index("earlier-work") : body.rindex("earlier-work")] for body in second.bodies}) == 1
    assert second.notices == [f"the session {SESSION} goes on in Codex"]
