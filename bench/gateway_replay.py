"""Recordings replayed through the gateway: how much of the input extends the request before, as in `tidegate replay`.

    .venv/bin/python bench/gateway_replay.py FOLDER [--window 32000] [--policy default] [--limit N]

Each recording is played by a client that sends its whole history before every recorded answer. The upstream answers
with what was recorded and measures what arrives. The clock is that of `tidegate replay`: 30 seconds for every answer.

The gateway keeps the client's messages as they are; the replay renders its own. So that both are measured alike:
- leading system messages are joined into one, an empty result is "(no output)", and recorded thinking is left out;
- a recording that begins with an answer gets a user message before it;
- what the gateway sent is measured as the replay renders it: later system messages are text of the user, and
  neighboring user messages are joined.

The client offers one small tool: the gateway then offers recall, and its notes mention it, as those of the replay do.
Both tools take room in every request, so the replay gets them, too; without them its sweeps come a few messages later,
and the shares differ in the second decimal.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx

from tidegate.core.policy.policy import Policy
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.hidden_recall import RECALL_TOOL
from tidegate.gateway.settings import GatewaySettings, Upstream
from tidegate.lab.replay.recording_file import (
    RecordedLine,
    find_chat_recordings,
    get_recording_name,
    read_chat_recording,
)
from tidegate.lab.replay.replay_report import ReplayReport
from tidegate.lab.replay.session_replay import SECONDS_PER_CALL, ReplaySetup, replay_session
from tidegate.lab.scoring.request_size import RequestSizer
from tidegate.models.token_counters import create_counter
from tidegate.presets import load
from tidegate.wire.registry import parse_tools

Json = dict[str, Any]
MODEL = "gpt-4o"
"""Its counter is the exact one of the replay."""
SYSTEM_ROLES = ("system", "developer")
TOOL: Json = {"type": "function", "function": {"name": "x", "parameters": {"type": "object", "properties": {}}}}


class RecordedUpstream:
    """Answers every request with the next recorded answer, and keeps the messages that arrived."""

    def __init__(self) -> None:
        self.answer: Json = {}
        self.messages: list[Json] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**27)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                top = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(top.split(b"content-length:")[1].split(b"\r\n")[0])
                self.messages = json.loads(await reader.readexactly(length))["messages"]
                choice = {"index": 0, "message": self.answer, "finish_reason": "stop"}
                body = json.dumps(
                    {"id": "x", "object": "chat.completion", "model": MODEL, "choices": [choice]}
                ).encode()
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
                writer.write(head + body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.close()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def render_as_replay(messages: list[Json]) -> list[Json]:
    """The messages with later system messages as text of the user, and with neighboring user messages joined."""
    replay: list[Json] = []
    for place, message in enumerate(messages):
        if place and message["role"] in SYSTEM_ROLES:
            message = {"role": "user", "content": f"[system] {message['content']}"}
        last = replay[-1] if replay else {}
        texts = last.get("content"), message.get("content")
        if message["role"] == last.get("role") == "user" and all(isinstance(text, str) for text in texts):
            replay[-1] = {**last, "content": f"{texts[0]}\n\n{texts[1]}"}
        else:
            replay.append(message)
    return replay


def read_recording(path: Path) -> list[RecordedLine]:
    lines = [line._replace(message=prepare_message(line.message)) for line in read_chat_recording(path)]
    start = next(place for place, line in enumerate(lines) if line.message["role"] not in SYSTEM_ROLES)
    head: list[dict[str, object]] = (
        [{"role": "system", "content": join_texts(line.message for line in lines[:start])}] if start else []
    )
    if lines[start].message["role"] == "assistant":
        head.append({"role": "user", "content": "Continue."})
    return [*(lines[0]._replace(message=message) for message in head), *lines[start:]]


def join_texts(messages: Iterable[Mapping[str, object]]) -> str:
    return "\n\n".join(str(message["content"]) for message in messages if message.get("content"))


def prepare_message(message: Mapping[str, object]) -> dict[str, object]:
    fields = {key: value for key, value in message.items() if key != "reasoning_content"}
    return fields | {"content": "(no output)"} if fields["role"] == "tool" and not fields.get("content") else fields


async def play_recording(lines: list[RecordedLine], options: argparse.Namespace) -> ReplayReport:
    """The report of what the gateway forwarded for a recording."""
    report, now = ReplayReport("gateway"), [0.0]
    sizer = RequestSizer(create_counter(MODEL), options.window)
    upstream = RecordedUpstream()
    url = await upstream.start()
    settings = GatewaySettings(
        upstreams=(Upstream("openai", "openai", url),), window=options.window, policy=options.policy
    )
    history: list[Json] = []
    with tempfile.TemporaryDirectory() as folder, DataFolder(folder, clock=lambda: now[0]) as data:
        gateway = Gateway(
            settings, data, lambda line: print(f"  {line}", file=sys.stderr) if " 200 " not in line else None
        )
        transport = httpx.ASGITransport(app=gateway)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=120) as http:
            for line in lines:
                message: Json = dict(line.message)
                if message["role"] == "assistant" and history:
                    now[0] += SECONDS_PER_CALL
                    upstream.answer = message
                    body = {"model": MODEL, "messages": history, "tools": [TOOL]}
                    answer = await http.post("/v1/chat/completions", json=body, headers={"x-tidegate-session": "s"})
                    assert answer.status_code == 200, answer.text
                    report.add_size(sizer.measure(render_as_replay(upstream.messages)))
                history.append(message)
        await gateway.close()
    upstream.close()
    return report


def replay_recording(lines: list[RecordedLine], policy: Policy, window: int) -> ReplayReport:
    offered = (*parse_tools([TOOL]), RECALL_TOOL)
    return replay_session("replay", lines, ReplaySetup(policy, window, tools=offered))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--policy", default="default")
    parser.add_argument("--limit", type=int, default=0, help="of recordings")
    options = parser.parse_args()
    paths = find_chat_recordings(options.folder)[: options.limit or None]
    both = ReplayReport("gateway"), ReplayReport("replay")
    equal = 0
    print(f"{'recording':<34} {'requests':>8} {'gateway':>9} {'replay':>9}")
    for path in paths:
        lines = read_recording(path)
        results = (
            asyncio.run(play_recording(lines, options)),
            replay_recording(lines, load(options.policy), options.window),
        )
        shares = [each.mean_shared_share or 0.0 for each in results]
        equal += abs(shares[0] - shares[1]) < 1e-9
        for total, each in zip(both, results, strict=True):
            total.add(each)
        print(
            f"{get_recording_name(path):<34} {results[0].requests:>8} {shares[0]:>9.2%} {shares[1]:>9.2%}", flush=True
        )
    print(f"{'all':<34} {both[0].requests:>8} {both[0].mean_shared_share:>9.2%} {both[1].mean_shared_share:>9.2%}")
    print(f"{equal} of {len(paths)} recordings have the same share")


if __name__ == "__main__":
    main()
