"""The longest requests of sessions: what reading, planning and writing each request takes, and each sweep.

    python bench/request_times.py                          four sessions of 300 requests, one request of each in turn
    python bench/request_times.py --sessions 1 --window 200000
    python bench/request_times.py --profile                 where the sweeps spend their time

All runs in this process, without a network, as the gateway does it: the request is read, planned, written and, after
its answer is in the log, what the next sweep needs is read ahead. Times are CPU of this thread. The sessions are made
up (`agent_sessions.py`).
"""

import argparse
import cProfile
import gc
import json
import pstats
import tempfile
import time
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from agent_sessions import Step, make_answer, make_request_text, make_result, make_system_prompt, make_tools

from tidegate import DataFolder
from tidegate.core.messages import Call, Message, Part, Text
from tidegate.core.sweep.reading import read_ahead
from tidegate.session.following import FollowingSession
from tidegate.session.managed_request import ClientRequestReader, write_request
from tidegate.wire.splicing.units import HostUnit

MODEL = "claude-opus-4-6"
CHARS_PER_TOKEN = 4
FIXED = {"model": MODEL, "max_tokens": 1000, "system": make_system_prompt(), "tools": make_tools()}


class Request(NamedTuple):
    """The CPU of a request until it can be sent, and after its answer, in seconds."""

    before: float
    after: float
    swept: bool


class Client:
    """A session of the client, and that of tidegate which follows it."""

    def __init__(self, name: str, data: DataFolder, window: int) -> None:
        self._name = name
        self._messages: list[dict[str, Any]] = []
        self._answer, self._step = Step("", ()), 0
        session = data.open(name, MODEL, window=window, wire="anthropic")
        self.following = FollowingSession[HostUnit](session)
        self.sent = blake2b()

    def make_body(self) -> bytes:
        calls = self._answer.calls
        if calls:
            blocks = [
                {"type": "tool_result", "tool_use_id": ident, "content": make_result(ident, tool)}
                for ident, tool, _ in calls
            ]
        else:
            blocks = [{"type": "text", "text": make_request_text(self._name, self._step)}]
        self._messages.append({"role": "user", "content": blocks})
        self._answer = make_answer(self._name, self._step, is_first=not calls)
        return json.dumps(FIXED | {"messages": self._messages}).encode()

    def send(self, reader: ClientRequestReader, profile: cProfile.Profile | None, *, reads_ahead: bool) -> Request:
        body, following = self.make_body(), self.following
        start = time.thread_time()
        client = reader.read("anthropic", body, MODEL, self._name)
        assert client is not None
        if profile is not None:
            profile.enable()
        followed = following.prepare(client.items, fixed_part=client.fixed_part)
        if profile is not None:
            profile.disable()
        sent = write_request(client, followed)
        between = time.thread_time()
        self.sent.update(sent)
        reply = self._take_answer()
        after = time.thread_time()
        usage = {"input_tokens": len(sent) // CHARS_PER_TOKEN, "output_tokens": 1}
        following.record_reply(followed, reply, usage)
        if reads_ahead:
            session = following.session
            read_ahead(session.view, session.budget.held_room)
        end = time.thread_time()
        swept = any(decision.acted and decision.stage == "sweep" for decision in followed.decisions)
        return Request(between - start, end - after, swept)

    def _take_answer(self) -> Message:
        answer = self._answer
        blocks: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
        parts: list[Part] = [Text(answer.text)] if answer.text else []
        for ident, tool, arguments in answer.calls:
            blocks.append({"type": "tool_use", "id": ident, "name": tool, "input": arguments})
            parts.append(Call(ident, tool, json.dumps(arguments)))
        self._messages.append({"role": "assistant", "content": blocks})
        self._step += 1
        return Message("assistant", tuple(parts))


def run(folder: str, options: argparse.Namespace, profile: cProfile.Profile | None) -> Iterator[Request]:
    with DataFolder(folder, secrets=[]) as data:
        clients = [Client(f"s{number}", data, options.window) for number in range(options.sessions)]
        reader = ClientRequestReader(options.sessions)
        for _ in range(options.requests):
            for client in clients:
                yield client.send(reader, profile, reads_ahead=options.read_ahead)
        for client in clients:
            client.following.session.close()
        sent = blake2b(b"".join(client.sent.digest() for client in clients), digest_size=8)
        print(f"hash of all that was sent: {sent.hexdigest()}")


def describe(title: str, seconds: list[float]) -> str:
    seconds.sort()
    found = (seconds[min(len(seconds) - 1, int(share * len(seconds)))] * 1000 for share in (0.5, 0.95, 0.99, 1.0))
    p50, p95, p99, longest = found
    return f"{title}: p50 {p50:.1f}, p95 {p95:.1f}, p99 {p99:.1f}, longest {longest:.1f} ms, {sum(seconds):.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--requests", type=int, default=300, help="of each session")
    parser.add_argument("--window", type=int, default=64_000, metavar="TOKENS")
    parser.add_argument("--no-read-ahead", dest="read_ahead", action="store_false", help="leave all reading to sweeps")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    profile = cProfile.Profile(time.thread_time) if options.profile else None
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        requests = list(run(folder, options, profile))
    print(describe(f"{len(requests):,} requests", [each.before for each in requests]))
    print(describe("after the answers", [each.after for each in requests]))
    if swept := [each.before for each in requests if each.swept]:
        print(describe(f"{len(swept):,} with a sweep", swept))
        print(describe("without", [each.before for each in requests if not each.swept]))
    print(f"CPU in total: {sum(each.before + each.after for each in requests):.1f} s")
    if profile is not None:
        pstats.Stats(profile).sort_stats("cumulative").print_stats("tidegate|re\\.|method", 60)


if __name__ == "__main__":
    main()
