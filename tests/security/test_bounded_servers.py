"""Threat: an MCP server, broken or hostile, sends without end, sends what takes long to parse, or does not answer.
The memory of the agent must stay bounded, its event loop free and its other tools usable, and the model must be told
which limit was exceeded.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.agent.tools.mcp_sources import make_server, make_source
from tests.security.project import DEADLINE
from tidegate.agent.config.files import parse_config
from tidegate.agent.loop import ToolFinished, TurnEnded
from tidegate.agent.runtime import OpenAgent, UserNotice, open_agent
from tidegate.agent.tools.tool import ToolResult
from tidegate.core.messages import Call
from tidegate.models.pace import STEPS
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.wire.limits import MAX_TOOLS, ServerLimits

if TYPE_CHECKING:
    from tidegate.agent.tools.mcp.source import McpServer, McpSource

pytestmark = pytest.mark.sdk

SERVER = str(Path(__file__).with_name("hostile_server.py"))
LIMITS = ServerLimits()


@asynccontextmanager
async def agent_with(server: str, steps: list[str | ScriptedAnswer], workspace: Path) -> AsyncIterator[OpenAgent]:
    settings = "window: 32000\ncapabilities: {default_policy: allow}\nexecution: {tool_mode: direct}\n"
    config = parse_config(f"{settings}mcp: {{w: {server}}}\n", {})
    provider = ScriptedProvider("openai_chat", steps)
    async with open_agent(config, data=None, name="s", workspace=workspace, provider=provider) as agent:
        yield agent


def over_stdio(listing: str = "") -> str:
    return f'{{command: "{sys.executable}", args: ["{SERVER}", "{listing}"]}}'


@contextmanager
def over_http() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, SERVER, "http"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
    finally:
        process.kill()
        process.communicate()


def call(name: str) -> ScriptedAnswer:
    return ScriptedAnswer(calls=(Call(f"c-{name}", f"w__{name}", "{}"),))


def results_of(server: str, names: list[str], workspace: Path) -> dict[str, ToolResult]:
    """Call the tools one after the other; the turn must end as it should."""

    async def act() -> dict[str, ToolResult]:
        async with agent_with(server, [*map(call, names), "That is all."], workspace) as agent:
            turn = [each async for each in agent.run_turn("Use the tools.")]
        assert turn[-1] == TurnEnded("end")
        return {each.call.id.removeprefix("c-"): each.result for each in turn if isinstance(each, ToolFinished)}

    return asyncio.run(act())


EXCEEDED = {
    "line": "a message of more than 4,194,304 bytes",
    "values": "a message with more than 50,000 values",
}
EXCEEDED_IN_TIME = {
    "notifications": "more than 5,000 messages in 60 s",
    "requests": "more than 5,000 messages in 60 s",
    "noise": "more than 67,108,864 bytes in 60 s",
}


@pytest.mark.parametrize(("name", "says"), EXCEEDED.items())
def test_call_that_floods_is_an_error_that_names_the_limit(name: str, says: str, tmp_path: Path) -> None:
    """The connection is closed; the next call starts the server again."""
    results = results_of(over_stdio(), [name, "fine"], tmp_path)
    assert results[name].is_error
    assert says in results[name].text
    assert "Ask it for less at once." in results[name].text
    assert results["fine"] == ToolResult("fine")


def check_flood(server: "McpServer", name: str, says: str) -> None:
    """All messages come in the same second of the clock, however busy the machine is. The next call starts again."""

    async def act(source: "McpSource") -> None:
        flood = await source.call(name, {})
        assert flood.is_error
        assert says in flood.text
        assert await source.call("fine", {}) == ToolResult("fine")

    with_source(server, act, clock=lambda: 0.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param(name, says, marks=[pytest.mark.exhaustive] if name == "requests" else [])
        for name, says in EXCEEDED_IN_TIME.items()
    ],
)
def test_server_that_sends_too_much_in_a_time_is_an_error_that_names_the_limit(name: str, says: str) -> None:
    check_flood(make_server((sys.executable, SERVER)), name, says)


def test_http_response_that_floods_is_an_error_that_names_the_limit(tmp_path: Path) -> None:
    with over_http() as url:
        results = results_of(f'{{url: "{url}"}}', ["line", "fine"], tmp_path)
        assert results["line"].is_error
        assert EXCEEDED["line"] in results["line"].text
        assert results["fine"] == ToolResult("fine")
        check_flood(make_server(url=url), "values", EXCEEDED["values"])
        check_flood(make_server(url=url), "packed", "it compressed its response")
        check_flood(make_server(url=url), "events", EXCEEDED_IN_TIME["notifications"])


def notices_of(server: str, workspace: Path) -> tuple[list[str], list[str], int]:
    """The notices, the tools of the server, and the largest of their schemas, descriptions and names."""

    async def act() -> tuple[list[str], list[str], int]:
        async with agent_with(server, ["Hello."], workspace) as agent:
            tools = [tool for tool in agent.session.view.tools if tool.name.startswith("w__")]
            turn = [each async for each in agent.run_turn("Hello.")]
        assert turn[-1] == TurnEnded("end")
        notices = [each.text for each in turn if isinstance(each, UserNotice)]
        sizes = [max(len(tool.name), len(tool.description), len(tool.parameters)) for tool in tools]
        return notices, [tool.name for tool in tools], max(sizes, default=0)

    return asyncio.run(act())


def test_long_list_of_tools_is_cut_and_that_is_said(tmp_path: Path) -> None:
    """The server may list 200; a request with more than 128 would be refused by OpenAI, and so would every other."""
    (listed, offered, *_), names, _ = notices_of(over_stdio("many"), tmp_path)
    assert "lists 112 tools that are left out: beyond 200" in listed
    assert "a model is offered at most 128 tools" in offered
    assert 100 < len(names) < MAX_TOOLS


def test_list_of_tools_without_end_is_ended(tmp_path: Path) -> None:
    _, names, _ = notices_of(over_stdio("endless"), tmp_path)
    assert 0 < len(names) <= LIMITS.tools


def test_list_of_tools_with_too_many_values_is_refused(tmp_path: Path) -> None:
    (notice, *_), names, _ = notices_of(over_stdio("flood"), tmp_path)
    assert "could not be used: it sent a message with" in notice
    assert names == []


def test_names_descriptions_and_schemas_are_bounded(tmp_path: Path) -> None:
    (notice, *_), names, largest = notices_of(over_stdio("wordy"), tmp_path)
    assert "lists 1 tools that are left out" in notice
    assert {"w__described", "w__schemed"} <= set(names)
    assert largest <= LIMITS.description + 100


def test_schema_that_is_none_costs_its_own_tool_only(tmp_path: Path) -> None:
    """No request with such a schema would be sent: one server would silence the agent."""
    _, names, _ = notices_of(over_stdio("invalid"), tmp_path)
    assert names == ["w__tool0", "w__tool1", "w__tool2"]


def test_pattern_of_a_server_is_not_run(tmp_path: Path) -> None:
    """The schema of a tool's results may hold a pattern that takes for ever to match."""
    assert results_of(over_stdio(), ["pattern"], tmp_path)["pattern"] == ToolResult("done")


def with_source(server: "McpServer", act: "Callable[[McpSource], Awaitable[None]]", **more: object) -> None:
    async def whole() -> None:
        source = make_source(server, **more)
        try:
            await source.start()
            await act(source)
        finally:
            await source.close()

    asyncio.run(whole())


def test_server_that_stops_within_a_message_is_not_waited_for(tmp_path: Path) -> None:
    async def act(source: "McpSource") -> None:
        source.server = make_server(source.server.command, timeout=0.2)
        result = await source.call("half", {})
        assert result.is_error
        assert "did not answer half within 0.2 s" in result.text

    with_source(make_server((sys.executable, SERVER)), act)


def test_server_that_does_not_read_is_started_again() -> None:
    """What is sent to it would else wait in the memory, and every later call with it."""

    async def act(source: "McpSource") -> None:
        source.server = make_server(source.server.command, timeout=0.3)
        assert (await source.call("deaf", {})).is_error
        source.server = make_server(source.server.command, timeout=DEADLINE)
        unread = await source.call("fine", {"text": "x" * 1_000_000})
        assert "did not read its input for 0.1 s" in unread.text
        assert await source.call("fine", {}) == ToolResult("fine")

    with_source(make_server((sys.executable, SERVER)), act, limits=ServerLimits(unread=0.1))


def test_event_loop_gets_its_turns_while_a_server_floods() -> None:
    """The clock is asked for every line. Between two turns of another task it must not be asked without end."""
    turns, asked_in_turn, longest = 0, [0, 0], 0

    def clock() -> float:
        nonlocal longest
        asked_in_turn[0] = asked_in_turn[0] + 1 if asked_in_turn[1] == turns else 1
        asked_in_turn[1] = turns
        longest = max(longest, asked_in_turn[0])
        return 0.0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def act(source: "McpSource") -> None:
        others = asyncio.create_task(take_turns())
        assert await source.call("chatter", {}) == ToolResult("fine")
        others.cancel()

    with_source(make_server((sys.executable, SERVER)), act, clock=clock)
    assert 1 < longest <= 2 * STEPS


MEASURED = """
import asyncio, resource, sys
from pathlib import Path
from tests.security.test_bounded_servers import agent_with, call, over_stdio
from tidegate.agent.loop import ToolFinished

async def main():
    async with agent_with(over_stdio(), [call("fine"), call(sys.argv[1]), "Done."], Path(sys.argv[2])) as agent:
        async for each in agent.run_turn("Use them."):
            if isinstance(each, ToolFinished):
                print(each.result.text)
                status = Path("/proc/self/status").read_text()
                used = int(status.partition("VmData:")[2].split()[0]) * 1024
                resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv[3]), resource.RLIM_INFINITY))

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is read")
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", EXCEEDED)
def test_memory_is_bounded_by_a_small_multiple_of_the_limit(name: str, tmp_path: Path) -> None:
    """A process that may use 48 MB more than it does survives a line of 300 MB, and a message of 100,000s of values."""
    command = [sys.executable, "-c", MEASURED, name, str(tmp_path), str(12 * LIMITS.message)]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    assert (ran.returncode, ran.stdout.count("\n")) == (0, 2), ran.stderr[-2000:]
    assert EXCEEDED[name] in ran.stdout
