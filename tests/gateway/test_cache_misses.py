# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Why requests missed the provider's cache, as the page of the gateway and `tidegate misses` say it."""

import asyncio
import json
from pathlib import Path

from tests.cli.calling import called
from tests.fake.server import Bytes, Fake, Json
from tests.gateway.scripted_client import ScriptedClient
from tests.gateway.serving import open_http, run_gateway, upstream_of


def _make_answer(read: int, written: int, reason: str = "") -> Bytes:
    body: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Enough."}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": 5,
        },
    }
    if reason:
        body["diagnostics"] = {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": written}}
    return Bytes(json.dumps(body).encode(), "application/json")


def test_the_page_and_the_command_name_the_cause_of_a_miss(tmp_path: Path) -> None:
    answers = [_make_answer(0, 9_000), _make_answer(9_000, 30), _make_answer(0, 9_060, "system_changed")]

    async def run() -> list[Json]:
        async with Fake("anthropic", answers) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=100_000) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
                client.say("word " * 9_000)
                for system in ("be careful", "be careful", "be bold"):
                    client.keep((await client.ask(system=system)).json())
                    client.say("Go on.")
                response = await http.get(f"{running.url}/ui/api/session?name=s", headers=running.page_headers)
                rows: list[Json] = response.json()["newest"]["rows"]
                return rows

    newest, *older = asyncio.run(run())
    cause = "client: the system prompt changed (the provider says: system_changed)"
    assert (newest["missed"], newest["miss"]) == (9_030, cause)
    assert [row["missed"] for row in older] == [0, 0]

    lines = called("misses", "s", "--data", tmp_path).stdout.splitlines()
    assert lines[1].endswith(cause)
    assert lines[1].split()[1:4] == ["9,065", "0%", "9,030"]
    assert lines[2] == "3 requests: 33% of the input was read from the cache. 1 request missed a part of it."
    assert lines[3].startswith("- client: 1 request, 9,030 tokens, $")
    assert len(called("misses", "s", "--all", "--data", tmp_path).stdout.splitlines()) == len(lines) + 2
    requests = json.loads(called("misses", "s", "--json", "--data", tmp_path).stdout)
    assert [request["miss"] and request["miss"]["origin"] for request in requests] == [None, None, "client"]
