# ruff: noqa: SIM117 - a server, a gateway and a client, one inside the other
"""Whole conversations through the gateway: bytes, windows, branches, sub-agents, errors, streams that break."""

import asyncio
import json
import threading
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake.server import Bytes, CutAt, Fake, Hang
from tests.fake.words import refusal, too_long
from tests.gateway.scripted_client import PATHS, ScriptedClient, headers_of, step_answer
from tests.gateway.serving import DEADLINE, Running, open_http, read_metric, run_gateway, until, upstream_of
from tests.scale import scaled
from tidegate.core.events import BranchStarted, Event, MessageAdded, NoteAdded, ViewEdited
from tidegate.core.messages import Call, text_of
from tidegate.datafolder.session_names import read_session_title
from tidegate.gateway.settings import Upstream
from tidegate.wire.answers import encode_response_frames, encode_sse
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

each_wire = pytest.mark.parametrize("wire", PATHS)


def events_of(running: Running, name: str) -> list[Any]:
    return [event.payload for event in running.data.open_log(name).read()]


def session_names(running: Running) -> list[str]:
    return sorted(info.name for info in running.data.store.sessions())


@each_wire
def test_an_unedited_request_is_forwarded_byte_for_byte(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(wire, map(step_answer, range(9))) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            async with open_http() as http:
                client = ScriptedClient(wire, running.url, http)
                client.say("Käse: start \u2028 \U0001f600")
                for number in range(5):
                    await client.turn(f"result {number}\n" * 50)
                assert [seen.raw for seen in fake.seen] == client.sent
                assert len(session_names(running)) == 1

    asyncio.run(run())


LONG_RUNS = [*((wire, False) for wire in PATHS), ("anthropic", True)]
"""Dialects, and whether the answers have thinking. Only Anthropic binds thinking to what is before it."""


def check_long_run(wire: str, thinking: bool, folder: Path, *, steps: int, lines: int) -> None:
    """Every request is judged by the validators, weighed against the window, and bound to its signed thinking."""

    async def run() -> None:
        answers = (step_answer(number, thinking) for number in range(steps))
        async with Fake(wire, answers, window=32_000, binding="prefix") as fake:
            async with run_gateway(folder, upstream_of(fake), window=32_000) as running, open_http() as http:
                client = ScriptedClient(wire, running.url, http, thinking=thinking)
                client.say("Start. Always answer in French.")
                for number in range(steps):
                    await client.turn(f"line {number} of a result that is long\n" * lines)
                assert fake.refused == []
                assert "defect" not in "".join(running.lines)
                assert max(len(seen.raw) for seen in fake.seen) < len(client.sent[-1])
                assert len(session_names(running)) == 1

    asyncio.run(run())


@pytest.mark.parametrize(("wire", "thinking"), LONG_RUNS)
def test_a_run_in_a_small_window_is_always_valid(wire: str, thinking: bool, tmp_path: Path) -> None:
    check_long_run(wire, thinking, tmp_path, steps=40, lines=180)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("wire", "thinking"), LONG_RUNS)
def test_a_long_run_in_a_small_window_is_always_valid(wire: str, thinking: bool, tmp_path: Path) -> None:
    check_long_run(wire, thinking, tmp_path, steps=scaled(60), lines=120)


def test_what_a_sweep_needs_is_read_after_the_answers(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(8))) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), window=32_000) as running, open_http() as http:
                client = ScriptedClient("anthropic", running.url, http)
                client.say("start")
                for number in range(2):
                    await client.turn(f"a line of result {number}\n" * 100)
                assert await read_metric(running, http, "groups_read_ahead_total") == 0, "a sweep is far away"
                for number in range(5):
                    await client.turn(f"a line of result {number}\n" * 2_000)
                await until(lambda: running.gateway.metrics.read("groups_read_ahead"))
                assert running.gateway.metrics.read("failed_readings") == 0
                assert fake.refused == []

    asyncio.run(run())


@pytest.mark.seed("COW-09", fixed="the gateway asks again, whatever the preset")
@each_wire
def test_an_overflow_is_invisible_to_the_client(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        steps: list[Any] = [*map(step_answer, range(6)), too_long(wire, 50_000, 20_000), step_answer(6), "done"]
        async with Fake(wire, steps) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            async with open_http() as http:
                client = ScriptedClient(wire, running.url, http)
                client.say("start")
                for number in range(7):
                    await client.turn(f"a line of result {number}\n" * 600)
                assert await client.turn() == []
            assert len(fake.refused) == 1
            assert len(fake.seen) == len(client.sent) + 1

    asyncio.run(run())


@each_wire
def test_other_errors_pass_through_with_their_headers(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        fault = refusal(wire, 429, "slow down")._replace(headers=(("retry-after", "7"), ("x-request-id", "r1")))
        async with Fake(wire, [fault]) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            async with open_http() as http:
                client = ScriptedClient(wire, running.url, http)
                client.say("start")
                response = await client.ask()
        assert (response.status_code, response.headers["retry-after"]) == (429, "7")
        assert response.content == fault.body

    asyncio.run(run())


def test_a_rewind_is_a_branch_of_one_log(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(9))) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client = ScriptedClient("anthropic", running.url, http, {"x-claude-code-session-id": "abc"})
                client.say("start")
                for _ in range(3):
                    await client.turn("result")
                del client.messages[3:]
                client.messages[2]["content"].append({"type": "text", "text": "something else"})
                await client.turn("result")
                assert fake.refused == []
                assert fake.seen[-1].raw == client.sent[-1]
                events = events_of(running, "claude-abc")
        assert sum(isinstance(event, BranchStarted) for event in events) == 1
        said = [text_of(event.message) for event in events if isinstance(event, MessageAdded)]
        assert "Step 2." in said
        assert "something else" in said

    asyncio.run(run())


def test_sub_agents_have_logs_of_their_own_linked_to_their_parent(tmp_path: Path) -> None:
    async def run() -> None:
        main = {"x-claude-code-session-id": "abc"}
        agents: list[dict[str, str]] = [main, *(main | {"x-claude-code-agent-id": f"a{n}"} for n in (1, 2))]
        agents.append(main | {"x-claude-code-agent-id": "a3", "x-claude-code-parent-agent-id": "a2"})
        async with Fake("anthropic", map(step_answer, range(99))) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                clients = [ScriptedClient("anthropic", running.url, http, ids) for ids in agents]
                for client in clients:
                    client.say("the same first message")
                for _ in range(3):
                    for client in clients:
                        await client.turn("result")
                names = session_names(running)
                parents = {
                    name: [e.text for e in events_of(running, name) if isinstance(e, NoteAdded) and e.topic == "parent"]
                    for name in names
                }
        assert parents == {
            "claude-abc": [],
            "claude-abc.a1": ["claude-abc"],
            "claude-abc.a2": ["claude-abc"],
            "claude-abc.a3": ["claude-abc.a2"],
        }

    asyncio.run(run())


@each_wire
def test_two_conversations_with_the_same_start_and_no_ids_stay_two(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(wire, map(step_answer, range(99))) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                clients = [ScriptedClient(wire, running.url, http) for _ in range(2)]
                for client in clients:
                    client.say("the same first message")
                for number in range(4):
                    for client in clients:
                        await client.turn(f"result {number}")
                names = session_names(running)
                assert len(names) == 2
                for name in names:
                    assert sum(isinstance(event, BranchStarted) for event in events_of(running, name)) == 0
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                for client in clients:  # after a restart they are recognized
                    client.url, client.http = running.url, http
                    await client.turn("result")
                assert session_names(running) == names

    asyncio.run(run())


@each_wire
def test_a_list_whose_beginning_was_rewritten_continues_its_session(wire: str, tmp_path: Path) -> None:
    """A client describes its folder anew in its first message: the list is a branch, and recalls only its own text."""

    async def run() -> None:
        recall = ScriptedAnswer(calls=(Call("r0", "recall", '{"what":"zanzibar"}'),), number=900)
        answers = [*map(step_answer, range(5)), recall, *map(step_answer, range(5, 9))]
        async with Fake(wire, answers, any_key=True) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), recall=True) as running, open_http() as http:
                client, other = ScriptedClient(wire, running.url, http), ScriptedClient(wire, running.url, http)
                client.say("a folder with zanzibar 7731")
                for number in range(4):
                    await client.turn(f"result {number}")
                names = session_names(running)
                (name,) = names
                other.say("a folder without it")
                other.messages += client.messages[1:]
                for number in range(4, 6):
                    await other.turn(f"result {number}")
                assert session_names(running) == names
                events = events_of(running, name)
                assert sum(isinstance(event, BranchStarted) for event in events) == 1
                assert "zanzibar" in fake.seen[-1].raw.decode(), "it was recalled"
                assert "7731" not in fake.seen[-1].raw.decode()
                key = dict.fromkeys(("x-api-key", "authorization", "x-goog-api-key"), "the key of someone else")
                stranger = ScriptedClient(wire, running.url, http, key)
                stranger.say("a folder of someone else")
                stranger.messages += other.messages[1:]
                await stranger.ask()
                assert len(session_names(running)) == 2, "the same list of another caller is another conversation"
                fresh = ScriptedClient(wire, running.url, http)
                fresh.say("a folder with other work")
                fresh.messages += other.messages[1:3]
                await fresh.ask()
                assert len(session_names(running)) == 3, "one that ends in another way is, too"

    asyncio.run(run())


@each_wire
def test_a_retry_of_a_first_request_without_an_answer_continues_its_session(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        faults = [refusal(wire, 429, "slow down"), refusal(wire, 500, "try again"), refusal(wire, 503, "later")]
        async with Fake(wire, [*faults, *map(step_answer, range(1, 9))]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client = ScriptedClient(wire, running.url, http)
                client.say("the same first message")
                assert [(await client.ask()).status_code for _ in range(2)] == [429, 500]
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client.url, client.http = running.url, http  # also after a restart
                assert (await client.ask()).status_code == 503
                await client.turn("result")
                (name,) = session_names(running)
                assert [
                    event.message.role for event in events_of(running, name) if isinstance(event, MessageAdded)
                ] == [
                    "user",
                    "assistant",
                ]
                other = ScriptedClient(wire, running.url, http)
                other.say("the same first message")  # answered by now: this is another conversation
                for each in (other, client):
                    await each.turn("result")
                assert len(session_names(running)) == 2
                for name in session_names(running):
                    assert not any(isinstance(event, BranchStarted) for event in events_of(running, name))

    asyncio.run(run())


@pytest.mark.parametrize("arrived", [0, 1500])
def test_a_retry_of_a_first_request_whose_answer_broke_off_continues_its_session(arrived: int, tmp_path: Path) -> None:
    async def run() -> None:
        spoken = ScriptedAnswer(text="These words arrived before the end. " * 30)
        async with Fake("anthropic", [CutAt(spoken, arrived), step_answer(1)]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client = ScriptedClient("anthropic", running.url, http)
                client.say("start")
                if arrived:
                    with pytest.raises(httpx.RemoteProtocolError):
                        await client.ask(stream=True)
                else:
                    assert (await client.ask(stream=True)).status_code == 502
                await client.turn("result")
                (name,) = session_names(running)
                said = [text_of(event.message) for event in events_of(running, name) if isinstance(event, MessageAdded)]
                assert any(each.startswith("These words arrived") for each in said) == bool(arrived)

    asyncio.run(run())


def test_the_same_first_request_twice_at_the_same_time_is_two_sessions(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", [Hang(step_answer(0), 0), *map(step_answer, range(1, 9))]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                clients = [ScriptedClient("anthropic", running.url, http) for _ in range(2)]
                for client in clients:
                    client.say("the same first message")
                waiting = asyncio.create_task(clients[0].ask(stream=True))
                await until(lambda: fake.seen)
                await clients[1].turn("result")
                assert len(session_names(running)) == 2
                waiting.cancel()
                await until(lambda: fake.hung_up)
                for _ in range(2):
                    for client in clients:
                        await client.turn("result")
                names = session_names(running)
                assert len(names) == 2  # the one that had no answer has been continued
                for name in names:
                    events = events_of(running, name)
                    assert not any(isinstance(event, BranchStarted) for event in events)
                    assert sum(isinstance(event, MessageAdded) for event in events) >= 4

    asyncio.run(run())


def test_side_requests_pass_through_and_are_not_logged(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_chat", [step_answer(0), "A title", step_answer(1)]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                ids = {"x-session-id": "s1"}
                client = ScriptedClient("openai_chat", running.url, http, ids)
                client.say("start")
                await client.turn("result")
                title = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Make a title for: start"}]}
                response = await http.post(
                    running.url + PATHS["openai_chat"], json=title, headers=headers_of("openai_chat", **ids)
                )
                assert response.status_code == 200
                await client.turn("result")
                assert session_names(running) == ["opencode-s1"]
                said = [text_of(e.message) for e in events_of(running, "opencode-s1") if isinstance(e, MessageAdded)]
        assert not any("title" in text for text in said)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("ids", "name"),
    [
        ({"session-id": "7", "thread-id": "7", "user-agent": "codex_exec/0.166.0"}, "codex-7"),
        ({"session_id": "7", "user-agent": "codex_cli_rs/0.40.0"}, "codex-7"),
        ({"x-session-id": "ses_7", "session-id": "ses_7", "originator": "opencode"}, "opencode-ses_7"),
        ({"session_id": "7", "user-agent": "OpenAI/JS 6.26.0"}, "pi-7"),
    ],
)
def test_a_session_is_named_for_its_client(ids: dict[str, str], name: str, tmp_path: Path) -> None:
    """The ids that clients send with the Responses API are alike."""

    async def run() -> None:
        async with Fake("openai_responses", [step_answer(0)]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client = ScriptedClient("openai_responses", running.url, http, ids)
                client.say("<system-reminder>Be <b>brief</b>.</system-reminder>\n<env>Linux</env> Why is it slow?")
                await client.turn("result")
                assert session_names(running) == [name]
                assert read_session_title(running.data, name) == "Why is it slow?"

    asyncio.run(run())


def test_a_name_in_the_path_or_header_chooses_the_session(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(9))) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client = ScriptedClient("anthropic", running.url + "/s/work/anthropic", http)
                client.say("start")
                await client.turn("result")
                other = ScriptedClient("anthropic", running.url, http, {"x-tidegate-session": "play"})
                other.say("start")
                await other.turn("result")
                assert session_names(running) == ["play", "work"]
        assert fake.seen[0].path == "/v1/messages"
        assert not any(name.startswith("x-tidegate") for seen in fake.seen for name in seen.headers)

    asyncio.run(run())


@pytest.mark.parametrize(("limit", "open_at_the_end"), [({}, 70), ({"open_sessions": 3}, 3)])
def test_as_many_sessions_are_open_as_is_set_and_closed_ones_are_found_again(
    limit: dict[str, Any], open_at_the_end: int, tmp_path: Path
) -> None:
    async def run() -> None:
        async with Fake("openai_chat", ["Noted."] * 80) as fake, open_http() as http:
            async with run_gateway(tmp_path, upstream_of(fake), **limit) as running:
                clients = [
                    ScriptedClient("openai_chat", f"{running.url}/s/number{number}", http) for number in range(70)
                ]
                for client in clients:
                    client.say("start")
                    await client.turn()
                assert f"tidegate_open_sessions {open_at_the_end}" in (await http.get(running.url + "/metrics")).text
                for client in clients[:10]:
                    client.say("once more")
                    await client.turn()
                assert len(session_names(running)) == 70
                assert all("once more" in read_texts(running, f"number{number}") for number in range(10))
                assert f"tidegate_open_sessions {open_at_the_end}" in (await http.get(running.url + "/metrics")).text

    def read_texts(running: Running, name: str) -> list[str]:
        payloads = [event.payload for event in running.data.open_log(name).read()]
        return [text_of(each.message) for each in payloads if isinstance(each, MessageAdded)]

    asyncio.run(run())


def test_sub_agents_of_a_named_session_have_sessions_of_their_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", map(step_answer, range(9))) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                for ids in ({}, {"x-claude-code-agent-id": "a1"}):
                    own = {"x-claude-code-session-id": "1234", **ids}
                    client = ScriptedClient("anthropic", running.url + "/s/work", http, own)
                    client.say("start")
                    await client.turn("result")
                title = ScriptedClient("anthropic", running.url + "/s/work", http, {"x-claude-code-session-id": "1234"})
                title.say("Write a title.")
                assert (await title.ask(tools=[])).status_code == 200
                assert session_names(running) == ["work", "work.a1"]
                assert not any(isinstance(each, BranchStarted) for each in events_of(running, "work"))

    asyncio.run(run())


def test_tools_in_the_input_are_part_of_a_managed_conversation(tmp_path: Path) -> None:
    """Codex sends its tools so with its newest models."""

    async def run() -> None:
        async with Fake("openai_responses", map(step_answer, range(9))) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client = ScriptedClient("openai_responses", running.url, http, {"session-id": "7"})
                tools = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
                client.messages.append({"type": "additional_tools", "role": "developer", "tools": tools})
                client.say("start")
                await client.ask(tools=[])
                assert session_names(running) == ["codex-7"]
                assert running.data.open_conversation("codex-7").view.tools[0].name == "functions"
        assert fake.seen[0].raw == client.sent[0]

    asyncio.run(run())


def test_the_login_of_a_subscription_goes_to_its_own_address(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("openai_responses", map(step_answer, range(9))) as fake, Fake("openai_responses") as other:
            upstreams = upstream_of(other), Upstream("openai-chatgpt", "openai", fake.host + "/backend-api/codex")
            async with run_gateway(tmp_path, *upstreams) as running, open_http() as http:
                login = {"chatgpt-account-id": "of-nobody", "session-id": "7"}
                client = ScriptedClient("openai_responses", running.url, http, login)
                client.say("start")
                await client.ask()
                assert session_names(running) == ["codex-7"]
        assert [seen.path for seen in fake.seen] == ["/backend-api/codex/responses"]
        assert other.seen == []

    asyncio.run(run())


@each_wire
def test_an_answer_that_breaks_off_is_kept_and_the_next_request_is_valid(wire: str, tmp_path: Path) -> None:
    async def run() -> None:
        spoken = ScriptedAnswer(text="These words arrived before the end. " * 30)
        async with Fake(wire, [CutAt(spoken, 1500), "whole"]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client = ScriptedClient(wire, running.url, http, {"x-tidegate-session": "s"})
                client.say("start")
                path = "/v1beta/models/m:streamGenerateContent?alt=sse" if wire == "gemini" else PATHS[wire]
                more = {} if wire == "gemini" else {"stream": True}
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.ask(path, **more)
                kept = [e.message for e in events_of(running, "s") if isinstance(e, MessageAdded)][-1]
                assert text_of(kept).startswith("These words arrived")
                assert await client.turn() == []
                assert fake.refused == []

    asyncio.run(run())


@each_wire
def test_what_comes_before_the_last_event_does_not_wait_for_the_log(wire: str, tmp_path: Path) -> None:
    """The upstream sends its answer in one piece. The log gets it when the client has its text, not its end."""
    begun, waited = threading.Event(), list[bool]()

    def watch(event: Event) -> None:
        what = event.payload
        if isinstance(what, MessageAdded) and what.message.role == "assistant":
            waited.append(begun.wait(DEADLINE))

    async def run() -> None:
        answer = encode_sse(wire, encode_response_frames(wire, ScriptedAnswer(text="The first words. " * 20)))
        async with Fake(wire, [Bytes(answer)]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), make_watcher=lambda _: watch) as running:
                async with open_http() as http:
                    client = ScriptedClient(wire, running.url, http)
                    client.say("start")
                    path = "/v1beta/models/m:streamGenerateContent?alt=sse" if wire == "gemini" else PATHS[wire]
                    body = client.body() | ({} if wire == "gemini" else {"stream": True})
                    pieces: list[bytes] = []
                    async with http.stream("POST", running.url + path, json=body, headers=client.headers) as response:
                        async for piece in response.aiter_raw():
                            pieces.append(piece)
                            if b"first words" in b"".join(pieces):
                                begun.set()
                    assert b"".join(pieces) == answer

    asyncio.run(run())
    assert waited == [True]


def test_a_client_that_hangs_up_cancels_the_upstream(tmp_path: Path) -> None:
    async def run() -> None:
        spoken = ScriptedAnswer(text="These words arrived before the end. " * 30)
        async with Fake("anthropic", [Hang(spoken, 1500)]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                body = ScriptedClient("anthropic", running.url, http)
                body.say("start")
                raw = json.dumps(body.body() | {"stream": True}).encode()
                own = {**body.headers, "x-tidegate-session": "s"}
                async with http.stream("POST", running.url + "/v1/messages", content=raw, headers=own) as response:
                    async for _ in response.aiter_raw():
                        break
                await until(lambda: fake.hung_up)

                def is_kept() -> bool:
                    said = [e.message for e in events_of(running, "s") if isinstance(e, MessageAdded)]
                    return "These words" in text_of(said[-1])

                await until(is_kept)

    asyncio.run(run())


def test_a_compressed_request_is_read_and_forwarded_as_it_is(tmp_path: Path) -> None:
    import zstandard

    async def run() -> None:
        async with Fake("openai_responses", ["one"]) as fake:
            async with run_gateway(tmp_path, upstream_of(fake)) as running, open_http() as http:
                client = ScriptedClient("openai_responses", running.url, http)
                client.say("start")
                raw = json.dumps(client.body()).encode()
                packer = zlib.compressobj(wbits=31)
                for encoding, packed in (
                    ("zstd", zstandard.ZstdCompressor().compress(raw)),
                    ("gzip", packer.compress(raw) + packer.flush()),
                ):
                    headers = {**client.headers, "content-encoding": encoding, "x-tidegate-session": encoding}
                    await http.post(running.url + "/v1/responses", content=packed, headers=headers)
                    assert fake.seen[-1].raw == packed
                    assert fake.seen[-1].headers["content-encoding"] == encoding
                    said = [e.message for e in events_of(running, encoding) if isinstance(e, MessageAdded)]
                    assert text_of(said[0]) == "start"

    asyncio.run(run())


def test_a_websocket_upgrade_is_refused_so_that_the_client_uses_http(tmp_path: Path) -> None:
    async def run() -> None:
        async with run_gateway(tmp_path) as running, open_http() as http:
            headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
            response = await http.get(running.url + "/v1/responses", headers=headers)
            assert response.status_code == 426

    asyncio.run(run())


def test_the_output_is_lowered_when_it_would_not_fit(tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake("anthropic", ["one"]) as fake:
            async with (
                run_gateway(tmp_path, upstream_of(fake), window=20_000) as running,
                open_http() as http,
            ):
                client = ScriptedClient("anthropic", running.url, http)
                client.model, client.thinking = "claude-opus-4-5", {"type": "enabled", "budget_tokens": 10_000}
                client.say("start")
                await client.turn()
        sent = json.loads(fake.seen[0].raw)
        assert sent["max_tokens"] < 20_000 < client.body()["max_tokens"]
        assert sent["thinking"]["budget_tokens"] < sent["max_tokens"]
        assert fake.refused == []

    asyncio.run(run())


@pytest.mark.seed("PIC-03")
def test_a_session_follows_the_policy_that_is_set(tmp_path: Path) -> None:
    async def run() -> set[str]:
        steps: list[Any] = [*map(step_answer, range(30)), "done"]
        async with Fake("openai_chat", steps) as fake:
            async with run_gateway(tmp_path, upstream_of(fake), policy="picoclaw", window=12_000) as running:
                async with open_http() as http:
                    client = ScriptedClient("openai_chat", running.url, http)
                    client.say("start")
                    for number in range(20):
                        await client.turn(f"a line of result {number}\n" * 200)
                (name,) = [each.name for each in running.data.store.sessions()]
                events = list(running.data.open_log(name).read())
        return {event.payload.stage for event in events if isinstance(event.payload, ViewEdited)}

    assert asyncio.run(run()) == {"summarize"}
