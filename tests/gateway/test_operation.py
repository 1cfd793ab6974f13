# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Running the gateway: tokens, limits, metrics, hostile clients and upstreams, a store that fails."""

import asyncio
import json
import os
import zlib
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.fake.server import KEY, Bytes, Fake, Json
from tests.gateway.scripted_client import PATHS, ScriptedClient, headers_of, step_answer
from tests.gateway.serving import DEADLINE, Running, open_http, run_gateway, upstream_of
from tidegate.core.errors import BadInput
from tidegate.core.events import MessageAdded
from tidegate.core.messages import text_of
from tidegate.gateway.settings import GatewaySettings, Upstream, check_settings, parse_upstream

TOKEN, OTHER = "token-0123456789abcdef", "other-0123456789abcdef"
BODY = {"model": "claude-opus-4-6", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}


def session_names(running: Running) -> list[str]:
    return sorted(info.name for info in running.data.store.sessions())


async def post(http: httpx.AsyncClient, running: Running, **headers: str) -> httpx.Response:
    return await http.post(running.url + "/v1/messages", json=BODY, headers=headers_of("anthropic", **headers))


def test_other_addresses_are_refused_without_a_token() -> None:
    with pytest.raises(BadInput, match="without a token"):
        check_settings(GatewaySettings(host="0.0.0.0"))
    check_settings(GatewaySettings(host="0.0.0.0", tokens=(TOKEN,)))
    with pytest.raises(BadInput, match="fewer than 16"):
        check_settings(GatewaySettings(tokens=("short",)))


@pytest.mark.parametrize("url", ["ftp://x", "http://user:pw@x", "http://x?key=1", "x", "http://x:0"])
def test_an_upstream_must_be_a_plain_address(url: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_upstream(f"openai={url}")
    assert "pw" not in str(error.value)


def test_sessions_of_different_tokens_are_invisible_to_each_other(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["one", "two", "three"]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), tokens=(TOKEN, OTHER)) as running:
                async with open_http() as http:
                    for wrong in ({}, {"x-tidegate-token": TOKEN[:-1]}, {"authorization": f"Bearer {TOKEN}"}):
                        assert (await post(http, running, **wrong)).status_code == 401
                    assert (await http.get(running.url + "/metrics")).status_code == 401
                    bearer = {"authorization": f"Bearer {TOKEN}"}  # as Prometheus sends it
                    assert (await http.get(running.url + "/metrics", headers=bearer)).status_code == 200
                    assert (await http.get(running.url + "/healthz")).status_code == 200
                    assert fake.seen == []
                    for token in (TOKEN, OTHER):
                        same = {"x-tidegate-token": token, "x-tidegate-session": "s"}
                        assert (await post(http, running, **same)).status_code == 200
                    names = session_names(running)
                    assert len(names) == 2
                    assert not any(TOKEN in name or OTHER in name for name in names)
        for seen in fake.seen:
            assert TOKEN not in str(seen.headers)
        assert TOKEN not in "".join(running.lines)

    asyncio.run(run())


def test_the_key_header_carries_the_token_only_if_the_gateway_has_the_key(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake:
            upstream = Upstream("anthropic", "anthropic", fake.host, key=KEY)
            async with (
                run_gateway(tmp_path, upstream, tokens=(TOKEN,)) as running,
                open_http() as http,
            ):
                response = await http.post(running.url + "/v1/messages", json=BODY, headers={"x-api-key": TOKEN})
                assert response.status_code == 200
        assert fake.seen[0].headers["x-api-key"] == KEY
        assert TOKEN not in str(fake.seen[0])

    asyncio.run(run())


def test_no_key_is_written_anywhere(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("gemini", [step_answer(0)]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client = ScriptedClient("gemini", running.url, http)
                client.say("start")
                await client.turn("result")
                await http.get(running.url + f"/v1beta/models?key={KEY}")
        assert KEY not in "".join(running.lines)

    asyncio.run(run())
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


def test_metrics_count_without_content(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            async with open_http() as http:
                await post(http, running)
                text = (await http.get(running.url + "/metrics")).text
        assert 'tidegate_requests_total{dialect="anthropic",status="200"} 1' in text
        assert "tidegate_open_sessions 1" in text
        assert "hello" not in text

    asyncio.run(run())


def test_other_names_of_this_machine_are_refused_without_a_token(tmp_path: Path) -> None:
    """A web page could point its own name at 127.0.0.1."""

    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            async with open_http() as http:
                assert (await post(http, running, host="evil.example")).status_code == 403
        assert fake.seen == []

    asyncio.run(run())


def test_bodies_have_a_limit_before_and_after_unpacking(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), max_body=100_000) as running:
                async with open_http() as http:
                    huge = json.dumps({**BODY, "x": "a" * 200_000}).encode()
                    packer = zlib.compressobj(wbits=31)
                    bomb = packer.compress(huge * 10) + packer.flush()
                    assert len(bomb) < 100_000
                    headers = headers_of("anthropic")
                    url = running.url + "/v1/messages"
                    assert (await http.post(url, content=huge, headers=headers)).status_code == 413
                    packed = {**headers, "content-encoding": "gzip"}
                    assert (await http.post(url, content=bomb, headers=packed)).status_code == 413
                    broken = await http.post(url, content=bomb[:50], headers=packed)
                    assert broken.status_code == 400
                    assert (await http.get(running.url + "/healthz")).status_code == 200
        assert fake.seen == []

    asyncio.run(run())


async def send_raw(running: Running, data: bytes) -> bytes:
    host, port = running.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(DEADLINE):
            return await reader.read(65536)
    finally:
        writer.close()


SMUGGLED = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\n"
SMUGGLED += b"transfer-encoding: chunked\r\n\r\n0\r\n\r\nX"
BAD_HEADER = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: a\nfoo : bar\r\ncontent-length: 0\r\n\r\n"
BAD_LENGTH = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -5\r\n\r\n"


@pytest.mark.parametrize("data", [SMUGGLED, BAD_HEADER, BAD_LENGTH], ids=["both lengths", "line break", "negative"])
def test_a_malformed_request_is_refused(data: bytes, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            answer = await send_raw(running, data)
            assert b" 400 " in answer.split(b"\r\n")[0]
        assert fake.seen == []

    asyncio.run(run())


def test_endless_headers_close_the_connection(tmp_path: Path) -> None:
    async def run() -> None:
        async with run_gateway(tmp_path) as running:
            data = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"".join(
                b"x-h%d: %s\r\n" % (n, b"a" * 900) for n in range(300)
            )
            with pytest.raises((ConnectionError, AssertionError)):
                assert await send_raw(running, data) == b"never"

    asyncio.run(run())


@pytest.mark.parametrize("data", [b"", b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow"])
def test_headers_that_do_not_arrive_close_the_connection(data: bytes, tmp_path: Path) -> None:
    async def run() -> None:
        async with run_gateway(tmp_path, header_timeout=0.2) as running:
            assert await send_raw(running, data) == b""

    asyncio.run(run())


def test_headers_that_trickle_in_close_the_connection(tmp_path: Path) -> None:
    """A slow loris: a byte now and then does not keep the connection."""

    async def run() -> None:
        async with run_gateway(tmp_path, header_timeout=0.5) as running:
            host, port = running.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n")
            ended = asyncio.ensure_future(reader.read())
            async with asyncio.timeout(DEADLINE):
                while not ended.done():
                    writer.write(b"x-a: b\r\n")
                    await asyncio.sleep(0.05)
            writer.close()
            with suppress(ConnectionError):
                assert ended.result() == b""

    asyncio.run(run())


def test_a_body_far_beyond_the_limit_is_refused_while_it_is_sent(tmp_path: Path) -> None:
    assert GatewaySettings().max_body < 100_000_000

    async def run() -> None:
        async with (
            Fake("anthropic", ["one"]) as fake,
            run_gateway(tmp_path, upstream_of(fake), max_body=1_000_000) as running,
        ):
            host, port = running.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10000000\r\n\r\n")
            answered = asyncio.ensure_future(reader.readuntil(b"\r\n"))
            with suppress(ConnectionError):
                for _ in range(100):
                    writer.write(b"x" * 100_000)
                    await writer.drain()
            assert b" 413 " in await answered
            writer.close()
            async with open_http() as http:
                assert (await post(http, running)).status_code == 200
        assert len(fake.seen) == 1

    asyncio.run(run())


def test_a_body_that_never_ends_is_given_up(tmp_path: Path) -> None:
    async def run() -> None:
        async with run_gateway(tmp_path, body_timeout=0.2) as running:
            data = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5000\r\n\r\n{"
            assert b" 408 " in (await send_raw(running, data)).split(b"\r\n")[0]

    asyncio.run(run())


def test_an_answer_without_end_is_cut_off(tmp_path: Path) -> None:
    async def run() -> None:
        endless = b'event: ping\ndata: {"type": "ping"}\n\n' * 20_000
        async with Fake("anthropic", [Bytes(endless), "two"]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), max_answer=100_000) as running:
                async with open_http() as http:
                    body = {**BODY, "stream": True}
                    response = await http.post(running.url + "/v1/messages", json=body, headers=headers_of("anthropic"))
                    assert response.status_code == 502
                    assert (await post(http, running)).status_code == 200

    asyncio.run(run())


@pytest.mark.parametrize("body", [b"data: {broken\n\n" * 9, b"\xff\xfe\x00" * 99, b"data: [1,2]\n\ndata: 7\n\n", b""])
def test_a_broken_stream_is_passed_on_as_it_is(body: bytes, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", [Bytes(body), "two"]) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            async with open_http() as http:
                response = await http.post(
                    running.url + "/v1/messages", json={**BODY, "stream": True}, headers=headers_of("anthropic")
                )
                assert (response.status_code, response.content) == (200, body)
                assert (await post(http, running)).status_code == 200

    asyncio.run(run())


def test_a_redirect_is_not_followed_and_no_key_leaves(tmp_path: Path) -> None:
    async def run() -> None:
        async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:9/steal\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(redirect, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        upstream = Upstream("anthropic", "anthropic", f"http://127.0.0.1:{port}")
        async with server, run_gateway(tmp_path, upstream) as running, open_http() as http:
            response = await post(http, running)
            assert response.status_code == 502
            assert "location" not in response.headers

    asyncio.run(run())


def test_headers_of_one_connection_are_not_passed_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            async with open_http() as http:
                await post(
                    http,
                    running,
                    **{
                        "connection": "x-secret",
                        "x-secret": "1",
                        "te": "trailers",
                        "x-tidegate-session": "s",
                        "x-own": "2",
                    },
                )
        seen = fake.seen[0].headers
        assert "x-own" in seen
        assert not {"x-secret", "te", "x-tidegate-session"} & seen.keys()

    asyncio.run(run())


def fill_store(folder: Path) -> None:
    """Make the store unreadable, as a full or broken disk would."""
    database = folder / "tidegate.db"
    database.unlink(missing_ok=True)
    database.mkdir()


@pytest.mark.parametrize(("setting", "status"), [("forward", 200), ("refuse", 503)])
def test_if_the_store_fails_requests_are_forwarded_or_refused(setting: str, status: int, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), on_store_failure=setting) as running:
                async with open_http() as http:
                    running.data.store.close()
                    assert (await post(http, running)).status_code == status
                    text = (await http.get(running.url + "/metrics")).text
        assert len(fake.seen) == (1 if status == 200 else 0)
        assert any("was not logged" in line for line in running.lines)
        assert ("tidegate_unlogged_requests_total 1" in text) == (status == 200)

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("setting", "is_whole"), [("forward", True), ("refuse", False)])
def test_an_answer_that_cannot_be_logged_is_passed_on_or_breaks_off(
    setting: str, is_whole: bool, stream: bool, tmp_path: Path
) -> None:
    """The store fails while the provider answers. With refuse, no client has an answer that the log does not have."""

    async def run() -> None:
        def answer(_: Json) -> str:
            running.data.store.close()
            return "The answer."

        async with Fake("anthropic", answer) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), on_store_failure=setting) as running:
                async with open_http() as http:
                    body, headers = {**BODY, "stream": stream}, headers_of("anthropic")
                    try:
                        data = (await http.post(running.url + "/v1/messages", json=body, headers=headers)).text
                    except httpx.RemoteProtocolError:
                        data = ""
        assert (("message_stop" if stream else "The answer.") in data) == is_whole
        assert len(fake.seen) == 1
        assert any("the answer was not logged" in line for line in running.lines)

    asyncio.run(run())


def test_a_shutdown_finishes_the_answers_that_are_on_their_way(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["The whole answer. " * 2000]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                headers = headers_of("anthropic", **{"x-tidegate-session": "s"})
                body = {**BODY, "stream": True}
                async with http.stream("POST", running.url + "/v1/messages", json=body, headers=headers) as response:
                    pieces = []
                    async for piece in response.aiter_raw():
                        running.server.should_exit = True
                        pieces.append(piece)
                assert b"message_stop" in b"".join(pieces)
                log = running.data.open_log("s")
                said = [text_of(e.payload.message) for e in log.read() if isinstance(e.payload, MessageAdded)]
                assert said[-1].startswith("The whole answer.")

    asyncio.run(run())


def test_count_tokens_is_asked_for_the_view(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", (step_answer(n) for n in range(200)), window=16_000) as fake:
            async with (
                run_gateway(tmp_path, upstream_of(fake), window=16_000) as running,
                open_http() as http,
            ):
                client = ScriptedClient("anthropic", running.url, http, {"x-claude-code-session-id": "abc"})
                client.say("start")
                for number in range(40):
                    await client.turn(f"line {number} of a long result\n" * 60)
                last = fake.seen[-1].body["messages"]
                before = len(session_names(running))
                await client.ask("/v1/messages/count_tokens")
                counted = fake.seen[-1]
                assert counted.path == "/v1/messages/count_tokens"
                assert len(counted.raw) < len(client.sent[-1]) * 0.8
                assert counted.body["messages"][: len(last)] == last
                assert len(session_names(running)) == before
                client.messages = client.messages[: len(json.loads(client.sent[-2])["messages"])]
                await client.ask("/v1/messages/count_tokens")  # of the list that was answered last
                assert fake.seen[-1].body["messages"] == last
                assert len(fake.seen[-1].raw) < len(client.sent[-1]) * 0.8
                client.messages[2:] = [{"role": "assistant", "content": "other"}, {"role": "user", "content": "way"}]
                await client.ask("/v1/messages/count_tokens")
                assert fake.seen[-1].raw == client.sent[-1], "another branch"

    asyncio.run(run())


def test_everything_else_is_proxied_unchanged(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat") as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            async with open_http() as http:
                raw = os.urandom(5000)
                await http.put(running.url + "/v1/files/x%2Fy?a=b%20c", content=raw, headers=headers_of("openai_chat"))
                stored = {"model": "gpt-5", "input": "hi", "previous_response_id": "resp_1"}
                await http.post(running.url + "/v1/responses", json=stored, headers=headers_of("openai_chat"))
                assert session_names(running) == []
                said = "a request is passed on unmanaged and not logged: it continues an answer (previous_response_id)"
                assert any(line.startswith(said) for line in running.lines)
        assert fake.seen[0].path == "/v1/files/x%2Fy?a=b%20c"
        assert fake.seen[0].raw == raw
        assert fake.seen[1].body == stored

    asyncio.run(run())


@pytest.mark.parametrize("wire", PATHS)
def test_paths_without_a_prefix_find_their_upstream(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(wire, ["one"]) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            async with open_http() as http:
                client = ScriptedClient(wire, running.url, http)
                client.say("start")
                assert (await client.ask()).status_code == 200
                files = "/v1beta/files" if wire == "gemini" else "/v1/files"
                await http.get(running.url + files, headers=headers_of(wire))
        assert fake.seen[1].path == files

    asyncio.run(run())
