# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Signed thinking through the gateway: three kinds of providers, and what happens if one refuses it all the same."""

import asyncio
import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from tests.fake.server import Bytes, Fake, Json
from tests.fake.words import refusal
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import Running, open_http, run_gateway, upstream_of, wait_until_ready
from tests.gateway.stoppable_store import StoppableStore
from tests.scale import parametrize_pairs
from tidegate.core.messages import Call
from tidegate.wire.anthropic import models
from tidegate.wire.request_check import RequestCheck
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer
from tidegate.wire.validation.faults import RequestFault

ENABLED: Json = {"type": "enabled", "budget_tokens": 4_000}
ADAPTIVE: Json = {"type": "adaptive"}
TASK, RULE = "Find the leak in the pump.", "Never touch main."
MISPLACED = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
)


class Kind(NamedTuple):
    model: str
    thinking: Json
    binding: Literal["", "block", "prefix"]


KINDS = [
    Kind("claude-opus-4-6", ADAPTIVE, ""),
    Kind("claude-sonnet-4-5", ENABLED, "block"),
    Kind("claude-opus-5-5", ADAPTIVE, "prefix"),
    Kind("claude-opus-5-5", ENABLED, "prefix"),
]


def count_thinking(body: Json) -> int:
    content = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    return sum(block["type"] == "thinking" for blocks in content for block in blocks if isinstance(blocks, list))


async def work(client: ScriptedClient, steps: int, lines: int = 60) -> None:
    for number in range(steps):
        calls = await client.turn(f"line {number} of a result that is long\n" * lines)
        if not calls:
            client.say("Go on.")


@parametrize_pairs(("kind", "recall"), KINDS, [False, True])
def test_two_turns_in_a_small_window_keep_task_rule_and_thinking(kind: Kind, recall: bool, tmp_path: Path) -> None:
    steps = 50

    answers = [step_answer(number, thinking=True) for number in range(steps)]
    answers[steps // 2] = ScriptedAnswer(text="Half of it.")

    async def run() -> None:
        async with Fake("anthropic", answers, window=16_000, binding=kind.binding) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=16_000, recall=recall) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"}, thinking=True)
                client.model, client.thinking = kind.model, kind.thinking
                client.say(f"{TASK} {RULE}")
                await work(client, steps)
                lines = running.lines
        assert fake.refused == []
        for seen in fake.seen:
            assert TASK in seen.raw.decode()
            assert RULE in seen.raw.decode()
            assert seen.body["thinking"] == kind.thinking
        assert max(len(seen.raw) for seen in fake.seen) < len(client.sent[-1])
        assert not any("guard" in line or "defect" in line for line in lines)
        counts = [count_thinking(seen.body) for seen in fake.seen]
        assert max(counts[-10:]) > 0, "what was made after a sweep is sent"
        assert any("thinking of" in line for line in lines) == (kind.binding == "prefix")

    asyncio.run(run())


@pytest.mark.exhaustive
def test_a_restart_and_a_rewind_do_not_bring_thinking_back(tmp_path: Path) -> None:
    async def run() -> None:
        answers = (step_answer(number, thinking=True) for number in range(99))
        async with Fake("anthropic", answers, window=12_000, binding="prefix") as fake, open_http() as http:
            client = ScriptedClient("anthropic", "", http, {"x-tidegate-session": "s"}, thinking=True)
            client.say(TASK)
            for _ in range(3):
                async with run_gateway(tmp_path, upstream_of(fake), window=12_000, recall=True) as running:
                    client.url = running.url
                    await work(client, 10)
            del client.messages[-8:]  # the client goes back and on another way
            async with run_gateway(tmp_path, upstream_of(fake), window=12_000, recall=True) as running:
                client.url = running.url
                await work(client, 10)
        assert fake.refused == []

    asyncio.run(run())


def test_thinking_goes_where_the_tools_are_those_it_was_made_with(tmp_path: Path) -> None:
    """The tool that was added is not offered after a restart, and then is again."""

    async def run() -> None:
        answers = (step_answer(number, thinking=True) for number in range(99))
        async with Fake("anthropic", answers, binding="prefix") as fake, open_http() as http:
            client = ScriptedClient("anthropic", "", http, {"x-tidegate-session": "s"}, thinking=True)
            client.say(TASK)
            for recall in (True, False, True):
                async with run_gateway(tmp_path, upstream_of(fake), recall=recall) as running:
                    client.url = running.url
                    await work(client, 4)
            counts = [count_thinking(seen.body) for seen in fake.seen]
        assert fake.refused == []
        assert counts[:8] == [0, 1, 2, 3, 0, 1, 2, 3]
        assert counts[-1] > 0

    asyncio.run(run())


@pytest.mark.parametrize(("thinking", "refusals"), [(ADAPTIVE, 1), (ENABLED, 2)], ids=["adaptive", "enabled"])
def test_thinking_that_is_refused_is_left_out_for_good(thinking: Json, refusals: int, tmp_path: Path) -> None:
    """The model's name says that its thinking is not bound to what is before it; the provider knows better."""

    async def run() -> None:
        steps: list[Any] = [*(step_answer(number, thinking=True) for number in range(12))]
        steps += [refusal("anthropic", 400, MISPLACED)] * refusals
        steps += [step_answer(number, thinking=True) for number in range(12, 20)]
        async with Fake("anthropic", steps) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=6_000) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"}, thinking=True)
                client.model, client.thinking = "claude-sonnet-4-5", thinking
                client.say(TASK)
                await work(client, 20)
                lines = running.lines
        assert len(fake.refused) == refusals
        again = fake.seen[12 + refusals]
        assert count_thinking(again.body) == 0
        assert ("thinking" in again.body) == (thinking is ADAPTIVE)
        assert count_thinking(fake.seen[-1].body) > 0
        assert sum("refused the thinking" in line for line in lines) == refusals

    asyncio.run(run())


def test_an_error_of_a_request_that_carries_nothing_of_ours_is_passed_on(tmp_path: Path) -> None:
    async def run() -> None:
        steps: list[Any] = [step_answer(0, thinking=True), refusal("anthropic", 400, MISPLACED), "Done."]
        async with Fake("anthropic", steps) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"}, thinking=True)
                client.say(TASK)
                await client.turn("a result")
                refused = await client.ask()
                assert refused.status_code == 400
                assert refused.json()["error"]["message"] == MISPLACED
                assert len(fake.seen) == 2

    asyncio.run(run())


def test_a_request_that_is_sent_unmanaged_has_no_thinking_of_our_view(tmp_path: Path) -> None:
    """The store fails: the client's own bytes go, without the blocks that were made under the view."""

    async def run() -> None:
        answers = (step_answer(number, thinking=True) for number in range(99))
        async with Fake("anthropic", answers, binding="prefix") as fake, open_http() as http:
            store = StoppableStore()
            async with run_gateway(tmp_path, upstream_of(fake), window=8_000, store=store) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"}, thinking=True)
                client.say(TASK)
                await work(client, 12)
                store.is_stopped = True
                await work(client, 2)
                store.is_stopped = False
                await wait_until_ready(running, http)
                assert fake.refused == []
                assert len(fake.seen[-1].body["messages"]) == len(client.messages) - 2
                assert count_thinking(fake.seen[-1].body) == 0
                await work(client, 3)
        assert fake.refused == [], "what was made for an unmanaged request is not sent in a managed one"

    asyncio.run(run())


def test_thinking_that_was_made_for_a_changed_unmanaged_request_stays_out(tmp_path: Path) -> None:
    """The store fails from the beginning, so nobody knows whether the client's thinking is bound to a view."""

    async def run() -> None:
        answers = (step_answer(number, thinking=True) for number in range(99))
        async with Fake("anthropic", answers, binding="prefix") as fake, open_http() as http:
            store = StoppableStore()
            async with run_gateway(tmp_path, upstream_of(fake), store=store) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"}, thinking=True)
                client.say(TASK)
                store.is_stopped = True
                await work(client, 3)
                store.is_stopped = False
                await wait_until_ready(running, http)
                left_out = [count_thinking(seen.body) for seen in fake.seen]
                await work(client, 4)
        assert left_out == [0, 0, 0]
        assert fake.refused == []
        assert count_thinking(fake.seen[-1].body) > 0

    asyncio.run(run())


def test_the_provider_may_drop_blocks_from_the_first_edited_request_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "ANTHROPIC_HOSTS", frozenset({"127.0.0.1"}))

    async def run() -> None:
        answers = (step_answer(number, thinking=True) for number in range(99))
        async with Fake("anthropic", answers, window=8_000, binding="prefix") as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=8_000) as running:
                client = ScriptedClient(
                    "anthropic",
                    running.url,
                    http,
                    {"x-tidegate-session": "s", "anthropic-beta": "a-2026"},
                    thinking=True,
                )
                client.say(TASK)
                await work(client, 20)
        assert fake.refused == []
        assert fake.dropped == [], "it is a net, not the way"
        asking = ["block_binding" in seen.body["thinking"] for seen in fake.seen]
        assert asking == sorted(asking)
        assert asking[0] is False
        assert asking[-1] is True
        betas = [seen.headers["anthropic-beta"] for seen in fake.seen]
        assert [("thinking-binding-controls" in each) for each in betas] == asking
        assert all(each.startswith("a-2026") for each in betas)

    asyncio.run(run())


async def read_changes(running: Running) -> list[tuple[str, str]]:
    """What the page lists of the session `s`: what it was, and why."""
    async with open_http() as http:
        response = await http.get(f"{running.url}/ui/api/session?name=s", headers=running.page_headers)
        return [(change["name"], change["reason"]) for change in response.json()["changes"]]


def test_the_page_lists_what_became_of_requests(tmp_path: Path) -> None:
    """Thinking that was left out, refused or dropped, the guard, and a request that was sent unmanaged."""
    dropped = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Enough."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5_000, "output_tokens": 5},
        "input_transformations": [{"type": "thinking_dropped", "path": "messages.3.content.0"}],
    }

    async def run() -> None:
        steps: list[Any] = [step_answer(number, thinking=True) for number in range(12)]
        steps += [refusal("anthropic", 400, MISPLACED), step_answer(12, thinking=True)]
        steps += [Bytes(json.dumps(dropped).encode(), "application/json"), "Read.", "Whole.", "Whole.", "Done."]
        async with Fake("anthropic", steps, binding="prefix") as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=8_000) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"}, thinking=True)
                client.say(TASK)
                await work(client, 14)
                assert {what for what, _ in await read_changes(running)} & {"guard", "sent_unmanaged"} == set()
                client.messages[-1]["content"] = "a paste of one kind of words " * 4_000
                await client.turn()
                system = {"system": "a system prompt that fills the window " * 1_000}
                for _ in range(2):
                    client.say("Go on.")
                    client.keep((await client.ask(**system)).json())
                client.say("Go on.")
                await client.turn()
                assert len(fake.refused) == 1
                changes = dict(await read_changes(running))
                rows = [what for what, _ in await read_changes(running)]
        assert "what it was made from has been edited" in changes["thinking_left_out"]
        assert "because the provider refused" in changes["unsigned"]
        assert changes["thinking_dropped"] == "the upstream dropped 1 blocks of thinking (input_transformations)"
        assert "guard" in changes
        assert "8,000" in changes["sent_unmanaged"]
        assert rows.count("sent_unmanaged") == 1, "not one for each request"

    asyncio.run(run())


def test_thinking_of_a_hidden_round_is_the_providers_own(tmp_path: Path) -> None:
    """The client gets two rounds as one answer, and leaves the thinking of the first out of it."""

    async def run() -> None:
        steps: list[Any] = [
            ScriptedAnswer(thinking="Look.", signature="s0", calls=(Call("r0", "recall", '{"what": "m2"}'),)),
            step_answer(1, thinking=True),
            "Done.",
        ]
        async with Fake("anthropic", steps, binding="prefix") as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"}, thinking=True)
                client.say(TASK)
                await client.turn("a result")
                content = client.messages[1]["content"]
                assert [block["type"] for block in content].count("thinking") == 2
                del content[0]
                assert await client.turn() == []
        assert fake.refused == []
        assert count_thinking(fake.seen[-1].body) == 2
        assert json.dumps(fake.seen[-1].body).index('"s0"') < json.dumps(fake.seen[-1].body).index('"r0"')

    asyncio.run(run())


def test_a_view_that_would_be_refused_is_replaced_without_thinking_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edited request breaks a rule: the client's own goes, and later views know that its answer was made for it."""

    faults = [RequestFault("AN99", "a rule that the engine does not know", "messages.0")]

    def find_one(check: RequestCheck, text: bytes, model: str) -> list[RequestFault]:
        return [faults.pop()] if faults else []

    async def run() -> None:
        answers = (step_answer(number, thinking=True) for number in range(99))
        async with Fake("anthropic", answers, window=60_000, binding="prefix") as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=8_000) as running:
                client = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "s"}, thinking=True)
                client.say(TASK)
                await work(client, 20)
                assert count_thinking(fake.seen[-1].body) > 0
                with monkeypatch.context() as patch:
                    patch.setattr(RequestCheck, "find_faults", find_one)
                    await work(client, 1)
                    assert any("a defect" in line for line in running.lines)
                    assert any("without its oldest messages" in line for line in running.lines)
                    assert TASK in str(fake.seen[-1].body)
                    assert count_thinking(fake.seen[-1].body) == 0
                await work(client, 4)
        assert fake.refused == []
        assert count_thinking(fake.seen[-1].body) > 0

    asyncio.run(run())


def test_a_request_without_tools_has_no_thinking_of_our_view(tmp_path: Path) -> None:
    """A client asks for a title, with the last messages of a conversation that was edited: it is not logged."""

    async def run() -> None:
        answers = (step_answer(number, thinking=True) for number in range(99))
        async with Fake("anthropic", answers, window=8_000, binding="prefix") as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), window=8_000) as running:
                ids = {"x-claude-code-session-id": "s"}
                client = ScriptedClient("anthropic", running.url, http, ids, thinking=True)
                client.say(TASK)
                counts = []
                for steps in (2, 12):
                    await work(client, steps)
                    side = client.body() | {
                        "messages": [{"role": "user", "content": "A title?"}, *client.messages[-2:]]
                    }
                    del side["tools"]
                    await http.post(f"{running.url}/v1/messages", json=side, headers=client.headers)
                    counts.append(count_thinking(fake.seen[-1].body))
                assert running.gateway.metrics.read("side_requests") == 2
                assert running.gateway.metrics.read("unmanaged_requests") == 0
        assert counts == [1, 0], "before the first edit it is the client's own"

    asyncio.run(run())
