"""Upstreams that send what no provider sends: lines without end, compressed answers, bombs, odd statuses."""

import asyncio
import json
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

from tests.fake.words import too_long
from tests.gateway.scripted_client import PATHS, ScriptedClient, headers_of
from tests.gateway.serving import FAMILIES, Running, open_http, run_gateway
from tests.scale import mark_all_but, parametrize_pairs
from tidegate.core.events import MessageAdded
from tidegate.core.messages import text_of
from tidegate.gateway.settings import Upstream
from tidegate.wire.answers import encode_response_body, encode_response_frames, encode_sse
from tidegate.wire.limits import ProviderLimits
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

Write = Callable[[bytes], Awaitable[None]]
Answer = Callable[[Write], Awaitable[None]]


@asynccontextmanager
async def raw_upstream(wire: str, *answers: Answer) -> AsyncIterator[Upstream]:
    """An upstream that writes these answers, one for each request. The last is repeated."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            await (left.pop(0) if len(left) > 1 else left[0])(write)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    family = FAMILIES[wire]
    async with server:
        yield Upstream(family, family, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


def whole(body: bytes, kind: str = "application/json", status: int = 200, **headers: str) -> Answer:
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"

    async def answer(write: Write) -> None:
        await write(f"{head}connection: close\r\n{named}\r\n".encode() + body)

    return answer


def logged_texts(running: Running) -> list[str]:
    names = [info.name for info in running.data.store.sessions()]
    events = [event for name in names for event in running.data.open_log(name).read()]
    added = [event.payload.message for event in events if isinstance(event.payload, MessageAdded)]
    return [text_of(message) for message in added if message.role == "assistant"]


# --- lines --------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("unit", mark_all_but([b"x", b"data: x\n", b": \r\n"], b"data: x\n"))
def test_an_event_without_end_is_passed_on_while_it_arrives(unit: bytes, tmp_path: Path) -> None:
    """It is not kept until its end comes, and not searched again with every piece."""
    arrived = asyncio.Event()
    limit = ProviderLimits().max_line_bytes

    async def endless(write: Write) -> None:
        await write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: ")
        for _ in range(limit // 1_000_000 + 2):
            await write(unit * (1_000_000 // len(unit)))
        await arrived.wait()
        await write(b"end")

    async def run() -> None:
        async with (
            raw_upstream("anthropic", endless) as upstream,
            run_gateway(tmp_path, upstream, recall=True) as running,
            open_http() as http,
        ):
            client = ScriptedClient("anthropic", running.url, http)
            client.say("start")
            got = bytearray()
            async with asyncio.timeout(300):
                body = json.dumps(client.body() | {"stream": True}).encode()
                async with http.stream(
                    "POST", running.url + PATHS["anthropic"], content=body, headers=client.headers
                ) as response:
                    async for piece in response.aiter_raw():
                        got += piece
                        if len(got) > limit:
                            arrived.set()
            assert got.startswith(b"data: " + unit)
            assert got.endswith(unit + b"end")

    asyncio.run(run())


# --- compressed answers -------------------------------------------------------------------------------------------


def gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(body) + packer.flush()


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip,
    "deflate": zlib.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}

PACKERS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.compressobj(1, wbits=31),
    "deflate": lambda: zlib.compressobj(1),
    "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
}


@parametrize_pairs(("wire", "coding"), PATHS, CODINGS)
def test_an_answer_that_is_compressed_unasked_is_read(wire: str, coding: str, tmp_path: Path) -> None:
    said = ScriptedAnswer(text="Compressed words. " * 500)
    body = json.dumps(encode_response_body(wire, said)).encode()
    events = encode_sse(wire, encode_response_frames(wire, said))
    answers = [
        whole(CODINGS[coding](body), content_encoding=coding),
        whole(CODINGS[coding](events), "text/event-stream", content_encoding=coding.upper()),
    ]

    async def run() -> None:
        async with (
            raw_upstream(wire, *answers) as upstream,
            run_gateway(tmp_path, upstream) as running,
            open_http() as http,
        ):
            client = ScriptedClient(wire, running.url, http)
            client.say("start")
            first = await client.ask()
            client.say("once more")
            path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse" if wire == "gemini" else ""
            second = await client.ask(path, **({} if wire == "gemini" else {"stream": True}))
            for response, plain in ((first, body), (second, events)):
                assert (response.status_code, response.content) == (200, plain)
                assert "content-encoding" not in response.headers
            assert logged_texts(running) == [said.text, said.text]

    asyncio.run(run())


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_an_answer_that_is_compressed_in_parts_is_read_whole(coding: str, tmp_path: Path) -> None:
    """Some servers compress each event by itself. What is no further part is ignored, as browsers do."""
    said = ScriptedAnswer(text="Compressed words. " * 50)
    events = encode_sse("anthropic", encode_response_frames("anthropic", said))
    parts = [CODINGS[coding](event + b"\n\n") for event in events.split(b"\n\n") if event]
    assert len(parts) > 5
    answers = [
        whole(b"".join(parts) + rest, "text/event-stream", content_encoding=coding) for rest in (b"", b"\0\0\0", b"\n")
    ]

    async def run() -> None:
        async with (
            raw_upstream("anthropic", *answers) as upstream,
            run_gateway(tmp_path, upstream) as running,
            open_http() as http,
        ):
            client = ScriptedClient("anthropic", running.url, http)
            for number in range(len(answers)):
                client.say(f"start {number}")
                response = await client.ask(stream=True)
                assert (response.status_code, response.content) == (200, events)
            assert logged_texts(running) == [said.text] * len(answers)

    asyncio.run(run())


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_body_of_very_many_parts_is_refused(coding: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            raw_upstream("anthropic") as upstream,
            run_gateway(tmp_path, upstream) as running,
            open_http() as http,
        ):
            headers = {**headers_of("anthropic"), "content-encoding": coding}
            body = CODINGS[coding](b"") * 20_001
            response = await http.post(running.url + PATHS["anthropic"], content=body, headers=headers)
            assert response.status_code == 400
            assert "parts" in response.text

    asyncio.run(run())


def test_a_compressed_refusal_is_read(tmp_path: Path) -> None:
    """A request that is refused for its length is sent again, shorter, and another refusal can be read."""
    refused = too_long("openai_chat", 50_000, 12_000).body
    body = json.dumps(encode_response_body("openai_chat", ScriptedAnswer(text="Fine."))).encode()
    other = b'{"error": {"message": "no"}}'
    answers = [
        whole(gzip(refused), status=400, content_encoding="gzip"),
        whole(body),
        whole(gzip(other), status=400, content_encoding="gzip"),
    ]

    async def run() -> None:
        async with (
            raw_upstream("openai_chat", *answers) as upstream,
            run_gateway(tmp_path, upstream) as running,
            open_http() as http,
        ):
            client = ScriptedClient("openai_chat", running.url, http)
            for number in range(60):
                client.say(f"Page {number}. " + "The tide table of the harbor. " * 100)
                client.messages.append({"role": "assistant", "content": "Read."})
            client.say("And now?")
            assert (await client.ask()).status_code == 200
            response = await client.ask()
            assert (response.status_code, response.content) == (400, other)

    asyncio.run(run())


def test_an_unknown_coding_is_left_to_the_client(tmp_path: Path) -> None:
    packed = bytes(range(256)) * 10

    async def run() -> None:
        async with (
            raw_upstream("anthropic", whole(packed, content_encoding="snappy")) as upstream,
            run_gateway(tmp_path, upstream) as running,
            open_http() as http,
        ):
            client = ScriptedClient("anthropic", running.url, http)
            client.say("start")
            body = json.dumps(client.body()).encode()
            async with http.stream(
                "POST", running.url + PATHS["anthropic"], content=body, headers=client.headers
            ) as response:
                raw = b"".join([piece async for piece in response.aiter_raw()])
            assert (response.status_code, response.headers["content-encoding"], raw) == (200, "snappy", packed)
            assert any("'snappy'" in line for line in running.lines)

    asyncio.run(run())


@pytest.mark.parametrize("cut", [gzip(b"x" * 5000)[:-4], b"\x1f\x8b\x08" + b"broken" * 9], ids=["cut off", "damaged"])
def test_a_damaged_compressed_answer_is_an_error(cut: bytes, tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            raw_upstream("anthropic", whole(cut, content_encoding="gzip")) as upstream,
            run_gateway(tmp_path, upstream) as running,
            open_http() as http,
        ):
            client = ScriptedClient("anthropic", running.url, http)
            client.say("start")
            assert (await client.ask()).status_code == 502

    asyncio.run(run())


@pytest.mark.parametrize("coding", CODINGS)
def test_a_compressed_answer_without_end_is_cut_off(coding: str, tmp_path: Path) -> None:
    bomb = CODINGS[coding](b" " * 50_000_000)
    assert len(bomb) < 100_000

    async def run() -> None:
        async with (
            raw_upstream("anthropic", whole(bomb, content_encoding=coding)) as upstream,
            run_gateway(tmp_path, upstream, max_answer=1_000_000) as running,
            open_http() as http,
        ):
            client = ScriptedClient("anthropic", running.url, http)
            client.say("start")
            assert (await client.ask()).status_code == 502

    asyncio.run(run())


BOMB = """
import resource, sys
from pathlib import Path
from tidegate.gateway.http_messages import BodyTooLarge, decompress
import zstandard
body = Path(sys.argv[1]).read_bytes()
used = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + 50_000_000, resource.RLIM_INFINITY))
try:
    decompress(body, sys.argv[2], 10_000_000)
except BodyTooLarge:
    print("too large")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is read")
@pytest.mark.parametrize("coding", mark_all_but(CODINGS, "gzip"))
def test_a_bomb_of_a_client_is_stopped_before_it_is_unpacked(coding: str, tmp_path: Path) -> None:
    """A bomb of 100 MB, and a process that may use 50 MB more than it does."""
    packed, packer = tmp_path / "bomb", PACKERS[coding]()
    packed.write_bytes(b"".join([packer.compress(bytes(1_000_000)) for _ in range(100)]) + packer.flush())
    command = [sys.executable, "-c", BOMB, str(packed), coding]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout == "too large\n", ended.stderr[-2000:]


# --- statuses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [600, 999])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models"])
def test_a_status_that_http_does_not_have(path: str, status: int, tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            raw_upstream("anthropic", whole(b"{}", status=status)) as upstream,
            run_gateway(tmp_path, upstream) as running,
            open_http() as http,
        ):
            client = ScriptedClient("anthropic", running.url, http)
            client.say("start")
            response: httpx.Response = await client.ask(path)
            assert response.status_code == 502
            assert str(status) in response.json()["error"]["message"]

    asyncio.run(run())
