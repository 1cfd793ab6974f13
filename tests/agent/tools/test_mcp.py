"""MCP servers as a source of tools: a real server over its real transports."""

import asyncio
import gc
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.agent.tools.mcp_sources import make_server, make_source
from tests.agent.tools.workshop import make_context
from tests.free_port import find_free_port
from tests.scale import mark_all_but
from tidegate.agent.tools.approval import ALLOW_ALL
from tidegate.agent.tools.tool import MAX_RESULT_BYTES, ToolContext, ToolResult
from tidegate.agent.tools.toolbox import Toolbox, list_standard_tools
from tidegate.core.messages import Call
from tidegate.wire.limits import ServerLimits

if TYPE_CHECKING:
    from tidegate.agent.tools.mcp.source import McpServer, McpSource

pytestmark = pytest.mark.sdk

COMMAND = (sys.executable, str(Path(__file__).with_name("mcp_child.py")))
PLAIN = (sys.executable, str(Path(__file__).with_name("plain_mcp_server.py")))
SILENT = (sys.executable, "-c", "import sys; sys.stdin.read()")
"""Never answers, and ends when its input is closed."""
DEAF = (sys.executable, "-c", "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(600)")
"""Makes a file, never answers, and does not end by itself."""

Use = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


def with_server(
    server: "McpServer",
    act: "Callable[[McpSource, Toolbox], Awaitable[None]]",
    clock: Callable[[], float] = time.monotonic,
) -> None:
    async def whole() -> None:
        source = make_source(server, clock=clock)
        try:
            await act(source, Toolbox([*list_standard_tools(), *await source.start()], approval=ALLOW_ALL))
        finally:
            await source.close()

    before = children()
    asyncio.run(whole())
    assert children() <= before


def children() -> set[str]:
    """The processes of ours that there are: a server must not outlive its source."""
    found: set[str] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # this thread has just ended
            found.update(path.read_text().split())
    return found


def test_tools_of_a_server_over_stdio(context: ToolContext) -> None:
    os.environ["TIDEGATE_TEST_KEY"] = "sk-never"

    async def act(source: "McpSource", toolbox: Toolbox) -> None:
        async def use(name: str, arguments: str = "{}") -> ToolResult:
            return await toolbox.run_call(Call("c", name, arguments), context)

        assert source.problem == ""
        assert [tool.tool.name for tool in source.tools] == [
            f"w__{name}" for name in "add much broken shape wordy".split()
        ]
        assert all(len(tool.tool.description) <= ServerLimits().description for tool in source.tools)
        assert await use("w__add", '{"a": 2, "b": 3}') == ToolResult("5")
        much = await use("w__much")
        assert len(much.text.encode()) <= MAX_RESULT_BYTES
        assert "left out" in much.text
        broken = await use("w__broken")
        assert broken.is_error
        assert "printer" in broken.text or "broken" in broken.text
        wrong = await use("w__add", '{"a": "two"}')
        assert wrong.is_error
        assert '"keys"' in (await use("w__shape")).text
        assert "TIDEGATE_TEST_KEY" not in (await use("w__shape")).text

    try:
        with_server(make_server(COMMAND), act)
    finally:
        del os.environ["TIDEGATE_TEST_KEY"]


def test_a_server_that_dies_is_started_again_by_the_next_call(context: ToolContext) -> None:
    """The call that was under way is not repeated: nobody knows how far it came. One that died meanwhile is noticed
    before the call."""
    sum_of_two = Call("c", "w__add", '{"a": 2, "b": 3}')

    async def act(source: "McpSource", toolbox: Toolbox) -> None:
        died = await toolbox.run_call(Call("c", "w__die", "{}"), context)
        assert died.is_error
        assert "MCP server 'w'" in died.text
        assert "go on without" in died.text
        assert await toolbox.run_call(sum_of_two, context) == ToolResult("5")
        assert not (await toolbox.run_call(Call("c", "list", "{}"), context)).is_error
        server = children() - theirs
        assert len(server) == 1
        for child in server:
            os.kill(int(child), 9)
        while children() & server:
            await asyncio.sleep(0.02)
        now[0] += 100  # it was not in such a haste
        assert await toolbox.run_call(sum_of_two, context) == ToolResult("5")

    theirs, now = children(), [0.0]
    with_server(make_server(PLAIN), act, lambda: now[0])


def test_a_server_that_dies_again_and_again_is_left_alone(context: ToolContext) -> None:
    from tidegate.agent.tools.mcp.source import FIRST_RESTART_SECONDS

    now, again = [0.0], 2

    async def whole() -> None:
        source = make_source(make_server(PLAIN), clock=lambda: now[0], max_restarts=again)
        try:
            await source.start()

            async def use(name: str) -> ToolResult:
                return await source.call(name, {"a": 1, "b": 1} if name == "add" else {})

            for life in range(1, again + 1):
                await use("die")
                assert "cannot be used now" in (await use("add")).text if life > 1 else True, (
                    "it was not in such a haste"
                )
                now[0] += FIRST_RESTART_SECONDS * 2**life
                assert await use("add") == ToolResult("2")
            await use("die")
            now[0] += 1_000_000
            assert "cannot be used now" in (await use("add")).text
        finally:
            await source.close()

    before = children()
    asyncio.run(whole())
    assert children() <= before


@pytest.mark.parametrize("when", mark_all_but(["at once", "when its process is there", "when it runs"], "when it runs"))
def test_a_start_that_is_given_up_leaves_nothing_open(when: str, tmp_path: Path) -> None:
    """Warnings are errors here: a pipe or a process that is left shows when it is collected."""
    running = tmp_path / "running"

    async def whole() -> None:
        command = (*DEAF, str(running)) if when == "when it runs" else SILENT
        source = make_source(make_server(command))
        task = asyncio.create_task(source.start())
        await asyncio.sleep(0)
        while when == "when its process is there" and not children() - before:
            await asyncio.sleep(0)
        while when == "when it runs" and not running.exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await source.close()

    before = children()
    asyncio.run(whole())
    gc.collect()
    assert children() <= before


def test_a_call_that_takes_too_long_is_a_result(context: ToolContext) -> None:
    async def act(source: "McpSource", toolbox: Toolbox) -> None:
        source.server = make_server(PLAIN, timeout=0.2)
        result = await toolbox.run_call(Call("c", "w__slow", "{}"), context)
        assert result.is_error
        assert "within 0.2 s" in result.text
        assert "not known" in result.text

    with_server(make_server(PLAIN), act)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: make_server(("no-such-program-here",)), "could not be used"),
        (lambda: make_server((*COMMAND, "fail")), "no license found"),
        (lambda: make_server(SILENT, timeout=0.2), "did not answer within 0.2 s"),
        (make_server, "neither a command nor a url"),
        (lambda: make_server(url="http://127.0.0.1:9/mcp"), "could not be used"),
    ],
)
def test_a_server_that_does_not_start_gives_no_tools_and_a_reason(make: Callable[[], "McpServer"], says: str) -> None:
    async def act(source: "McpSource", toolbox: Toolbox) -> None:
        assert source.tools == []
        assert says in source.problem
        result = await source.call("add", {})
        assert result.is_error
        assert says in result.text

    with_server(make(), act)


async def serving(port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([*COMMAND, "http", str(port)], stderr=subprocess.DEVNULL)
    while not is_listening(port):
        assert process.poll() is None
        await asyncio.sleep(0.02)
    return process


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.exhaustive
def test_tools_of_a_server_over_http(context: ToolContext) -> None:
    port = find_free_port()
    process = asyncio.run(serving(port))
    try:

        async def act(source: "McpSource", toolbox: Toolbox) -> None:
            assert source.problem == ""
            assert await toolbox.run_call(Call("c", "w__add", '{"a": 2, "b": 3}'), context) == ToolResult("5")
            process.kill()
            process.wait()
            dead = await toolbox.run_call(Call("c", "w__add", '{"a": 2, "b": 3}'), context)
            assert dead.is_error
            assert "MCP server 'w'" in dead.text
            again = await serving(port)
            try:
                assert await toolbox.run_call(Call("c", "w__add", '{"a": 2, "b": 3}'), context) == ToolResult("5")
            finally:
                again.kill()
                again.wait()

        with_server(make_server(url=f"http://127.0.0.1:{port}/mcp", headers={"X-Name": "t"}), act)
    finally:
        process.kill()
        process.wait()
