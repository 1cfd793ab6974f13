"""Recordings for the peers, replayed as the lab replays them, and a check of requests apart from the scripts."""

import json
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from tidegate.lab.peer_registry import Peer, get_interpreter, get_scripts_folder
from tidegate.proof.session_generator import generate_session

Chat = dict[str, Any]
Line = dict[str, Any]

WINDOW = 4_000


def make_call(name: str, arguments: str, call_id: str) -> Chat:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def make_step(call_id: str, result: str, name: str = "run", arguments: str = "{}") -> list[Chat]:
    """A call and its result."""
    asks = {"role": "assistant", "content": None, "tool_calls": [make_call(name, arguments, call_id)]}
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
        "tool_calls": [make_call("read", '{"path":  "a.py"}', "c1"), make_call("patch", "*** not JSON", "c2")],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "print(1)"},
    {"role": "tool", "tool_call_id": "c2", "content": "done \ud800 \u00e9\u4e2d"},
    *make_step("c3", "ok"),
    {"role": "assistant", "content": "It prints 1."},
    {"role": "user", "content": "Thank you."},
    {"role": "assistant", "content": "Welcome."},
]
"""Little enough for every peer to leave alone: an image, two calls at once, arguments that are no JSON, odd letters."""


@cache
def _generated(seed: int) -> tuple[Chat, ...]:
    return tuple(generate_session(12, seed=seed))


def long_session(seed: int = 3) -> list[Chat]:
    """Some seventy thousand tokens."""
    return list(_generated(seed))


def replay(peer: Peer, *recordings: Sequence[Chat], window: int = WINDOW, guard: bool = True) -> list[list[Line]]:
    """The records of each recording, with the request of each under `messages`. All are played by one process."""
    command = [str(get_interpreter(peer)), "-E", str(get_scripts_folder() / "replay_server.py"), peer.script]
    jobs = [{"messages": list(messages), "window": window, "guard": guard} for messages in recordings]
    done = subprocess.run(
        [*command, json.dumps(peer.settings)],
        input="".join(json.dumps(job) + "\n" for job in jobs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    played: list[list[Line]] = [[]]
    known: list[Chat] = []
    for text in done.stdout.splitlines():
        line = json.loads(text)
        assert "failed" not in line, line["failed"]
        if line.pop("done", False):
            played.append([])
            known = []
            continue
        assert line.pop("cpu") >= 0
        known += line.pop("new", ())
        if "is" in line:
            line["messages"] = [known[position] for position in line.pop("is")]
        played[-1].append(line)
    return played[:-1]


def count_characters(messages: Iterable[Chat]) -> int:
    total = 0
    for message in messages:
        content = message.get("content") or ""
        total += len(content) if isinstance(content, str) else sum(len(part.get("text", "")) for part in content)
        for made in message.get("tool_calls") or ():
            total += len(made["function"]["name"]) + len(made["function"]["arguments"])
    return total


def find_assistant_indices(messages: Sequence[Chat]) -> list[int]:
    return [index for index, message in enumerate(messages) if message["role"] == "assistant"]


def find_complaints(messages: Sequence[Chat]) -> list[str]:
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


def check_requests(lines: Sequence[Line], recorded: Sequence[Chat], window: int = WINDOW) -> None:
    """One line for each assistant message, and every request one that could be sent."""
    assert [line["at"] for line in lines] == find_assistant_indices(recorded)
    for line in lines:
        assert "error" not in line, line["error"]
        assert find_complaints(line["messages"]) == [], line["at"]
        assert count_characters(line["messages"]) <= 4 * window, line["at"]
        assert bool(line.get("faults")) == ("guarded" in line)
