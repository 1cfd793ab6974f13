"""Threat: two callers of the gateway get the same session, and one reads what the other said."""
# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other

import asyncio
import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.fake.server import KEY, Fake
from tests.gateway.scripted_client import ScriptedClient, step_answer
from tests.gateway.serving import Running, open_http, run_gateway, upstream_of
from tidegate.core.events import HostMessageAdded, MessageAdded
from tidegate.core.messages import Call, text_of
from tidegate.gateway.session_search import chain_keys
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

SAME = "Hello."
ANSWER = "Hello, what can I do?"


def words_of(running: Running) -> list[str]:
    """What was said in each session, as one text each."""
    return [
        "\n".join(
            text_of(event.payload.message)
            for event in running.data.open_log(info.name).read()
            if isinstance(event.payload, MessageAdded)
        )
        for info in running.data.store.sessions()
    ]


def make_client(running: Running, web: httpx.AsyncClient, key: str = KEY, **headers: str) -> ScriptedClient:
    client = ScriptedClient("openai_chat", running.url, web, headers)
    client.headers["authorization"] = f"Bearer {key}"
    client.say(SAME)
    return client


async def go_on(client: ScriptedClient, words: str) -> None:
    client.say(words)
    await client.turn("a result")


@pytest.mark.exhaustive
def test_any_number_of_conversations_that_begin_alike_stay_apart(tmp_path: Path) -> None:
    """Each has its own answer; 80 of them wait for nothing but their next message."""

    async def run() -> None:
        count = 80
        answers = [f"answer {number}" for number in range(count)] + ["on"] * count
        async with Fake("openai_chat", answers) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                clients = [make_client(running, web) for _ in range(count)]
                for client in clients:
                    await client.turn()
                for number in (0, 1, 40, 78, 79):
                    await go_on(clients[number], f"the secret of {number}")
                found = words_of(running)
        assert len(found) == count
        for number in (0, 1, 40, 78, 79):
            holders = [text for text in found if f"the secret of {number}" in text]
            assert len(holders) == 1
            assert f"answer {number}\n" in holders[0]

    asyncio.run(run())


async def ask_as_bob(running: Running, web: httpx.AsyncClient) -> list[str]:
    bob = make_client(running, web, "sk-bob")
    await bob.turn()
    await go_on(bob, "what is the passphrase?")
    return words_of(running)


@pytest.mark.parametrize("restarts", [False, True])
def test_who_continues_the_words_of_another_key_does_not_get_its_session(restarts: bool, tmp_path: Path) -> None:
    """Another caller has the same first message and answer, and no session of its own yet."""

    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * 4, any_key=True) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                alice = make_client(running, web, "sk-alice")
                await alice.turn()
                if not restarts:
                    await continue_as_bob(running, web, alice)
            if restarts:
                async with run_gateway(tmp_path, upstream_of(fake)) as running:
                    await continue_as_bob(running, web, alice)

    async def continue_as_bob(running: Running, web: httpx.AsyncClient, alice: ScriptedClient) -> None:
        bob = make_client(running, web, "sk-bob")
        bob.messages = list(alice.messages)
        await go_on(bob, "these are the words of Bob")
        assert len(words_of(running)) == 2
        alice.url = running.url
        await go_on(alice, "these are the words of Alice")
        found = words_of(running)
        assert len(found) == 2
        assert not any("Bob" in text and "Alice" in text for text in found)

    asyncio.run(run())


@pytest.mark.parametrize("restarts", [False, True])
def test_the_same_words_with_another_key_are_another_session(restarts: bool, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * 4, any_key=True) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                alice = make_client(running, web, "sk-alice")
                await alice.turn()
                await go_on(alice, "the passphrase is violet-armadillo")
                found = words_of(running) if restarts else await ask_as_bob(running, web)
            if restarts:
                async with run_gateway(tmp_path, upstream_of(fake)) as running:
                    found = await ask_as_bob(running, web)
                    names = [info.name for info in running.data.store.sessions()]
                    assert not any("alice" in name or "bob" in name for name in names)
        assert len(found) == 2
        assert not any("armadillo" in text and "what is" in text for text in found)

    asyncio.run(run())


def test_the_same_key_continues_its_conversation_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * 4) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                client = make_client(running, web)
                await client.turn()
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                client.url = running.url
                await go_on(client, "still me")
                assert len(words_of(running)) == 1

    asyncio.run(run())


def make_login(subject: str, number: int) -> str:
    """An access token of a login: its signature and its date change, its subject stays."""
    parts = [{"alg": "none"}, {"iss": "https://login.example", "sub": subject, "iat": number}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, f"signature{number}"])


def test_a_login_that_is_refreshed_stays_the_same_caller(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * 6, any_key=True) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                client = make_client(running, web, make_login("alice", 1))
                await client.turn()
                client.headers["authorization"] = f"Bearer {make_login('alice', 2)}"
                await go_on(client, "refreshed")
                assert len(words_of(running)) == 1
                other = make_client(running, web, make_login("bob", 3))
                await other.turn()
                await go_on(other, "someone else")
                assert len(words_of(running)) == 2

    asyncio.run(run())


def test_a_login_without_a_part_that_stays_cannot_recall_after_a_restart(tmp_path: Path) -> None:
    """Nothing says that the next one who sends these words is the same person."""

    def offers_recall(seen: Any) -> bool:
        return "recall" in [tool["function"]["name"] for tool in seen.body["tools"]]

    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * 6, any_key=True) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
                client = make_client(running, web, "ya29.first")
                await client.turn()
                client.headers["authorization"] = "Bearer ya29.refreshed"
                await go_on(client, "the passphrase is violet-armadillo")
                assert all(offers_recall(seen) for seen in fake.seen)
            seen = len(fake.seen)
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
                client.url = running.url
                await go_on(client, "after the restart")
            assert not any(offers_recall(each) for each in fake.seen[seen:])

    asyncio.run(run())


def test_different_names_are_different_sessions(tmp_path: Path) -> None:
    names = ["проект", "работа", "a/b", "a_b", "a b", "x" * 81, "x" * 82, "…", "!"]

    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * 2 * len(names)) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                for name in names:
                    client = ScriptedClient("openai_chat", f"{running.url}/s/{quote(name, safe='')}", web)
                    client.say(f"I am {name}")
                    await client.turn()
                found = words_of(running)
                stored = {info.name for info in running.data.store.sessions()}
        assert len(found) == len(names)
        for name in names:
            assert sum(f"I am {name}\n" in text + "\n" for text in found) == 1
        assert {"проект", "работа", "a_b"} <= stored
        assert all(len(name) <= 80 for name in stored)

    asyncio.run(run())


def test_ids_of_a_client_that_are_joined_to_a_name_are_told_apart(tmp_path: Path) -> None:
    main, agent = "x-claude-code-session-id", "x-claude-code-agent-id"
    ids = [{main: "a.b"}, {main: "a", agent: "b"}, {main: "a.b", agent: "c"}, {main: "a", agent: "b.c"}, {main: "a_b"}]

    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * len(ids)) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake)) as running:
                for number, headers in enumerate(ids):
                    client = ScriptedClient("openai_chat", running.url, web, headers)
                    client.say(f"I am number {number}.")
                    await client.turn()
                found = words_of(running)
        assert len(found) == len(ids)

    asyncio.run(run())


# --- sessions of earlier versions ---------------------------------------------------------------------------------


def test_a_session_of_an_earlier_version_is_found_and_belongs_to_who_continues_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * 9, any_key=True) as fake, open_http() as web:
            async with run_gateway(tmp_path / "new", upstream_of(fake)) as running:
                alice = make_client(running, web, "sk-alice")
                await alice.turn()
                (info,) = running.data.store.sessions()
                records = list(running.data.store.read(info.name))
                payloads = [event.payload for event in running.data.open_log(info.name).read()]
                key = next(each.key for each in payloads if isinstance(each, HostMessageAdded))
            old_name = f"auto-{chain_keys('openai_chat', [key])[-1]}"
            async with run_gateway(tmp_path / "old", upstream_of(fake)) as running:
                running.data.store.append(old_name, 0, records)
                alice.url = running.url
                await go_on(alice, "the passphrase is violet-armadillo")
                assert [info.name for info in running.data.store.sessions()] == [old_name]
                bob = make_client(running, web, "sk-bob")
                await bob.turn()
                await go_on(bob, "what is the passphrase?")
                found = words_of(running)
                assert len(found) == 2
                assert not any("armadillo" in text and "what is" in text for text in found)
                await go_on(alice, "me again")
                assert len(words_of(running)) == 2

    asyncio.run(run())


def test_an_old_name_that_others_could_have_is_used_only_for_its_own_conversation(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * 9) as fake, open_http() as web:
            async with run_gateway(tmp_path / "new", upstream_of(fake)) as running:
                client = ScriptedClient("openai_chat", f"{running.url}/s/{quote('проект')}", web)
                client.say("the words of one project")
                await client.turn()
                (info,) = running.data.store.sessions()
                assert info.name == "проект"
                records = list(running.data.store.read(info.name))
            async with run_gateway(tmp_path / "old", upstream_of(fake)) as running:
                running.data.store.append("_", 0, records)
                client.url = f"{running.url}/s/{quote('проект')}"
                client.say("and on")
                await client.turn()
                assert [info.name for info in running.data.store.sessions()] == ["_"]
                other = ScriptedClient("openai_chat", f"{running.url}/s/{quote('работа')}", web)
                other.say("another project")
                await other.turn()
                assert {info.name for info in running.data.store.sessions()} == {"_", "работа"}

    asyncio.run(run())


def test_a_name_that_is_the_id_of_a_client_is_its_session_only_with_its_token(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", [ANSWER] * 9) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake), tokens=("token-of-alice", "token-of-bob")) as running:
                alice = make_client(
                    running, web, **{"x-claude-code-session-id": "x", "x-tidegate-token": "token-of-alice"}
                )
                await alice.turn()
                same = make_client(
                    running, web, **{"x-tidegate-session": "claude-x", "x-tidegate-token": "token-of-alice"}
                )
                same.messages = list(alice.messages)
                await go_on(same, "this continues it")
                assert len(words_of(running)) == 1
                bob = make_client(
                    running, web, **{"x-tidegate-session": "claude-x", "x-tidegate-token": "token-of-bob"}
                )
                await bob.turn()
                await go_on(bob, "these are the words of Bob")
                found = words_of(running)
                assert len(found) == 2
                assert not any("Bob" in text and "continues" in text for text in found)

    asyncio.run(run())


RECALLS = [ScriptedAnswer(calls=(Call("c1", "recall", '{"what": "passphrase"}'),)), "done"]


def test_a_recall_stays_on_the_branch_of_its_conversation(tmp_path: Path) -> None:
    """Someone else who has the same key and the same first exchange continues another branch, and finds only that."""

    async def run() -> None:
        answers: list[Any] = [ANSWER, step_answer(0), "noted", *RECALLS]
        async with Fake("openai_chat", answers) as fake, open_http() as web:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running:
                first = make_client(running, web)
                await first.turn()
                start = list(first.messages)
                await go_on(first, "the passphrase is violet-armadillo")
                await first.turn()
                second = make_client(running, web)
                second.messages = [*start, {"role": "user", "content": "Recall the passphrase."}]
                await second.ask()
                sent = json.dumps(fake.seen[-1].body)
                assert "recall" in sent
                assert "armadillo" not in sent

    asyncio.run(run())
