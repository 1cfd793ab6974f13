"""Threat: a web page or another user of this machine uses the gateway: reads a session, writes to it, spends a key."""
# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other

import asyncio
import http.server
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake.server import KEY, Fake
from tests.free_port import find_free_port
from tests.gateway.scripted_client import PATHS, ScriptedClient, headers_of, step_answer
from tests.gateway.server_process import end, start_gateway, wait_until_ready
from tests.gateway.serving import Running, open_http, run_gateway, upstream_of
from tests.gateway.test_hostile_upstreams import raw_upstream, whole
from tests.web.browser import launched
from tests.web.live_gateway import live_gateway
from tidegate.gateway.settings import GatewaySettings
from tidegate.web.live.login import make_page_link

SECRET = "the passphrase is violet-armadillo"
EVIL = "http://evil.example"
TOKEN = "a-token-of-the-client-0123456789"
REQUEST = {"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": [{"role": "user", "content": "Recall all."}]}


async def talk(running: Running, web: httpx.AsyncClient, session: str = "build-fix") -> None:
    client = ScriptedClient("anthropic", running.url, web, {"x-tidegate-session": session})
    client.say(SECRET)
    await client.turn("a result")


def count_events(running: Running, session: str = "build-fix") -> int:
    return running.data.store.head(session)


@pytest.mark.parametrize("wire", PATHS)
def test_a_request_of_a_web_page_is_refused_and_leaves_no_trace(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(wire, map(step_answer, range(9))) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
                client = ScriptedClient(wire, running.url, web, {"x-tidegate-session": "build-fix"})
                client.say(SECRET)
                await client.turn("a result")
                before, seen = count_events(running), len(fake.seen)
                body = client.sent[-1]
                for headers in (
                    {"origin": EVIL},
                    {"origin": "null"},
                    {"origin": running.url},  # the page of the gateway has no need for models
                    {"sec-fetch-site": "cross-site"},
                    {"sec-fetch-site": "same-site"},
                    {"origin": EVIL, "content-type": "text/plain"},  # what a page sends without asking first
                ):
                    for path in (PATHS[wire], f"/s/build-fix{PATHS[wire]}"):
                        sent = {**headers_of(wire), "content-type": "application/json", **headers}
                        answer = await web.post(running.url + path, content=body, headers=sent)
                        assert answer.status_code == 403, headers
                        assert "access-control-allow-origin" not in answer.headers
                        assert "allowed_origins" in answer.text
                assert (count_events(running), len(fake.seen)) == (before, seen)

    asyncio.run(run())


def test_a_header_that_is_sent_twice_hides_nothing(tmp_path: Path) -> None:
    foreign = [("origin", EVIL), ("origin", "")], [("sec-fetch-site", "cross-site"), ("sec-fetch-site", "none")]

    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(9))) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                for pairs in foreign:
                    for headers in (pairs, pairs[::-1]):
                        answer = await web.post(running.url + PATHS["anthropic"], json=REQUEST, headers=headers)
                        assert answer.status_code == 403, headers
                assert fake.seen == []

    asyncio.run(run())


def test_what_a_browser_asks_first_is_answered_here_and_only_for_allowed_origins(tmp_path: Path) -> None:
    allowed = "https://chat.example.com"

    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(9))) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake), allowed_origins=(allowed,)) as running:
                url = running.url + PATHS["anthropic"]
                asked = {"access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
                refused = await web.options(url, headers={"origin": EVIL, **asked})
                assert refused.status_code == 403
                answer = await web.options(url, headers={"origin": allowed, **asked})
                assert answer.status_code == 204
                assert answer.headers["access-control-allow-origin"] == allowed
                assert answer.headers["access-control-allow-headers"] == "x-api-key"
                assert (await web.options(url)).status_code == 204
                assert fake.seen == []
                sent = await web.post(url, json=REQUEST, headers={"origin": allowed, **headers_of("anthropic")})
                assert sent.status_code == 200
                assert sent.headers["access-control-allow-origin"] == allowed
                assert len(fake.seen) == 1

    asyncio.run(run())


def test_an_upstream_does_not_open_the_gateway_to_web_pages(tmp_path: Path) -> None:
    """Some local servers allow every origin; their headers would go to the page."""
    opens = {"Access-Control-Allow-Origin": "*", "access_control_allow_private_network": "true"}
    answers = [whole(b"{}", status=status, **opens) for status in (200, 400, 200, 404)]

    async def run() -> None:
        async with raw_upstream("anthropic", *answers) as upstream, run_gateway(tmp_path, upstream) as running:
            async with open_http() as web:
                for path in (PATHS["anthropic"], PATHS["anthropic"], "/v1/models", "/v1/models"):
                    answer = await web.post(running.url + path, json=REQUEST, headers=headers_of("anthropic"))
                    assert answer.content == b"{}"
                    assert not any(name.startswith("access-control") for name in answer.headers)

    asyncio.run(run())


@contextmanager
def page_of_another_origin(html: str) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


ATTACK = """<script>
async function attack() {
  const body = JSON.stringify(REQUEST);
  const outcomes = [];
  for (const type of ['application/json', 'text/plain'])
    for (const mode of ['cors', 'no-cors']) {
      const headers = mode === 'cors' && type === 'application/json'
        ? {'content-type': type, 'x-api-key': 'k', 'anthropic-version': '2023-06-01'} : {'content-type': type};
      try {
        const answer = await fetch('URL/s/build-fix/v1/messages', {method: 'POST', mode, headers, body});
        outcomes.push(answer.type + ' ' + await answer.text());
      } catch (error) { outcomes.push('blocked'); }
    }
  document.title = JSON.stringify(outcomes);
}
attack();
</script>"""


def test_a_page_in_a_real_browser_gets_nothing_and_changes_nothing(tmp_path: Path) -> None:
    with live_gateway(tmp_path, recall=True) as gateway:
        gateway.talk(1, first=SECRET, x_tidegate_session="build-fix")
        before = count_events(gateway.running)
        html = ATTACK.replace("REQUEST", json.dumps(REQUEST)).replace("URL", gateway.url)
        with launched() as browser, page_of_another_origin(html) as address:
            page = browser.new_page()
            page.goto(address)
            page.wait_for_function("document.title.startsWith('[')", timeout=60_000)
            outcomes = json.loads(page.title())
        assert len(outcomes) == 4
        assert all(outcome in ("blocked", "opaque ") for outcome in outcomes), outcomes
        assert count_events(gateway.running) == before


# --- other users of this machine ----------------------------------------------------------------------------------


def test_without_the_token_of_wraps_client_nothing_is_served(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(9))) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake, key=KEY), client_token=TOKEN) as running:
                path = PATHS["anthropic"]
                for headers, prefix in (
                    ({}, ""),
                    ({"x-tidegate-token": "a guess"}, ""),
                    ({"x-api-key": "a guess"}, ""),
                    ({}, "/k/a-guess"),
                    ({}, f"/k/{TOKEN[:-1]}"),
                ):
                    answer = await web.post(running.url + prefix + path, json=REQUEST, headers=headers)
                    assert answer.status_code == 401, (headers, prefix)
                assert fake.seen == []
                by_header = await web.post(running.url + path, json=REQUEST, headers={"x-tidegate-token": TOKEN})
                by_path = await web.post(f"{running.url}/k/{TOKEN}/s/mine{path}", json=REQUEST)
                assert (by_header.status_code, by_path.status_code) == (200, 200)
                assert [seen.headers["x-api-key"] for seen in fake.seen] == [KEY] * 2
                assert all(TOKEN not in seen.path and "x-tidegate-token" not in seen.headers for seen in fake.seen)
                assert "mine" in {info.name for info in running.data.store.sessions()}
                await web.get(f"{running.url}/k/{TOKEN}/nothing%0aFORGED%1b%5b2J")
                for odd in (f"/{TOKEN}", f"//k/{TOKEN}/v1", f"/K/{TOKEN}/v1", f"/k%2f{TOKEN}/v1", f"/s/x/k/{TOKEN}/v1"):
                    odd_answer = await web.get(running.url + odd)
                    assert odd_answer.status_code == 401
                    assert TOKEN not in odd_answer.text
                assert TOKEN not in "".join(running.lines)
                assert "guess" not in "".join(running.lines), "it may be a token that was mistyped"
                assert all(line.isprintable() for line in running.lines)

    asyncio.run(run())


def test_the_gateways_own_key_is_not_used_without_a_token(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(9))) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake, key="sk-own-key")) as running:
                await web.post(running.url + PATHS["anthropic"], json=REQUEST, headers=headers_of("anthropic"))
                assert all("sk-own-key" not in str(seen.headers) for seen in fake.seen)

    asyncio.run(run())


def test_the_page_is_opened_by_a_link_that_works_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(9))) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                await talk(running, web)
                recall = f"{running.url}/ui/api/recall?name=build-fix&words=passphrase"
                for path in ("/ui/api/sessions", "/ui/api/session?name=build-fix", "/ui/api/events"):
                    assert (await web.get(running.url + path)).status_code == 401
                nobody = await web.get(recall)
                assert nobody.status_code == 401
                assert "armadillo" not in nobody.text
                closed = await web.get(running.url + "/ui")
                assert closed.status_code == 401
                assert "tidegate ui" in closed.text

                link = make_page_link(running.url, running.page_headers["x-tidegate-token"], 1e12)
                first = await web.get(link)
                assert first.status_code == 303
                assert "code" not in first.headers["location"]
                cookie = first.headers["set-cookie"].partition(";")[0]
                for attribute in ("HttpOnly", "SameSite=Strict", "Path=/ui"):
                    assert attribute in first.headers["set-cookie"]
                web.cookies.clear()
                assert (await web.get(link)).status_code == 401, "it was used"
                forged = link.replace("code=1", "code=2")
                assert (await web.get(forged)).status_code == 401
                assert (await web.get(link + "x")).status_code == 401
                seen = await web.get(recall, headers={"cookie": cookie})
                assert "armadillo" in seen.text
                changed = cookie[:-1] + ("0" if cookie[-1] != "0" else "1")
                assert (await web.get(recall, headers={"cookie": changed})).status_code == 401

    asyncio.run(run())


def test_a_code_that_is_too_old_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", []) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                old = make_page_link(running.url, running.page_headers["x-tidegate-token"], 0.0)
                answer = await web.get(old)
                assert answer.status_code == 401
                assert "too old" in answer.text

    asyncio.run(run())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_keys_of_serve_leave_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_THE_TEST", TOKEN)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    async def run() -> bytes:
        port = find_free_port()
        process = await start_gateway(tmp_path, port, "--token-env", "TOKEN_OF_THE_TEST")
        await wait_until_ready(port)
        shown = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert "no token is set" not in await end(process)
        return shown

    shown = asyncio.run(run())
    assert TOKEN.encode() not in shown
    assert SECRET.encode() not in shown


def test_without_a_token_serve_says_what_others_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_THE_TEST", SECRET)
    file = tmp_path / "tidegate.yaml"
    file.write_text("gateway: {upstreams: {openai: {url: 'http://127.0.0.1:1', key_env: KEY_OF_THE_TEST}}}\n")

    async def run() -> str:
        port = find_free_port()
        process = await start_gateway(tmp_path, port, "--config", str(file))
        await wait_until_ready(port)
        return await end(process)

    printed = " ".join(asyncio.run(run()).split())
    assert "every user and program of this machine can send requests through this gateway" in printed
    assert "continue a session whose name they know" in printed
    assert "the key_env of openai is not used" in printed


# --- odd requests -------------------------------------------------------------------------------------------------


def test_an_odd_host_is_refused_not_an_error(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", []) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            port = int(running.url.rpartition(":")[2])
            for host in (
                b"[",
                b"[::1",
                b"a]b",
                b"\xff\xfe",
                b"evil.example\r\nhost: localhost",
                b"localhost\r\nhost: evil",
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: " + host + b"\r\nconnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 403"), host
                writer.close()

    asyncio.run(run())


def test_settings_without_a_page_token_get_one_that_nobody_knows() -> None:
    settings = GatewaySettings(port=0)
    assert len(settings.page_token) > 30
    assert settings.page_token not in repr(settings)
    assert settings.page_token != GatewaySettings(port=0).page_token
