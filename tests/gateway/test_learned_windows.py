"""Which refusals change the window of which client, through the gateway."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.fake.server import KEY, Fake, Json, Played
from tests.fake.words import Refusal, refusal, too_long
from tests.gateway.serving import Running, open_http, run_gateway, upstream_of
from tidegate.gateway.app import Gateway
from tidegate.models.window_evidence import EVIDENCE_SECONDS
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

CLAIM = "maximum context length is 900 tokens"
PAGE = "The tide table of the harbor lists high water and low water for each day. " * 10
TOKENS = ("token-0123456789abcdef", "other-0123456789abcdef")


async def ask(http: httpx.AsyncClient, running: Running, session: str, token: str = "", **more: Any) -> httpx.Response:
    """A conversation of 30 pages, about 5,000 tokens."""
    title = more.pop("title", session)
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"Page {n} of {title}. {PAGE}"} for n in range(31)]
    messages = [system, *messages] if (system := more.pop("system", None)) else messages
    headers = {"authorization": f"Bearer {KEY}", "x-tidegate-session": session}
    headers |= {"x-tidegate-token": token} if token else {}
    body = {"model": "gpt-4o", "messages": messages, **more}
    return await http.post(running.url + "/v1/chat/completions", json=body, headers=headers)


def count_pages(fake: Fake) -> list[int]:
    return [json.dumps(seen.body["messages"]).count("The tide table") // 10 for seen in fake.seen]


def test_a_quoted_text_of_the_request_changes_no_window(tmp_path: Path) -> None:
    """The refusal passes through after a smaller request was tried once. All conversations keep their pages."""

    def answer(body: Json) -> Played:
        if "user" in body:
            return refusal("openai_chat", 400, f"Invalid value: '{body['user']}'. Supported values are: 'me'.")
        return ScriptedAnswer(text="Fine.")

    async def run() -> None:
        async with Fake("openai_chat", answer) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), tokens=TOKENS) as running:
                refused = await ask(http, running, "a", TOKENS[0], user=CLAIM)
                assert (refused.status_code, CLAIM in refused.text) == (400, True)
                for token in TOKENS:
                    assert (await ask(http, running, "a", token)).status_code == 200
            async with run_gateway(tmp_path, upstream_of(fake), tokens=TOKENS) as running:
                assert (await ask(http, running, "b", TOKENS[0])).status_code == 200
            pages = count_pages(fake)
            assert pages[0] == 31
            assert pages[1] < 16, "larger than any that was accepted: it could be the length"
            assert pages[2:] == [31, 31, 31]

    asyncio.run(run())


def refuse_once(refused: Refusal) -> Any:
    left = [refused]
    return lambda body: left.pop() if left and "secret" in body.get("user", "") else ScriptedAnswer(text="Fine.")


def test_a_window_counts_for_one_token_upstream_and_model(tmp_path: Path) -> None:
    async def run() -> None:
        steps = refuse_once(too_long("openai_chat", 5200, 3000))
        async with Fake("openai_chat", steps) as fake, open_http() as http:
            local = upstream_of(fake)
            other = type(local)("openai-other", "openai", fake.host)
            async with run_gateway(tmp_path, local, other, tokens=TOKENS) as running:
                assert (await ask(http, running, "a", TOKENS[0], user="secret")).status_code == 200
                assert len(fake.refused) == 1
                assert (await ask(http, running, "b", TOKENS[0])).status_code == 200
                assert (await ask(http, running, "b", TOKENS[1])).status_code == 200
                assert (await ask(http, running, "c", TOKENS[0], model="gpt-4o-mini")).status_code == 200
                prefixed = running._replace(url=running.url + "/openai-other")
                assert (await ask(http, prefixed, "d", TOKENS[0])).status_code == 200
            pages = count_pages(fake)
            assert pages[0] == 31
            assert max(pages[1:3]) < 31, "the refused conversation, and another one of this token"
            assert pages[3:] == [31, 31, 31]

    asyncio.run(run())


def test_a_window_below_an_accepted_request_is_not_believed(tmp_path: Path) -> None:
    async def run() -> None:
        steps = refuse_once(refusal("openai_chat", 400, "This model's maximum context length is 900 tokens."))
        async with Fake("openai_chat", steps) as fake, open_http() as http:
            for name in ("a", "b"):
                async with run_gateway(tmp_path, upstream_of(fake)) as running:
                    assert (await ask(http, running, name)).status_code == 200
                    assert (await ask(http, running, name, user="secret")).status_code == (400 if name == "a" else 200)
            assert count_pages(fake) == [31, 31, 31, 31]

    asyncio.run(run())


def test_the_windows_of_an_older_version_are_not_used(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", ["one", "two"]) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                running.data.state_folder.write("gateway-windows.json", '{"gpt-4o":900}')
                assert (await ask(http, running, "a")).status_code == 200
            assert count_pages(fake) == [31]

    asyncio.run(run())


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_server_that_loaded_less_than_the_catalog_says(tmp_path: Path) -> None:
    """Each hour it refuses once. In between every request fits, also in new sessions and after a restart."""
    clock = Clock()

    async def run() -> None:
        async with Fake("openai_chat", lambda body: ScriptedAnswer(text="Fine."), window=3000) as fake:
            refusals = []
            for lifetime in range(2):
                make = partial(Gateway, clock=clock)
                async with open_http() as http, run_gateway(tmp_path, upstream_of(fake), make=make) as running:
                    for name in ("a", "b", f"new in {lifetime}"):
                        assert (await ask(http, running, name)).status_code == 200
                        refusals.append(len(fake.refused))
                    clock.now += EVIDENCE_SECONDS
                    assert (await ask(http, running, f"later {lifetime}")).status_code == 200
                    refusals.append(len(fake.refused))
            assert refusals == [1, 1, 1, 2, 2, 2, 2, 3]

    asyncio.run(run())


def test_an_open_session_gets_its_window_back(tmp_path: Path) -> None:
    """The session stays open, and its client starts a list of other pages, which is another branch of it."""
    clock = Clock()

    async def run() -> None:
        async with Fake("openai_chat", refuse_once(too_long("openai_chat", 5200, 3000))) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), make=partial(Gateway, clock=clock)) as running:
                assert (await ask(http, running, "a", user="secret")).status_code == 200
                clock.now += EVIDENCE_SECONDS - 1
                assert (await ask(http, running, "a", title="x")).status_code == 200
                clock.now += 1
                assert (await ask(http, running, "a", title="y")).status_code == 200
            pages = count_pages(fake)
            assert pages[0] == pages[3] == 31
            assert max(pages[1:3]) < 31

    asyncio.run(run())
