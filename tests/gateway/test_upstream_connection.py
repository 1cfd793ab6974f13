# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""What upstreams do with a connection: answers of any framing, answers that break a rule, connections that are kept."""

import asyncio
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.gateway.scripted_client import headers_of
from tests.gateway.serving import open_http, run_gateway
from tidegate.gateway.http_client import HttpClient, UpstreamError
from tidegate.gateway.settings import Upstream, check_upstream_url

ANSWER = b'{"id": "x", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hello"}]}'
BODY = {"model": "claude-opus-4-6", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
LENGTH = b"content-length: %d\r\n" % len(ANSWER)


class RawUpstream:
    """Answers the requests with given bytes, one after the other. `None` closes the connection without an answer."""

    def __init__(self, *answers: bytes | None, close_after: bool = False) -> None:
        self._answers = list(answers)
        self._close_after = close_after
        self.heads: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                self.heads.append(head)
                answer = self._answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if self._close_after:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@asynccontextmanager
async def serve_raw(upstream: RawUpstream, tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "https" if tls else "http"
    async with server:
        yield Upstream("anthropic", "anthropic", f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/base")


def ask(
    folder: Path,
    upstream: RawUpstream,
    times: int = 1,
    path: str = "/v1/messages",
    timeout: float = 60.0,
    tls: ssl.SSLContext | None = None,
) -> list[httpx.Response]:
    async def run() -> list[httpx.Response]:
        async with (
            serve_raw(upstream, tls) as at,
            run_gateway(folder, at, answer_timeout=timeout) as running,
            open_http() as http,
        ):
            return [
                await http.post(running.url + path, json=BODY, headers=headers_of("anthropic")) for _ in range(times)
            ]

    return asyncio.run(run())


def chunked(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(body[at : at + 7]), body[at : at + 7]) for at in range(0, len(body), 7))


HINTS = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
JSON_TYPE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    ("answer", "close_after"),
    [
        (JSON_TYPE + LENGTH + b"\r\n" + ANSWER, False),
        (JSON_TYPE + b"transfer-encoding: chunked\r\n\r\n" + chunked(ANSWER) + b"0\r\n\r\n", False),
        (JSON_TYPE + b"\r\n" + ANSWER, True),  # it ends with the connection
        (HINTS + JSON_TYPE + LENGTH + b"\r\n" + ANSWER, False),
        (b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + ANSWER, True),
    ],
)
def test_an_answer_of_any_framing_is_passed_on(answer: bytes, close_after: bool, tmp_path: Path) -> None:
    (response,) = ask(tmp_path, RawUpstream(answer, close_after=close_after))
    assert (response.status_code, response.content) == (200, ANSWER)
    assert "link" not in response.headers


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhello",  # fewer bytes than it says
        b"HTTP/1.1 200 OK\r\n" + b"x-filler: " + b"a" * 400_000,
    ],
)
def test_an_answer_that_is_no_http_is_a_502(answer: bytes | None, tmp_path: Path) -> None:
    (response,) = ask(tmp_path, RawUpstream(answer, close_after=True))
    assert response.status_code == 502
    assert response.json()["error"]["type"] == "api_error"


def test_more_bytes_than_the_length_says_are_not_passed_on(tmp_path: Path) -> None:
    smuggled = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen"
    whole = JSON_TYPE + LENGTH + b"\r\n" + ANSWER
    upstream = RawUpstream(whole + smuggled, whole)
    first, second = ask(tmp_path, upstream, times=2)
    assert first.content == second.content == ANSWER
    assert upstream.connections == 2  # the first is not used again


def test_a_connection_is_used_again_unless_the_upstream_closes_it(tmp_path: Path) -> None:
    whole = JSON_TYPE + LENGTH + b"\r\n" + ANSWER
    upstream = RawUpstream(whole, whole, JSON_TYPE + b"connection: close\r\n" + LENGTH + b"\r\n" + ANSWER, whole)
    assert [response.status_code for response in ask(tmp_path, upstream, times=4)] == [200] * 4
    assert upstream.connections == 2


def test_an_upstream_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    (response,) = ask(tmp_path, RawUpstream(b""), timeout=0.2)
    assert response.status_code == 502


def test_the_path_and_the_query_arrive_as_they_were_sent(tmp_path: Path) -> None:
    upstream = RawUpstream(JSON_TYPE + LENGTH + b"\r\n" + ANSWER)
    ask(tmp_path, upstream, path="/v1/messages?beta=true&x=%20a%2F;b")
    assert upstream.heads[0].startswith(b"POST /base/v1/messages?beta=true&x=%20a%2F;b HTTP/1.1\r\n")


def test_a_slow_client_does_not_fill_the_memory(tmp_path: Path) -> None:
    """The upstream is not read faster than the client takes the answer."""
    piece, sent, limit = b"x" * 65_536, 0, 64_000_000

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        try:
            while True:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
        except ConnectionError:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(pour, "127.0.0.1", 0)
        upstream = Upstream("anthropic", "anthropic", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with server, run_gateway(tmp_path, upstream, max_answer=10**12) as running, open_http() as http:
            async with http.stream("POST", running.url + "/anthropic/v1/files", content=b"x") as response:
                async for _ in response.aiter_raw():
                    break
                before, rounds = sent, 0
                while rounds < 2_000 and sent < limit:  # until everything between is full: nobody reads or writes
                    await asyncio.sleep(0)
                    before, rounds = sent, 0 if before != sent else rounds + 1

    asyncio.run(run())
    assert sent < limit


def test_an_upstream_is_asked_through_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = RawUpstream(JSON_TYPE + LENGTH + b"\r\n" + ANSWER)

    async def run() -> httpx.Response:
        async with serve_raw(proxy) as at:
            monkeypatch.setenv("http_proxy", at.url.removesuffix("/base"))
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            upstream = Upstream("anthropic", "anthropic", "http://upstream.test")
            async with run_gateway(tmp_path, upstream) as running, open_http() as http:
                return await http.post(running.url + "/v1/messages", json=BODY, headers=headers_of("anthropic"))

    response = asyncio.run(run())
    assert (response.status_code, response.content) == (200, ANSWER)
    assert proxy.heads[0].startswith(b"POST http://upstream.test/v1/messages HTTP/1.1\r\n")


def test_a_large_request_that_is_refused_before_it_is_read_gets_the_refusal(tmp_path: Path) -> None:
    """The upstream does not read the body. What was not sent must not be taken for the next request."""
    connections: list[asyncio.Task[None] | None] = []

    async def run() -> list[int]:
        is_over = asyncio.Event()

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(asyncio.current_task())
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too large\r\ncontent-length: 5\r\n\r\nlarge")
            await is_over.wait()
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1_000)
        upstream = Upstream("anthropic", "anthropic", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with server, run_gateway(tmp_path, upstream) as running, open_http() as http:
            url, body = running.url + "/anthropic/v1/files", b"x" * 30_000_000
            statuses = [(await http.post(url, content=body)).status_code for _ in range(2)]
            is_over.set()
            await asyncio.gather(*filter(None, connections))
            return statuses

    assert asyncio.run(run()) == [413, 413]
    assert len(connections) == 2


@pytest.mark.parametrize(
    ("agreement", "expected"),
    [
        (b"200 X", 200),
        (b"200 X\r\ncontent-length: 0", 200),  # a length counts for nothing here: the tunnel must not be used otherwise
        (b"200 X\r\ncontent-length: 0\r\nconnection: close", 200),
        (b"407 X\r\ncontent-length: 0", 502),
    ],
)
def test_an_upstream_with_tls_is_asked_through_a_tunnel(
    agreement: bytes, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = make_certificate(tmp_path)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(certificate))
    asked: list[bytes] = []

    async def run() -> httpx.Response:
        upstream = RawUpstream(JSON_TYPE + LENGTH + b"\r\n" + ANSWER)
        async with serve_raw(upstream, tls) as at:
            port = int(at.url.rsplit(":", 1)[1].removesuffix("/base"))

            tunnels: list[asyncio.Task[None] | None] = []

            async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                tunnels.append(asyncio.current_task())
                asked.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 %s\r\n\r\n" % agreement)
                other_reader, other_writer = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(pass_on(reader, other_writer), pass_on(other_reader, writer))

            proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
            address = f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            monkeypatch.setenv("https_proxy", f"http://me:p%40ss@{address}")
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            there = Upstream("anthropic", "anthropic", "https://upstream.test")
            async with proxy:
                async with run_gateway(tmp_path / "data", there) as running, open_http() as http:
                    url = running.url + "/v1/messages"
                    response = await http.post(url, json=BODY, headers=headers_of("anthropic"))
                await asyncio.gather(*filter(None, tunnels))
                return response

    response = asyncio.run(run())
    assert response.status_code == expected, response.text
    assert asked[0].startswith(b"CONNECT upstream.test:443 HTTP/1.1\r\nhost: upstream.test:443\r\n")
    assert b"proxy-authorization: Basic bWU6cEBzcw==\r\n" in asked[0]


def test_a_tunnel_in_which_nothing_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def agree(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 X\r\n\r\n")
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    async def run() -> httpx.Response:
        proxy = await asyncio.start_server(agree, "127.0.0.1", 0)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        there = Upstream("anthropic", "anthropic", "https://upstream.test")
        async with proxy, run_gateway(tmp_path, there, connect_timeout=0.5) as running, open_http() as http:
            return await http.post(running.url + "/v1/messages", json=BODY, headers=headers_of("anthropic"))

    assert asyncio.run(run()).status_code == 502


@pytest.mark.parametrize("proxy", ["me:secret@proxy:8080", "http://[bad"])
def test_a_proxy_that_cannot_be_used_is_a_502_without_its_login(
    proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    async def run() -> httpx.Response:
        upstream = Upstream("anthropic", "anthropic", "http://upstream.test")
        async with run_gateway(tmp_path, upstream) as running, open_http() as http:
            return await http.post(running.url + "/v1/messages", json=BODY, headers=headers_of("anthropic"))

    response = asyncio.run(run())
    assert response.status_code == 502
    assert "this kind of proxy" in response.text
    assert "me" not in response.json()["error"]["message"].split()


@pytest.mark.parametrize("url", ["HTTPS://upstream.test/", " https://upstream.test"])
def test_the_scheme_of_an_upstream_is_written_as_it_is_compared(url: str) -> None:
    assert check_upstream_url(url) == "https://upstream.test"
    with pytest.raises(ValueError, match="TLS"):
        HttpClient("https://upstream.test", tls=None, proxy=None, connect_timeout=1, answer_timeout=1)


def test_an_event_loop_that_was_busy_while_it_connected_is_no_refusal() -> None:
    """An overloaded gateway answered with a 502, although the upstream had accepted the connection at once."""

    async def run() -> int:
        async with serve_raw(RawUpstream(b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + ANSWER)) as upstream:
            http = HttpClient(upstream.url, tls=None, proxy=None, connect_timeout=0.3, answer_timeout=30)
            for turn in range(3):  # of the loop, while it connects
                asyncio.get_running_loop().call_later(turn * 0.001, time.sleep, 0.4)
            answer = await http.request("POST", upstream.url + "/v1/messages", [], b"{}")
            await http.close()
            return answer.status

    assert asyncio.run(run()) == 200


def test_a_connection_that_is_not_made_is_given_up_in_time() -> None:
    async def run() -> None:
        with socket.socket() as full:  # its queue takes one connection, and nobody accepts it
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            address = full.getsockname()
            waiting = [socket.socket() for _ in range(3)]
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(address)
            http = HttpClient(
                f"http://127.0.0.1:{address[1]}", tls=None, proxy=None, connect_timeout=0.2, answer_timeout=30
            )
            with pytest.raises(UpstreamError, match="TimeoutError"):
                await asyncio.wait_for(http.request("GET", f"http://127.0.0.1:{address[1]}/", [], b""), 60)
            await http.close()
            for each in waiting:
                each.close()

    asyncio.run(run())


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    writer.close()


def make_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for a server on this machine, and its context."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    making = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=test -days 2"
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:upstream.test"]
    subprocess.run([*making.split(), *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    return certificate, tls


def test_the_certificates_of_node_clients_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, tls = make_certificate(tmp_path)
    answer = JSON_TYPE + LENGTH + b"\r\n" + ANSWER
    for file, status in ((certificate, 200), (tmp_path / "missing.pem", 502)):
        monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(file))
        upstream = RawUpstream(answer, close_after=True)
        assert [each.status_code for each in ask(tmp_path, upstream, tls=tls)] == [status]
