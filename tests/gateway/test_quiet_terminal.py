"""What the gateway prints: one line for what happened, and no traceback for what clients and upstreams do."""

import asyncio
import resource
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.fake.server import KEY, CutAt, Fake
from tests.free_port import find_free_port
from tests.gateway.scripted_client import ScriptedClient
from tests.gateway.server_process import end, start_gateway, wait_until_ready
from tests.gateway.serving import DEADLINE, open_http
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer


@pytest.mark.exhaustive
def test_an_answer_that_breaks_off_is_one_line(tmp_path: Path) -> None:
    async def run() -> str:
        said = ScriptedAnswer(text="Words of an answer. " * 200)
        async with Fake("anthropic", [CutAt(said, 2000), CutAt(said, 2000)]) as fake, open_http() as http:
            port = find_free_port()
            process = await start_gateway(tmp_path, port, "--upstream", f"anthropic={fake.host}")
            await wait_until_ready(port)
            client = ScriptedClient("anthropic", f"http://127.0.0.1:{port}", http)
            client.say("start")
            for path in ("", "/v1/other"):
                with suppress(httpx.RemoteProtocolError):
                    await client.ask(path, stream=True)
            with pytest.raises(httpx.RemoteProtocolError):
                await client.ask(stream=True)
            return await end(process)

    printed = asyncio.run(run())
    assert printed.count("the upstream's answer broke off: it closed the connection") == 2, printed
    assert "Traceback" not in printed
    assert "ASGI" not in printed


def test_requests_that_are_none_and_websockets_print_nothing_of_the_web_server(tmp_path: Path) -> None:
    """Any web page can open a WebSocket, or ask for https where none is spoken."""
    greeting = bytes.fromhex("1603010200010001fc0303") + bytes(60)

    async def run() -> str:
        port = find_free_port()
        process = await start_gateway(tmp_path, port)
        await wait_until_ready(port)
        upgrade = (
            f"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\norigin: https://evil.example\r\n"
            "upgrade: websocket\r\nconnection: upgrade, close\r\nsec-websocket-version: 13\r\n"
            "sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        )
        for sent, status in ((greeting, b"400"), (upgrade.encode(), b"403")) * 3:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            assert status in (await reader.read())[:20]
            writer.close()
        return await end(process)

    printed = asyncio.run(run())
    assert printed.count("GET /v1/responses 403") == 3, printed
    assert "WebSocket" not in printed
    assert "upgrade" not in printed
    assert "Invalid" not in printed


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_result_without_a_call_is_one_line(workers: int, tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "Which port?"},
        {"role": "tool", "tool_call_id": "c9", "content": "8443"},
        {"role": "user", "content": "Well?"},
    ]

    async def run() -> str:
        async with Fake("openai_chat", [ScriptedAnswer(text="It is 8443.")]) as fake, open_http() as http:
            port = find_free_port()
            upstream = ("--upstream", f"openai={fake.host}", "--workers", str(workers), "--window", "32000")
            process = await start_gateway(tmp_path, port, *upstream)
            await wait_until_ready(port)
            tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
            body = {"model": "gpt-4o", "messages": messages, "tools": tools}
            headers = {"authorization": f"Bearer {KEY}", "x-tidegate-session": "s"}
            answer = await http.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            return await end(process)

    printed = asyncio.run(run())
    assert printed.count("\ns: 1 result had no call.\n") == 1, printed
    assert "Warning" not in printed
    assert ".py:" not in printed


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a running process is changed")
def test_connections_that_cannot_be_accepted_are_one_line(tmp_path: Path) -> None:
    async def run() -> str:
        port = find_free_port()
        process = await start_gateway(tmp_path, port)
        await wait_until_ready(port)
        used = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used + 5, used + 5))
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        assert process.stderr is not None
        first = b""
        async with asyncio.timeout(DEADLINE):
            while b"have to wait" not in first:
                line = await process.stderr.readline()
                assert line, first
                first += line
        for _, writer in opened:
            writer.close()
        await wait_until_ready(port)
        return first.decode() + await end(process)

    printed = asyncio.run(run())
    assert printed.count("new connections have to wait (Too many open files)") == 1, printed
    assert "Traceback" not in printed
