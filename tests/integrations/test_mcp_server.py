"""`tidegate mcp`, driven by the official client SDK: over both transports, and in this process for the rest."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.free_port import find_free_port
from tidegate.datafolder.data_folder import DataFolder
from tidegate.integrations.threads import WHOLE_RECALL_CHARS

if TYPE_CHECKING:
    from mcp import Client, StdioServerParameters

pytestmark = pytest.mark.sdk

KEY = "sk-verysecretkey0123456789"
DEADLINE = 300
"""Seconds after which a server that is waited for has failed. It only ends a test that hangs."""


def make_folder(folder: Path) -> DataFolder:
    data = DataFolder(folder)
    for name in ("build-fix", "holiday"):
        with data.open(name, "gpt-4o", window=100_000) as session:
            session.add({"role": "user", "content": f"This is about {name}. The key is {KEY}."})
            for number in range(40):
                session.add({"role": "assistant", "content": f"Step {number} of {name}: port {8000 + number} is free."})
    data.notes.write("ports.md", "Port 8080 is reserved.\n", about="which ports are reserved")
    return data


def stdio(folder: Path, *arguments: str) -> "StdioServerParameters":
    from mcp import StdioServerParameters

    command = ["-m", "tidegate", "mcp", "--data", str(folder), *arguments]
    return StdioServerParameters(command=sys.executable, args=command, env={**os.environ, "OPENAI_API_KEY": KEY})


@asynccontextmanager
async def connect(folder: Path, session: str = "", *, allow_writes: bool = False) -> "AsyncIterator[Client]":
    """A client of a server in this process, over the sessions of `make_folder`."""
    from mcp import Client

    from tidegate.integrations.mcp_server import create_mcp_server

    with make_folder(folder) as data:
        async with Client(create_mcp_server(data, session, allow_writes=allow_writes)) as client:
            yield client


async def call(client: "Client", tool: str, /, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return "".join(block.text for block in result.content if block.type == "text")


def test_the_tools_over_standard_streams(tmp_path: Path) -> None:
    from mcp import Client

    make_folder(tmp_path).close()

    async def run() -> None:
        async with Client(stdio(tmp_path)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"recall", "search", "notes", "status"}
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
            assert "Step 3 of build-fix" in await call(client, "recall", what="m6..m8", session="build-fix")
            assert "Step 7 of holiday" in await call(client, "recall", what="port 8007", session="holiday")
            found = await call(client, "search", words="port 8080 reserved")
            assert "note ports.md, line 1: " in found
            assert "recall_earlier_sessions: true" in found
            assert "ports.md" in await call(client, "notes")
            assert await call(client, "notes", name="ports.md") == "Port 8080 is reserved.\n"
            listed = await call(client, "status")
            assert listed.count("records") == 2
            assert "messages in the view" in await call(client, "status", session="holiday")
            for text in (
                await call(client, "recall", what="m2..m4", session="build-fix"),
                await call(client, "recall", what="This is about", session="build-fix"),
            ):
                assert "about build-fix" in text
                assert KEY not in text  # it is in the environment of the server

    asyncio.run(run())


def test_sessions_are_resources(tmp_path: Path) -> None:
    async def run() -> None:
        async with connect(tmp_path) as client:
            listed = (await client.list_resources()).resources
            assert {resource.name for resource in listed} == {"build-fix", "holiday"}
            chosen = next(resource for resource in listed if resource.name == "holiday")
            read = await client.read_resource(chosen.uri)
            assert "Step 0 of holiday" in str(read.contents[0])

    asyncio.run(run())


def test_one_session_hides_the_others(tmp_path: Path) -> None:
    async def run() -> None:
        async with connect(tmp_path, "holiday") as client:
            assert "Step 3 of holiday" in await call(client, "recall", what="Step 3")
            assert "no session" in await call(client, "recall", what="m3", session="build-fix")
            found = await call(client, "search", words="port 8011")
            assert "session holiday, m" in found
            assert "build-fix" not in found
            assert KEY not in await call(client, "search", words="about key")
            assert "build-fix" not in await call(client, "status")
            assert [each.name for each in (await client.list_resources()).resources] == ["holiday"]

    asyncio.run(run())


def test_one_session_has_only_its_own_notes(tmp_path: Path) -> None:
    at = 1_900_000_000.0
    day = f"{datetime.fromtimestamp(at):%Y-%m-%d}.md"

    async def run() -> None:
        async with connect(tmp_path, "holiday", allow_writes=True) as client:
            assert "no such notes" in await call(client, "notes")
            assert (await call(client, "write_note", text="Pack the tent.")).startswith("Noted in ")
            with DataFolder(tmp_path) as data:
                data.notes.add_entry("The key is in the safe.", source="build-fix", title="Where the key is", at=at)
                data.notes.add_entry("Bring the map.", source="holiday", title="Map", at=at)
            listed = await call(client, "notes")
            assert "Pack the tent." in listed
            assert "Bring the map." in listed
            entries = await call(client, "notes", name=day)
            assert "Bring the map." in entries
            others = [listed, entries, *[await call(client, "notes", name=name) for name in ("ports.md", "MEMORY.md")]]
            assert not any("safe" in text or "key is" in text or "8080" in text or "ports" in text for text in others)
            assert "Leave the name out" in await call(client, "write_note", text="x", name="ports.md")

    asyncio.run(run())


def test_lists_go_on_with_a_cursor(tmp_path: Path) -> None:
    from mcp import Client
    from mcp.shared.exceptions import MCPError

    from tidegate.integrations.mcp_server import create_mcp_server

    names = {f"session-{number}" for number in range(230)}

    async def run(client: "Client") -> None:
        listed, cursor, pages = list[str](), None, 0
        while pages == 0 or cursor:
            page = await client.list_resources(cursor=cursor)
            listed += [each.name for each in page.resources]
            cursor, pages = page.next_cursor, pages + 1
        assert (len(listed), set(listed), pages) == (230, names, 3)
        text = await call(client, "status")
        assert text.endswith("230 in all; go on with the cursor 100")
        rest = [await call(client, "status", cursor=cursor) for cursor in ("100", "200")]
        lines = "\n".join([text, *rest]).splitlines()
        assert {line.partition(":")[0] for line in lines if " records, " in line} == names
        assert "no more" in await call(client, "status", cursor="230")
        assert "not a cursor" in await call(client, "status", cursor="../x")
        with pytest.raises(MCPError, match="not a cursor"):
            await client.list_resources(cursor="-1")

    async def connected() -> None:
        async with Client(create_mcp_server(data)) as client:
            await run(client)

    with DataFolder(tmp_path) as data:
        for name in names:
            data.store.append(name, 0, [b"x"])
        asyncio.run(connected())


@pytest.mark.exhaustive
def test_the_options_reach_the_server(tmp_path: Path) -> None:
    from mcp import Client

    make_folder(tmp_path).close()

    async def run() -> None:
        async with Client(stdio(tmp_path, "--session", "holiday", "--allow-writes")) as client:
            assert "write_note" in [tool.name for tool in (await client.list_tools()).tools]
            assert [each.name for each in (await client.list_resources()).resources] == ["holiday"]

    asyncio.run(run())


def test_notes_are_written_only_if_it_is_allowed(tmp_path: Path) -> None:
    async def run() -> None:
        async with connect(tmp_path / "read") as client:
            result = await client.call_tool("write_note", {"text": "x", "name": "x.md"})
            assert result.is_error
        async with connect(tmp_path / "written", allow_writes=True) as client:
            assert await call(client, "write_note", text="Use port 9000.", name="use.md") == "Written to use.md."
            assert "Use port 9000." in await call(client, "notes", name="use.md")
            assert (await call(client, "write_note", text="The build is green.")).startswith("Noted in ")
            assert "There is no note" in await call(client, "notes", name="missing.md")
            outside = await call(client, "write_note", text="x", name="../outside.md")
            assert "outside" in outside

    asyncio.run(run())
    assert not list(tmp_path.rglob("outside.md"))
    assert not (tmp_path.parent / "outside.md").exists()


HOSTILE: list[dict[str, Any]] = [
    {"what": "m1..m999999999999999"},
    {"what": "m1..m999999999999999", "max_chars": 10**12},
    {"what": "m3", "offset": -5, "max_chars": -1},
    {"what": "m3", "offset": 10**15},
    {"what": "x" * 500_000},
    {"what": ""},
    {"what": "\x00\ud7ff ' OR 1=1 -- \"; NEAR("},
    {"what": "m3", "session": "../../etc/passwd"},
    {"what": "m3", "session": "n" * 100_000},
]


def test_hostile_arguments_get_a_bounded_text(tmp_path: Path) -> None:
    async def run() -> None:
        async with connect(tmp_path) as client:
            for arguments in HOSTILE:
                text = await call(client, "recall", **{"session": "build-fix", **arguments})
                assert text
                assert len(text) <= 61_000
            assert await call(client, "search", words="' OR \" NEAR(", limit=10**9)
            assert await call(client, "notes", name="../../secret")
            wrong = await client.call_tool("recall", {"what": 5, "offset": "many"})
            assert wrong.is_error
            assert "Step 3" in await call(client, "recall", what="Step 3", session="build-fix"), "it still answers"

    asyncio.run(run())


def test_a_long_answer_goes_on_where_it_ended(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as data, data.open("long", "gpt-4o", window=100_000) as session:
        session.add({"role": "user", "content": "".join(f"line {number}\n" for number in range(3000))})

    async def run() -> str:
        found, what = "", "m2"
        async with connect(tmp_path, "long") as client:
            while what:
                text = await call(client, "recall", what=what)
                found += text
                marked = text.rpartition("[go on with ")[2].rstrip("]\n") if "[go on with " in text else ""
                assert len(text) <= WHOLE_RECALL_CHARS + 200
                what = marked
        return found

    found = asyncio.run(run())
    assert all(f"line {number}" in found for number in (0, 1499, 2999))


@contextmanager
def serve_http(folder: Path) -> Iterator[str]:
    port = find_free_port()
    command = [sys.executable, "-m", "tidegate", "mcp", "--data", str(folder), "--port", str(port)]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + DEADLINE
        while not is_listening(port):
            assert server.poll() is None, "the server did not start"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        server.wait(DEADLINE)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.exhaustive
def test_concurrent_clients_over_http_while_the_session_grows_and_no_other_host_name(tmp_path: Path) -> None:
    from mcp import Client

    data = make_folder(tmp_path)

    async def ask(url: str, number: int) -> str:
        async with Client(url) as client:
            return await call(client, "recall", what=f"port {8000 + number}", session="build-fix")

    async def run(url: str) -> list[str]:
        return await asyncio.gather(*(ask(url, number) for number in range(8)))

    with serve_http(tmp_path) as url, data.open("build-fix", "gpt-4o", window=100_000) as session:
        for number, text in enumerate(asyncio.run(run(url))):
            assert f"port {8000 + number} is free" in text
        session.add({"role": "user", "content": "Is port 9999 free?"})
        assert "9999" in asyncio.run(ask(url, 1999))
        check_host_names(url)
    data.close()


def check_host_names(url: str) -> None:
    """A web page must not reach the server through a name that it points at 127.0.0.1."""
    headers = {"host": "evil.example", "accept": "application/json, text/event-stream"}
    answer = httpx.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers, timeout=DEADLINE)
    assert answer.status_code in (403, 421)


def test_without_the_package_the_command_says_what_to_install() -> None:
    program = "import sys; sys.modules['mcp'] = None; from tidegate.cli.main import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'tidegate[mcp]'" in done.stderr
