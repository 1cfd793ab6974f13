# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""How the gateway writes an answer to its connection: each write wakes up the client."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

from tests.fake.server import Bytes, Fake
from tests.gateway.scripted_client import headers_of
from tests.gateway.serving import Running, run_gateway, upstream_of
from tidegate.gateway.server import open_listener
from tidegate.gateway.settings import GatewaySettings, Upstream
from tidegate.wire.answers import encode_response_frames, encode_sse
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

BODY = {"model": "claude-opus-4-6", "max_tokens": 99, "stream": True, "messages": [{"role": "user", "content": "hi"}]}


class RecordingTransport(asyncio.Transport):
    """Keeps what is written, one entry for each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def record_writes(running: Running, request: bytes, *ends: bytes) -> list[bytes]:
    """The writes of the answer to a request, until it has ended with each of `ends`."""
    config, transport = running.server.config, RecordingTransport()
    make_protocol: Any = config.http_protocol_class
    protocol = make_protocol(config=config, server_state=running.server.server_state, app_state={})
    protocol.connection_made(transport)
    protocol.data_received(request)
    for end in ends:
        while not b"".join(transport.writes).endswith(end):
            await asyncio.sleep(0.01)
    protocol.connection_lost(None)
    return transport.writes


def test_the_head_is_written_with_the_first_piece_and_the_end_with_the_last(tmp_path: Path) -> None:
    async def run() -> None:
        answer = encode_sse("anthropic", encode_response_frames("anthropic", ScriptedAnswer(text="some words")))
        async with Fake("anthropic", [Bytes(answer)]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                body = json.dumps(BODY).encode()
                lines = [f"{name}: {value}" for name, value in headers_of("anthropic").items()]
                head = ["POST /v1/messages HTTP/1.1", "host: localhost", f"content-length: {len(body)}", *lines]
                request = "\r\n".join([*head, "", ""]).encode() + body
                writes = await record_writes(running, request, b"\r\n0\r\n\r\n")
        first, middle, last = writes  # the log gets the answer before the last event is passed on
        assert first.startswith(b"HTTP/1.1 200")
        assert first.endswith(b"\r\n\r\n%x\r\n%b\n\n\r\n" % (answer.index(b"\n\n") + 2, answer.partition(b"\n\n")[0]))
        assert b"some words" in middle
        assert b"message_stop" in last
        assert last.endswith(b"\n\n\r\n0\r\n\r\n")

    asyncio.run(run())


def test_a_head_does_not_wait_for_a_piece_that_comes_later(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n")
        await reader.read()  # until the gateway closes the connection
        writer.close()

    async def run() -> None:
        upstream = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
        async with run_gateway(tmp_path, Upstream("anthropic", "anthropic", url)) as running:
            request = b"GET /anthropic/v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
            writes = await record_writes(running, request, b"\r\n\r\n")
        upstream.close()
        assert writes[0].startswith(b"HTTP/1.1 200")

    asyncio.run(run())


def test_an_answer_of_one_write_is_not_kept_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with run_gateway(tmp_path) as running:
            found = await record_writes(running, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", b"ok\n")
            assert len(found) == 1
            refused = await record_writes(running, b"no request at all\r\n\r\n", b"received.")
            assert refused[0].startswith(b"HTTP/1.1 400")

    asyncio.run(run())


def test_connections_send_small_pieces_without_waiting_for_an_acknowledgement() -> None:
    with open_listener(GatewaySettings(port=0)) as listener:
        with socket.create_connection(listener.getsockname()):
            connection, _ = listener.accept()
            with connection:
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
