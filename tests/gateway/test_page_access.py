# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Who may see the page of the gateway and change something with it: tokens, cookies, other web pages."""

import asyncio
import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake.server import Fake
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import DEADLINE, Running, open_http, run_gateway, upstream_of
from tidegate.core.events import ViewEdited
from tidegate.disk.folder import Folder
from tidegate.gateway.settings import GatewaySettings, scope_of_token
from tidegate.web.live.login import Logins, TooManyFailures

TOKEN, OTHER = "token-0123456789abcdef", "other-0123456789abcdef"


async def talk(running: Running, http: httpx.AsyncClient, steps: int, **headers: str) -> None:
    client = ScriptedClient(
        "anthropic", running.url, http, {name.replace("_", "-"): value for name, value in headers.items()}
    )
    client.say("Start.")
    for number in range(steps):
        await client.turn(f"line {number} of a result that is long\n" * 40)


async def log_in(running: Running, http: httpx.AsyncClient, token: str = TOKEN) -> tuple[dict[str, str], str]:
    """The headers of a browser that logged in, and what the page sends with changes."""
    sent = {"origin": running.url}
    answer = await http.post(running.url + "/ui/login", data={"token": token}, headers=sent)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].partition(";")[0]
    http.cookies.clear()  # the test itself says what is sent
    page = await http.get(running.url + "/ui", headers={"cookie": cookie})
    assert page.status_code == 200
    proof = read_proof(page.text)
    return {"cookie": cookie, "origin": running.url}, proof


def read_proof(html: str) -> str:
    found = re.search(r'id="main">([^<]+)<', html)
    assert found is not None
    return str(json.loads(zlib.decompress(base64.b64decode(found[1])))["proof"])


def test_a_change_must_come_from_the_page(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(99))) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), tokens=(TOKEN, OTHER), window=16_000) as running:
                await talk(running, http, 40, x_tidegate_token=TOKEN, x_tidegate_session="s")
                name = scope_of_token(TOKEN) + "s"
                events = list(running.data.open_log(name).read())
                newest = [event.seq for event in events if isinstance(event.payload, ViewEdited)][-1]
                body, url = {"name": name, "seq": newest}, running.url + "/ui/api/undo"
                browser, proof = await log_in(running, http)
                refused: list[dict[str, str]] = [
                    {},
                    browser,  # no proof
                    browser | {"x-tidegate-proof": "guess"},
                    browser | {"x-tidegate-proof": proof, "origin": "http://evil.example"},
                    browser | {"x-tidegate-proof": proof, "origin": "null"},
                    browser | {"x-tidegate-proof": proof, "sec-fetch-site": "cross-site"},
                    {"cookie": browser["cookie"], "x-tidegate-proof": proof},  # no origin
                    {"x-tidegate-proof": proof, "origin": running.url},  # no cookie
                ]
                for headers in refused:
                    assert (await http.post(url, json=body, headers=headers)).status_code in (401, 403), headers
                theirs, their_proof = await log_in(running, http, OTHER)
                answer = await http.post(url, json=body, headers=theirs | {"x-tidegate-proof": their_proof})
                assert answer.status_code == 404
                assert running.data.store.head(name) == len(events)
                good = browser | {"x-tidegate-proof": proof}
                assert (await http.post(url, json=body | {"seq": 1}, headers=good)).status_code == 409
                assert (await http.post(url, json=body, headers=good)).status_code == 200
                assert running.data.store.head(name) == len(events) + 1
                again = await http.post(url, json=body | {"redo": True}, headers={"x-tidegate-token": TOKEN})
                assert again.status_code == 200

    asyncio.run(run())


def test_sessions_of_another_token_are_not_on_the_page(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(99))) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), tokens=(TOKEN, OTHER)) as running:
                await talk(running, http, 1, x_tidegate_token=TOKEN, x_tidegate_session="mine")
                name = scope_of_token(TOKEN) + "mine"
                theirs, _ = await log_in(running, http, OTHER)
                found = await http.get(running.url + "/ui/api/sessions", headers=theirs)
                assert found.json()["rows"] == []
                assert found.json()["total"] == 0
                for what in ("session", "requests", "request", "change", "messages", "recall", "events"):
                    for query in ({"name": name}, {"name": "mine"}):
                        if what == "events" and query["name"] == "mine":
                            continue
                        answer = await http.get(f"{running.url}/ui/api/{what}", params=query, headers=theirs)
                        assert answer.status_code == 404, what
                        assert "mine" not in answer.text
                mine, _ = await log_in(running, http)
                assert (await http.get(running.url + "/ui/api/session", params={"name": name}, headers=mine)).is_success
                nobody = await http.get(running.url + "/ui/api/sessions")
                assert nobody.status_code == 401

    asyncio.run(run())


def test_every_answer_is_closed_to_other_pages(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                await talk(running, http, 1, x_tidegate_session="s")
                http.headers.update(running.page_headers)
                for path in ("/ui", "/ui/session?name=s", "/ui/api/sessions", "/ui/api/session?name=s", "/ui/nothing"):
                    answer = await http.get(running.url + path)
                    policy = answer.headers["content-security-policy"]
                    assert policy.startswith("default-src 'none'")
                    assert "frame-ancestors 'none'" in policy
                    assert "unsafe" not in policy
                    assert answer.headers["cache-control"] == "no-store"
                    assert answer.headers["x-content-type-options"] == "nosniff"
                    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
                    assert "access-control-allow-origin" not in answer.headers
                crossed = await http.get(running.url + "/ui/api/sessions", headers={"sec-fetch-site": "cross-site"})
                assert crossed.status_code == 403
                named = await http.get(running.url + "/ui/api/sessions", headers={"host": "evil.example"})
                assert named.status_code == 403
                del http.headers["x-tidegate-token"]
                posted = await http.post(running.url + "/ui/api/undo", json={"name": "s", "seq": 1})
                assert posted.status_code in (401, 403)
                large = await http.post(running.url + "/ui/api/undo", content=b"x" * 100_000)
                assert large.status_code == 413
                assert [seen.path for seen in fake.seen] == ["/v1/messages"]

    asyncio.run(run())


def make_logins(folder: Path, clock: Callable[[], float]) -> Logins:
    return Logins(GatewaySettings(upstreams=(), tokens=(TOKEN,)), Folder(folder, max_file=100_000), clock)


def test_guessing_tokens_is_slowed_down(tmp_path: Path) -> None:
    now = [1000.0]
    logins = make_logins(tmp_path, lambda: now[0])
    for number in range(20):
        assert logins.log_in(f"guess {number}") is None
    with pytest.raises(TooManyFailures):
        logins.log_in(TOKEN)
    now[0] += 61
    cookie = logins.log_in(TOKEN)
    assert cookie is not None
    headers = {"cookie": f"a=b; {logins.cookie_name}={cookie}"}
    assert logins.find_visitor(headers) is not None
    now[0] += 13 * 3600
    assert logins.find_visitor(headers) is None


@pytest.mark.parametrize("value", ["", "guess", "a.b.c.d", ".99999999999.x.", "é", '"\\'])
def test_a_wrong_cookie_is_nobody(value: str, tmp_path: Path) -> None:
    logins = make_logins(tmp_path, lambda: 0.0)
    for cookie in (f"{logins.cookie_name}={value}", logins.cookie_name, f"\x00=;;{logins.cookie_name}={value}"):
        assert logins.find_visitor({"cookie": cookie}) is None


def test_an_open_page_does_not_hold_up_the_shutdown(tmp_path: Path) -> None:
    """The stream ends by itself: else the server would wait for it as long as `shutdown_timeout`."""

    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), shutdown_timeout=1e6) as running:
                stream: Any
                async with http.stream("GET", running.url + "/ui/api/events", headers=running.page_headers) as stream:
                    pieces = stream.aiter_bytes()
                    assert (await anext(pieces)).startswith(b"data: ")
                    running.server.should_exit = True
                    assert [piece async for piece in pieces if b"data" in piece] == []

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


def test_looking_writes_nothing_to_the_log(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(9))) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                await talk(running, http, 2, x_tidegate_session="s")
                before = running.data.store.head("s")
                for what in (
                    "sessions",
                    "session?name=s",
                    "requests?name=s",
                    "request?name=s&head=5",
                    "recall?name=s&words=line",
                ):
                    answer = await http.get(f"{running.url}/ui/api/{what}", headers=running.page_headers)
                    assert answer.status_code == 200, what
                assert running.data.store.head("s") == before

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, ""),
        ({"policy": "picoclaw", "state_notes": True}, ""),
        (
            {"policy": "ai", "state_notes": True},
            "The policy ai: the summary of a single tool result is its beginning and end; no model writes it.",
        ),
        ({"policy": "picoclaw"}, "The policy picoclaw: no model writes summaries"),
        (
            {"policies": {"gpt-4o": "ai", "codex": "jutul"}},
            "The policies ai, jutul: no model writes",
        ),
    ],
)
def test_it_is_said_that_no_model_writes_summaries(settings: dict[str, Any], said: str, tmp_path: Path) -> None:
    async def run() -> str:
        async with Fake("anthropic") as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), tokens=(TOKEN,), **settings) as running:
                headers, _ = await log_in(running, http)
                return (await http.get(running.url + "/ui", headers=headers)).text

    page = asyncio.run(run())
    assert said in page if said else "no model writes" not in page
