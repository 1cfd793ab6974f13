"""Threat: a model provider, broken or hostile, answers with more than fits into the memory, or with what takes long to
parse: calls without end, millions of tiny values, packed data, an error that is hard to match. The memory of the
agent must stay bounded and its event loop free, the error must name the limit, and the session must go on.
"""

import asyncio
import json
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fake.asking import asked, faulted, provider_of, session_of
from tests.fake.server import KEY, Bytes, Fake, Step
from tests.fake.words import Refusal
from tidegate.agent.config.files import parse_config
from tidegate.agent.loop import AgentEvent, ToolFinished, TurnEnded
from tidegate.agent.runtime import OpenAgent, UserNotice, open_agent
from tidegate.core.messages import Call
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.provider import HttpProvider, RetrySettings
from tidegate.models.pace import STEPS
from tidegate.wire.limits import MAX_CALLS, MAX_JSON_VALUES, MAX_LISTING_BYTES, MAX_PARTS, ProviderLimits
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

WIRES = {
    "openai_chat": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "openai_responses": "gpt-4o",
    "gemini": "gemini-3-pro-preview",
}
LIMITS = ProviderLimits()
SMALL = ProviderLimits(max_answer_bytes=4_000_000, content=200_000, max_line_bytes=1_000_000)
Turn = list[AgentEvent | UserNotice]


def turns_of(
    wire: str, steps: list[Step], workspace: Path, texts: list[str], limits: ProviderLimits = LIMITS
) -> list[Turn | ProviderError]:
    """What an agent made of each text, with a provider on this machine that plays the steps."""
    config = parse_config("window: 200000\ncapabilities: {default_policy: allow}\n", {})

    async def turn(agent: OpenAgent, text: str) -> Turn | ProviderError:
        try:
            return [each async for each in agent.run_turn(text)]
        except ProviderError as fault:
            return fault

    async def act() -> list[Turn | ProviderError]:
        async with Fake(wire, steps) as server:
            retries = RetrySettings(max_retries=0)
            provider = HttpProvider(wire, WIRES[wire], base_url=server.url, key=KEY, retries=retries, limits=limits)
            try:
                async with open_agent(config, data=None, name="s", workspace=workspace, provider=provider) as agent:
                    return [await turn(agent, text) for text in texts]
            finally:
                await provider.close()

    return asyncio.run(act())


def calls(count: int) -> ScriptedAnswer:
    return ScriptedAnswer(
        text="I look.", calls=tuple(Call(f"c{number}", "read", '{"path": "none"}') for number in range(count))
    )


@pytest.mark.parametrize("wire", WIRES)
def test_calls_without_end_are_refused_and_the_session_goes_on(wire: str, tmp_path: Path) -> None:
    refused, after = turns_of(wire, [calls(MAX_CALLS + 1), "Hello."], tmp_path, ["Look.", "And?"])
    assert isinstance(refused, ProviderError)
    assert refused.kind == "excess"
    assert f"more than {MAX_CALLS} tool calls" in str(refused)
    assert "Ask for less at once" in refused.remedy
    assert isinstance(after, list)
    assert after[-1] == TurnEnded("end")


@pytest.mark.parametrize("wire", WIRES)
def test_as_many_calls_as_may_be_are_run(wire: str, tmp_path: Path) -> None:
    """No request after them is refused for their number."""
    (turn,) = turns_of(wire, [calls(MAX_CALLS), "Seen."], tmp_path, ["Look."])
    assert isinstance(turn, list)
    assert len([each for each in turn if isinstance(each, ToolFinished)]) == MAX_CALLS


def stream(*frames: object) -> Bytes:
    return Bytes(b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames))


def chunk(delta: object, reason: str | None = None, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}


def packed(size: int) -> Refusal:
    """A stream of which a few thousand bytes unpack to `size`."""
    packer = zlib.compressobj(wbits=31)
    body = (
        b"".join(packer.compress((b": " + b"high tide" * 200 + b"\n\n") * 1_000) for _ in range(size // 1_800_000 + 1))
        + packer.flush()
    )
    return Refusal(200, body, "text/event-stream", (("content-encoding", "gzip"),))


def make_nested_call(limits: ProviderLimits) -> dict[str, object]:
    """A call with a text in it whose values count only where it is read as JSON itself."""
    values = "[]," * (limits.max_line_bytes // 8)
    return {"index": 0, "id": "c", "function": {"name": "read", "arguments": f'{{"path": [{values}0]}}'}}


HARD = b'{"error": {"message": "prompt ' + b"sk-" * 100_000
"""Cut in the middle, so that it is read as text: words and signs in turn, which a pattern can divide in many ways."""

FLOODS: dict[str, tuple[Callable[[ProviderLimits], Step], str]] = {
    "values": (
        lambda limits: stream(chunk({"content": "x"}, "stop", more=[[]] * (limits.max_line_bytes // 8))),
        f"A frame of the stream holds more than {MAX_JSON_VALUES:,} values",
    ),
    "values in arguments": (
        lambda limits: stream(chunk({"tool_calls": [make_nested_call(limits)]}, "tool_calls")),
        "",
    ),
    "line": (
        lambda limits: Bytes(b"data: " + b"x" * (limits.max_line_bytes + 1)),
        "A line or frame of the stream is longer than {0.max_line_bytes:,} bytes",
    ),
    "content": (
        lambda limits: stream(*[chunk({"content": "high tide " * 1_000})] * (limits.content // 10_000 + 1)),
        "The answer holds more than {0.content:,} bytes of content",
    ),
    "details": (
        lambda _: stream(*[chunk({"reasoning_details": [{"type": "t", "index": n}]}) for n in range(MAX_PARTS + 1)]),
        f"The answer holds more than {MAX_PARTS:,} parts",
    ),
    "one body": (
        lambda limits: Bytes(b'{"x": "' + b"x" * limits.max_line_bytes, "application/json"),
        "The answer is longer than {0.max_line_bytes:,} bytes and not streamed",
    ),
    "values in one body": (
        lambda limits: Bytes(b'{"x": [' + b"[]," * (limits.max_line_bytes // 8) + b"0]}", "application/json"),
        f"The answer holds more than {MAX_JSON_VALUES:,} values",
    ),
    "packed": (
        lambda limits: packed(limits.max_answer_bytes),
        "The answer is longer than {0.max_answer_bytes:,} bytes",
    ),
}
"""An answer beyond limits, and what the error says of them."""


@pytest.mark.parametrize("name", [name for name in FLOODS if FLOODS[name][1]])
def test_flood_is_an_error_that_names_the_limit(name: str, tmp_path: Path) -> None:
    step, says = FLOODS[name]
    refused, after = turns_of("openai_chat", [step(SMALL), "Hello."], tmp_path, ["Go on.", "And?"], SMALL)
    assert isinstance(refused, ProviderError)
    assert refused.kind == "excess"
    assert says.format(SMALL) in str(refused)
    assert isinstance(after, list)
    assert after[-1] == TurnEnded("end")


def test_answer_that_is_packed_unasked_is_read() -> None:
    body = b"data: " + json.dumps(chunk({"content": "high tide"}, "stop")).encode() + b"\n\n"
    gzip = Refusal(200, zlib.compress(body, wbits=31), "text/event-stream", (("content-encoding", "gzip"),))
    ((found,), server) = asked("openai_chat", [gzip])
    assert found.reply is not None
    assert found.reply.message["content"] == "high tide"
    assert server.seen[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("wire", WIRES)
def test_event_loop_gets_its_turns_while_an_answer_comes(wire: str) -> None:
    """However many deltas came at once: between two turns of another task only a few are handed out."""
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def act() -> int:
        longest = run = last = 0
        async with Fake(wire, [ScriptedAnswer(text="tide " * 2_000)]) as server:
            provider = provider_of(server)
            request = session_of(wire).prepare().to_bytes()
            others = asyncio.create_task(take_turns())
            async for _ in provider.stream(request):
                run = run + 1 if turns == last else 1
                last, longest = turns, max(longest, run)
            others.cancel()
            await provider.close()
        return longest

    assert 1 <= asyncio.run(act()) <= STEPS


CHILD = """
import asyncio, resource, sys
from pathlib import Path
from tests.fake.asking import outcome, session_of
from tests.fake.server import KEY
from tidegate.models.http.provider import HttpProvider, RetrySettings

async def main():
    provider = HttpProvider("openai_chat", "m", base_url=sys.argv[1], key=KEY, retries=RetrySettings(max_retries=0))
    request = session_of("openai_chat").prepare().to_bytes()
    assert (await outcome(provider, request)).reply is not None
    status = Path("/proc/self/status").read_text()
    used = int(status.partition("VmData:")[2].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv[2]), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CPU, (120, resource.RLIM_INFINITY))
    found = await outcome(provider, request)
    print(found.fault or found.reply.broken_call_ids)
    await provider.close()

asyncio.run(main())
"""


def ask_in_child(step: Step, memory: int = 10 * LIMITS.max_line_bytes) -> str:
    """What a process says to an answer. It may use `memory` bytes more than it does. A limit ends it if it hangs."""

    async def act() -> str:
        async with Fake("openai_chat", ["Hello.", step]) as server:
            command = [sys.executable, "-c", CHILD, server.url, str(memory)]
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()[-2000:]
        return out.decode()

    return asyncio.run(act())


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is read")
@pytest.mark.parametrize(
    "name",
    list(FLOODS),
)
def test_memory_is_bounded_by_a_small_multiple_of_the_limit(name: str) -> None:
    step, says = FLOODS[name]
    said = ask_in_child(step(LIMITS), (3 if name == "packed" else 10) * LIMITS.max_line_bytes)
    assert (says.format(LIMITS) or "('c',)") in said


def test_error_that_is_hard_to_match_is_read() -> None:
    """A pattern that divides it in many ways would not end."""
    assert "(HTTP 400)" in str(faulted("openai_chat", Refusal(400, HARD)))


OPENING = """
import asyncio, resource, sys
from pathlib import Path
from tidegate.agent.config.files import parse_config
from tidegate.agent.runtime import open_agent

async def main():
    config = parse_config("agents: [{id: a, model: {provider: openai, model: nameless}}]", {})
    environment = {"OPENAI_API_KEY": "k", "TIDEGATE_OPENAI_BASE_URL": sys.argv[1]}
    status = Path("/proc/self/status").read_text()
    used = int(status.partition("VmData:")[2].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv[2]), resource.RLIM_INFINITY))
    async with open_agent(config, data=None, name="s", workspace=Path("."), environment=environment) as agent:
        print(agent.window.explanation)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is read")
def test_list_of_models_is_bounded() -> None:
    """A server is asked for its models when an agent is opened."""
    listing = b"[" + b"[]," * 1_000_000 + b"0]"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(listing))
            writer.write(listing)
            await writer.drain()
        writer.close()

    async def act() -> tuple[int | None, str, str]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        command = [sys.executable, "-c", OPENING, url, str(10 * MAX_LISTING_BYTES)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
        server.close()
        await server.wait_closed()
        return process.returncode, out.decode(), err.decode()

    code, out, err = asyncio.run(act())
    assert code == 0, err[-2000:]
    assert "nameless" in out
