# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""What follows a refusal: judged by the requests that the upstream gets, not by the classification."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from tests.fake.server import KEY, Fake, Json, Played, Scale
from tests.fake.words import Refusal, refusal
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import Running, open_http, run_gateway, upstream_of
from tests.gateway.stoppable_store import StoppableStore
from tests.gateway.test_learned_windows import Clock, ask, count_pages
from tests.models.error_texts import ErrorText, list_different_error_texts, sample_error_texts
from tidegate.core.usage import Usage
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.windows import find_client_limit
from tidegate.store.errors import StoreUnreachable
from tidegate.store.memory import MemoryStore
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

FINE = ScriptedAnswer(text="Fine.")
PARTS = 4
"""Into which the error texts are divided."""


def is_long(body: Json) -> bool:
    return len(json.dumps(body["messages"])) > 6_000


class Judge:
    """An upstream that refuses with the text that a request names: those about length only long requests."""

    def __init__(self, texts: list[ErrorText]) -> None:
        self.texts = texts
        self.lengths: dict[int, list[int]] = {}

    def answer(self, body: Json) -> Played:
        number = int(body["user"])
        row = self.texts[number]
        self.lengths.setdefault(number, []).append(len(json.dumps(body["messages"])))
        if row.kind == "overflow" and not is_long(body):
            return FINE
        text = row.text.encode()
        return Refusal(row.status or 400, text, "application/json" if text[:1] in b"{[" else "text/plain")


def judge_texts(texts: list[ErrorText], folder: Path) -> tuple[Judge, list[int]]:
    """The requests for each text, each with a token of its own, and the statuses that the client got."""
    judge = Judge(texts)
    tokens = tuple(f"token-{number:016d}" for number in range(len(texts)))
    words = "The tide table lists high water and low water. " * 10
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"{n} {words}"} for n in range(21)]

    async def run() -> list[int]:
        statuses = []
        async with Fake("openai_chat", judge.answer) as fake:
            settings = GatewaySettings(upstreams=(upstream_of(fake),), tokens=tokens, recall=False)
            with DataFolder(folder, store=MemoryStore()) as data:
                gateway = Gateway(settings, data)
                transport = httpx.ASGITransport(cast(Any, gateway))
                async with httpx.AsyncClient(transport=transport, timeout=None) as http:
                    for number, token in enumerate(tokens):
                        body = {"model": "gpt-4o", "messages": messages, "user": str(number)}
                        headers = {"authorization": f"Bearer {KEY}", "x-tidegate-token": token, "host": "localhost"}
                        url = "http://localhost/v1/chat/completions"
                        statuses.append((await http.post(url, json=body, headers=headers)).status_code)
                await gateway.close()
        return statuses

    return judge, asyncio.run(run())


def check_texts(texts: list[ErrorText], folder: Path) -> None:
    judge, statuses = judge_texts(texts, folder)
    wrong = []
    for number, (row, status) in enumerate(zip(texts, statuses, strict=True)):
        lengths = judge.lengths[number]
        if row.kind == "overflow":
            is_right = status == 200 and min(lengths) < lengths[0]
        else:
            is_right = status == (row.status or 400) and len(lengths) <= 2
        if not is_right:
            wrong.append(f"{row.kind} {row.status} {status} {lengths} {row.text[:200]}")
    assert not wrong, "\n".join(wrong)


def test_texts_about_length_lead_to_a_smaller_request_and_others_to_one_call_more_at_most(tmp_path: Path) -> None:
    check_texts(sample_error_texts(), tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_all_kinds_of_texts(part: int, tmp_path: Path) -> None:
    check_texts(list_different_error_texts()[part::PARTS], tmp_path)


def test_a_long_turn_survives_any_number_of_refusals(tmp_path: Path) -> None:
    """The upstream names no number, and its window is far below the catalog's."""

    async def run() -> None:
        async with Fake("openai_responses", map(step_answer, range(60)), window=6000) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                client = ScriptedClient("openai_responses", running.url, http, {"x-tidegate-session": "s"})
                client.say("start")
                for _ in range(40):
                    assert await client.turn("a result " * 150) != []
            assert len(fake.seen) - len(fake.refused) == 40
            assert 1 <= len(fake.refused) < 10

    asyncio.run(run())


def test_refusals_leave_room_for_a_history_beside_a_large_fixed_part(tmp_path: Path) -> None:
    """Refused again and again, without a number: the ceiling stays above the system prompt, so that views fit."""

    def answer(body: Json) -> Played:
        is_last = "Page 30" in json.dumps(body) and len(json.dumps(body)) > 21_000
        return refusal("openai_chat", 400, "Your input exceeds the context window of this model.") if is_last else FINE

    async def run() -> None:
        system = {"role": "system", "content": "Mind the tide. " * 1000}
        async with Fake("openai_chat", answer) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                for name in ("a", "b", "c"):
                    assert (await ask(http, running, name, system=system)).status_code == 200
                assert not any("unmanaged" in line for line in running.lines)
            assert 1 <= len(fake.refused) <= 2

    asyncio.run(run())


ODD_WORDS = "Nope. 31 sheets of paper do not go into this envelope."


def test_unknown_words_are_remembered_if_a_smaller_request_was_accepted(tmp_path: Path) -> None:
    clock = Clock()

    def answer(body: Json) -> Played:
        return refusal("openai_chat", 422, ODD_WORDS) if len(json.dumps(body)) > 20_000 else FINE

    async def run() -> None:
        make = partial(Gateway, clock=clock)
        async with Fake("openai_chat", answer) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), make=make) as running:
                assert (await ask(http, running, "a")).status_code == 200
                assert any("unknown words" in line for line in running.lines)
                clock.now += 86_400  # nothing is known of sizes any more
            async with run_gateway(tmp_path, upstream_of(fake), make=make) as running:
                assert (await ask(http, running, "b")).status_code == 200
                assert not any("unknown words" in line for line in running.lines), "they are known now"
            pages = count_pages(fake)
            assert pages[0] == pages[2] == 31
            assert pages[3] > pages[1], "of known words, the first try leaves more"

    asyncio.run(run())


@pytest.mark.parametrize("status", [400, 404, 409, 429, 500])
def test_if_a_smaller_request_is_refused_too_the_first_refusal_is_returned(status: int, tmp_path: Path) -> None:
    """Only for statuses that may mean the length, once for the same words. The conversation keeps its view."""
    seen = 0

    def answer(body: Json) -> Played:
        nonlocal seen
        seen += 1
        return refusal("openai_chat", status, f"Refused: {'odd' if seen == 1 else 'other'} words") if seen < 5 else FINE

    async def run() -> None:
        async with Fake("openai_chat", answer) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                refused = await ask(http, running, "a")
                assert (refused.status_code, "odd words" in refused.text) == (status, True)
                assert count_pages(fake)[1:] == ([] if status != 400 else count_pages(fake)[1:2])
                while (answered := await ask(http, running, "a")).status_code != 200:
                    assert answered.status_code == status
                assert count_pages(fake)[-1] == 31

    asyncio.run(run())


class BrokenStore(MemoryStore):
    def append(self, *_: Any) -> int:
        raise StoreUnreachable("The store is gone.", "Wait.")


def test_an_unlogged_request_that_exceeds_the_window_is_guarded(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", lambda body: FINE) as fake, open_http() as http:
            settings: Any = {"store": BrokenStore(), "store_check_timeout": 0.01}
            async with run_gateway(tmp_path, upstream_of(fake), window=3000, **settings) as running:
                assert (await ask(http, running, "a")).status_code == 200
                assert any("without its oldest messages" in line for line in running.lines)
                assert running.gateway.metrics.read("guarded_own_requests") == 1
            assert 0 < count_pages(fake)[0] < 20
            assert "Page 30 of a." in json.dumps(fake.seen[0].body)
            async with run_gateway(tmp_path, upstream_of(fake), window=30_000, **settings) as running:
                assert (await ask(http, running, "a")).status_code == 200
            assert count_pages(fake)[1] == 31

    asyncio.run(run())


def count_double(usage: Usage) -> Usage:
    return usage._replace(input_tokens=2 * usage.input_tokens)


def test_the_guard_alone_counts_as_the_provider_does(tmp_path: Path) -> None:
    """The provider reports twice the tokens of the own count; then the store stops."""

    async def run() -> None:
        store = StoppableStore()
        answers = (step_answer(number) for number in range(99))
        async with Fake("anthropic", answers, usage=count_double) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=12_000, store=store) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"})
                client.say("Find the leak.")
                for _ in range(20):
                    await client.turn("a line of a result that is long\n" * 60)
                store.is_stopped = True
                await client.turn("a line of a result that is long\n" * 60)
                assert any("without its oldest messages" in line for line in running.lines)
        assert 2 * Scale().weight("anthropic", fake.seen[-1].raw) <= 12_000

    asyncio.run(run())


# --- the window -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "agent", "window", "most"),
    [
        ("codex", "", 1_050_000, 241_000),
        ("codex", "", None, 241_000),
        ("", "codex_cli_rs/0.166.0", 272_000, 241_000),
        ("claude", "", 1_000_000, 990_000),
        ("claude", "", 200_000, 190_000),
        ("", "GeminiCLI/0.61.0/gemini-2.5-pro (linux; x64)", 1_048_576, 524_288),
        ("opencode", "", 128_000, 125_000),
        ("pi", "", 200_000, 183_616),
        ("", "python-httpx/0.28", 200_000, None),
        ("claude", "", None, None),
        ("claude", "", 30_000, 30_000),
    ],
)
def test_the_window_is_below_the_clients_own_limit(
    client: str, agent: str, window: int | None, most: int | None
) -> None:
    found = find_client_limit(client, {"user-agent": agent}, window)
    assert (found is None) == (most is None)
    if found is not None and most is not None:
        assert 0.8 * most <= found < most


async def ask_as(http: httpx.AsyncClient, running: Running, model: str, pages: int, **headers: str) -> httpx.Response:
    words = "The tide table of the harbor lists high water and low water for each day. " * 10
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"{n} {words}"} for n in range(pages)]
    tool = {"type": "function", "function": {"name": "step", "parameters": {"type": "object"}}}
    body = {"model": model, "messages": messages, "max_tokens": 60_000, "tools": [tool]}
    return await http.post(
        running.url + "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEY}", **headers}
    )


def test_a_client_that_would_compact_gets_a_smaller_view(tmp_path: Path) -> None:
    """gpt-4 has 8,192 tokens; OpenCode compacts a little below."""

    async def run() -> None:
        async with Fake("openai_chat", lambda body: FINE) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                await ask_as(http, running, "gpt-4", 33, **{"x-tidegate-session": "a"})
                await ask_as(http, running, "gpt-4", 33, **{"x-session-id": "b"})
        whole, smaller = (seen.raw.count(b"The tide table of") for seen in fake.seen)
        assert smaller < whole == 330

    asyncio.run(run())


def test_an_unknown_model_is_asked_for_at_its_server(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", lambda body: FINE, window=3000, loaded={"my-model": 3000}) as fake:
            async with open_http() as http, run_gateway(tmp_path, upstream_of(fake)) as running:
                assert (await ask_as(http, running, "my-model", 31)).status_code == 200
                assert not any("my-model" in notice for notice in running.gateway.notices)
        assert fake.refused == []

    asyncio.run(run())


def test_an_unknown_model_is_left_alone_until_the_provider_refuses(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", lambda body: FINE, window=60_000) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                for name in ("a", "b"):
                    answer = await ask_as(http, running, "odd-model", 251, **{"x-tidegate-session": name})
                    assert answer.status_code == 200
                assert [line for line in running.lines if "odd-model" in line] == running.gateway.notices
                assert len(running.gateway.notices) == 1
                sent = [seen.body for seen in fake.seen if seen.raw]
                assert [len(body["messages"]) for body in sent] == [251, 251], "above the 32,768 that are assumed else"
                assert {body["max_tokens"] for body in sent} == {60_000}
                assert (await ask_as(http, running, "odd-model", 451, **{"x-tidegate-session": "c"})).status_code == 200
                assert sum("maximum context length" in each for each in fake.refused) == 1

    asyncio.run(run())
