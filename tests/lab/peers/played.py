"""Recordings made for the peers, a peer run on them, and a judge of what it gave, written apart from the scripts."""

import gzip
import json
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.lab.peers import Peer, build_peer_command
from tidegate.proof.session_generator import generate_session

Chat = dict[str, Any]
Line = dict[str, Any]

WINDOW = 4_000


def call(name: str, arguments: str, call_id: str) -> Chat:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def step(call_id: str, result: str, name: str = "run", arguments: str = "{}") -> list[Chat]:
    """A call and its result."""
    asks = {"role": "assistant", "content": None, "tool_calls": [call(name, arguments, call_id)]}
    return [asks, {"role": "tool", "tool_call_id": call_id, "content": result}]


SHORT: list[Chat] = [
    {"role": "system", "content": "You are a coding agent."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look at this"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        ],
    },
    {
        "role": "assistant",
        "content": "Both at once.",
        "reasoning_content": "What is there?",
        "tool_calls": [call("read", '{"path":  "a.py"}', "c1"), call("patch", "*** not JSON", "c2")],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "print(1)"},
    {"role": "tool", "tool_call_id": "c2", "content": "done \ud800 \u00e9\u4e2d"},
    *step("c3", "ok"),
    {"role": "assistant", "content": "It prints 1."},
    {"role": "user", "content": "Thank you."},
    {"role": "assistant", "content": "Welcome."},
]
"""Little enough for every peer to leave alone: an image, two calls at once, arguments that are no JSON, odd letters."""


@cache
def _generated(seed: int) -> tuple[Chat, ...]:
    return tuple(generate_session(12, seed=seed))


def long(seed: int = 3) -> list[Chat]:
    """Some seventy thousand tokens."""
    return list(_generated(seed))


def record(path: Path, messages: Iterable[Chat]) -> Path:
    lines = [{"meta": {"agent": "none"}}, *messages]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def lines_of(path: Path) -> list[Line]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [json.loads(line) for line in text.splitlines()]


def run(
    peer: Peer, recordings: Path | Sequence[Path], out: Path, window: int = WINDOW, guard: bool = True
) -> list[Line]:
    """The figures it told on its standard output."""
    done = subprocess.run(
        build_peer_command(peer, recordings, window, out, guard), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def chars(messages: Iterable[Chat]) -> int:
    total = 0
    for message in messages:
        content = message.get("content") or ""
        total += len(content) if isinstance(content, str) else sum(len(part.get("text", "")) for part in content)
        for made in message.get("tool_calls") or ():
            total += len(made["function"]["name"]) + len(made["function"]["arguments"])
    return total


def asks(messages: Sequence[Chat]) -> list[int]:
    return [index for index, message in enumerate(messages) if message["role"] == "assistant"]


def complaints(messages: Sequence[Chat]) -> list[str]:
    """What OpenAI would have against these messages: the pairing of calls and results, and where they begin and end."""
    found: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                found.append(f"result without call {message['tool_call_id']}")
            continue
        found += [f"call without result {name}" for name in waiting]
        waiting = [made["id"] for made in message.get("tool_calls") or ()]
    found += [f"call without result {name}" for name in waiting]
    said = [message for message in messages if message["role"] != "system"]
    if not said or said[0]["role"] != "user":
        found.append("does not begin with the user")
    if said and said[-1]["role"] == "assistant":
        found.append("ends with the assistant")
    return found


def judged(lines: Sequence[Line], recorded: Sequence[Chat], window: int = WINDOW) -> None:
    """One line for each assistant message, and every request one that could be sent."""
    assert [line["at"] for line in lines] == asks(recorded)
    for line in lines:
        assert "error" not in line, line["error"]
        assert complaints(line["messages"]) == [], line["at"]
        assert chars(line["messages"]) <= 4 * window, line["at"]
        assert bool(line.get("faults")) == ("guarded" in line)
