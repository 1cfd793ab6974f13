"""One session, several clients: another client continues it, and the first one returns."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.fake.server import Fake, Json, strings
from tests.gateway.scripted_client import ScriptedClient, headers_of, recall_call, step_answer
from tests.gateway.serving import open_http, run_gateway, upstream_of
from tests.scale import FACTOR
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.settings import ContinuedSession
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

SESSION = "pump"
RULE = "Never push to main."
TASK = "Find out why the pump stops."
SETTINGS = "You are powered by a model of Claude Code. The tool Agent starts agents."


class ClientKind(NamedTuple):
    """A client: its dialect, the ids that it sends, and what it puts before, into and after the user's first message.

    The forms are those that the real clients had (tests/clients); the words are not theirs.
    """

    client: str
    title: str
    wire: str
    ids: dict[str, str]
    preface: Sequence[Json] = ()
    reminder: str = ""
    after: Sequence[Json] = ()

    def speak(self, client: ScriptedClient, said: str) -> None:
        is_first = len(client.messages) == len(self.preface)
        client.say(said)
        if is_first and self.reminder:
            client.messages[-1]["content"] = [{"type": "text", "text": text} for text in (self.reminder, said)]
        client.messages += self.after if is_first else ()


CLIENTS = {
    each.client: each
    for each in (
        ClientKind(
            "claude",
            "Claude Code",
            "anthropic",
            {"x-claude-code-session-id": "c1"},
            reminder="<system-reminder>\nThe branch is main.\n</system-reminder>",
            after=({"role": "system", "content": SETTINGS},),
        ),
        ClientKind(
            "codex",
            "Codex",
            "openai_responses",
            {"session-id": "x1", "thread-id": "x1"},
            (
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox: off."}]},
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "<environment_context>\n</environment_context>"}],
                },
            ),
        ),
        ClientKind(
            "opencode",
            "OpenCode",
            "openai_chat",
            {"x-session-id": "o1"},
            ({"role": "system", "content": "You are OpenCode."},),
        ),
        ClientKind(
            "gemini",
            "Gemini CLI",
            "gemini",
            {},
            (
                {"role": "user", "parts": [{"text": "This is the Gemini CLI. The folder is /work."}]},
                {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
            ),
        ),
        ClientKind("pi", "pi", "openai_chat", {}, ({"role": "system", "content": "You are pi."},)),
        ClientKind("qwen", "Qwen Code", "openai_chat", {}, ({"role": "system", "content": "You are Qwen Code."},)),
    )
}


CODEX_AGENT = headers_of("openai_chat", **{"session-id": "x1", "thread-id": "agent7"})
"""The headers of a sub-agent of Codex."""


def make_client(kind: ClientKind) -> ScriptedClient:
    client = ScriptedClient(kind.wire, "", None, kind.ids)  # type: ignore[arg-type]
    client.messages += kind.preface
    return client


class Run(NamedTuple):
    """The bodies that the provider got in a run, and the lines and notices of its gateway."""

    bodies: list[str]
    notices: list[str]


def run_client(
    folder: Path,
    kind: ClientKind,
    client: ScriptedClient,
    said: str,
    steps: int = 2,
    *,
    answers: Sequence[ScriptedAnswer] = (),
    window: int = 60_000,
    words: int = 200,
    facts: Mapping[int, str] | None = None,
    before: Callable[[httpx.AsyncClient, str], Awaitable[None]] | None = None,
    between: Callable[[ScriptedClient], None] | None = None,
    **more: Any,
) -> Run:
    """One run of `tidegate wrap CLIENT --session`: the user says something, the client makes some steps.

    `facts` are in the results of steps. `before` the first request others are made, and after the last step something
    happens `between` it and one more request.
    """

    async def run() -> Run:
        with DataFolder(folder) as data:
            source = data.store.head(SESSION)
        continued = ContinuedSession(SESSION, kind.client, kind.title, source, **more)
        done = len([each for each in client.messages if each.get("role") in ("assistant", "model")])
        script = [*answers, *(step_answer(done + number) for number in range(steps - 1)), ScriptedAnswer(text="Done.")]
        script = [*([ScriptedAnswer(text="A title.")] * 2 if before else []), *script]
        script += [ScriptedAnswer(text="Else.")] if between else []
        async with Fake(kind.wire, script, alternate=False) as fake:
            settings: dict[str, Any] = {"recall": True, "window": window, "continued": continued}
            async with run_gateway(folder, upstream_of(fake), **settings) as running:
                async with open_http() as http:
                    client.url, client.http = f"{running.url}/s/{SESSION}", http
                    kind.speak(client, said)
                    if before is not None:
                        await before(http, client.url)
                    for number in range(steps):
                        fact = (facts or {}).get(number, "")
                        result = f"result {done + number} of {kind.client} {fact} " + "words of a tool " * words
                        await client.turn(result)
                    if between is not None:
                        await asyncio.to_thread(between, client)
                        await client.turn()
                notices = [*running.gateway.notices]
                assert not [line for line in running.lines if "defect" in line], running.lines
        assert fake.refused == []
        return Run([seen.raw.decode() for seen in fake.seen], notices)

    return asyncio.run(run())


def test_another_client_continues_a_session(tmp_path: Path) -> None:
    claude, codex = make_client(CLIENTS["claude"]), make_client(CLIENTS["codex"])
    first = run_client(tmp_path, CLIENTS["claude"], claude, f"{TASK} {RULE}", 3)
    assert "earlier-work" not in first.bodies[0]
    second = run_client(tmp_path, CLIENTS["codex"], codex, "Go on.", 3)
    for body in second.bodies:
        items = json.loads(body)["input"]
        texts = [item["content"][0]["text"] for item in items if item.get("type") == "message"][:4]
        place = next(place for place, text in enumerate(texts) if "earlier-work" in text)
        record = texts[place]
        assert TASK in record
        assert RULE in record
        assert "Called the tool `step` of Claude Code" in record
        assert "result 1 of claude" in record
        assert place <= texts.index("Go on.") if "Go on." in texts else True
    assert len({body[body.index("earlier-work") : body.rindex("earlier-work")] for body in second.bodies}) == 1
    assert second.notices == [f"the session {SESSION} goes on in Codex"]


ALWAYS = list(pairwise([*CLIENTS, next(iter(CLIENTS))]))
"""Each client once as the first and once as the second."""


def list_pairs() -> list[tuple[str, str]]:
    """Those that always run, and one for each other pair of dialects. All 30 with `TIDEGATE_CASES=2`."""
    dialects = {(CLIENTS[one].wire, CLIENTS[other].wire) for one, other in ALWAYS}
    pairs = [*ALWAYS]
    for one, other in permutations(CLIENTS, 2):
        both = (CLIENTS[one].wire, CLIENTS[other].wire)
        if (one, other) not in ALWAYS and (both not in dialects or FACTOR > 1):
            dialects.add(both)
            pairs.append((one, other))
    return pairs


each_pair = pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(*pair, id="-".join(pair), marks=() if pair in ALWAYS else pytest.mark.exhaustive)
        for pair in list_pairs()
    ],
)
FACT = "the seal of valve 9f3a is worn"


def look_up(words: str, number: int) -> ScriptedAnswer:
    return ScriptedAnswer(text="I look it up.", calls=(recall_call(number, words),))


def read_record(body: str) -> str:
    """The record of earlier work in a request, as the model reads it; empty if there is none."""
    texts = strings(json.loads(body))
    return "\n".join(text for text in texts if text.startswith("[") and "\n<earlier-work-" in text)


@each_pair
def test_a_session_goes_there_and_back(one: str, other: str, tmp_path: Path) -> None:
    """Every request is valid, fits, and has the rule and the task; recall reads both parts; the first one returns."""
    first, second = make_client(CLIENTS[one]), make_client(CLIENTS[other])
    begun = run_client(tmp_path, CLIENTS[one], first, f"{TASK} {RULE}", 3, facts={1: FACT})
    assert not any(read_record(body) for body in begun.bodies)

    answers = [look_up("valve 9f3a", 1), *(step_answer(number) for number in range(20))]
    gone_on = run_client(tmp_path, CLIENTS[other], second, "Replace the seal.", 21, answers=answers, window=12_000)
    records = {read_record(body) for body in gone_on.bodies}
    assert len(records) == 1, "the same bytes in each request"
    (record,) = records
    assert TASK in record
    assert RULE in record
    assert f"Called the tool `step` of {CLIENTS[one].title}" in record
    assert SETTINGS not in record
    assert FACT in gone_on.bodies[1], "recall reads what the first client did"
    assert "cleared" in gone_on.bodies[-1] or "left" in gone_on.bodies[-1] or "recall m" in gone_on.bodies[-1]

    back = run_client(tmp_path, CLIENTS[one], first, "And now?", 2, answers=[look_up("Replace seal", 2)])
    record = read_record(back.bodies[0])
    assert "Replace the seal." in record
    assert f"of {CLIENTS[other].title}" in record
    assert TASK not in record, "it is not sent twice"
    assert back.bodies[0].count(TASK) == 1
    assert {read_record(body) for body in back.bodies} == {record}
    assert back.bodies[1].count("Replace the seal.") > back.bodies[0].count("Replace the seal."), "recall reads it"
    again = run_client(tmp_path, CLIENTS[one], first, "Go on.", 2)
    assert {read_record(body) for body in again.bodies} == {record}, "nothing happened in between"


def test_a_list_that_begins_anew_has_no_record(tmp_path: Path) -> None:
    """After the client's own `/clear`, in the same run: the user wants it gone."""
    claude, codex = make_client(CLIENTS["claude"]), make_client(CLIENTS["codex"])
    run_client(tmp_path, CLIENTS["claude"], claude, f"{TASK} {RULE}", 2)

    def clear(client: ScriptedClient) -> None:
        client.messages = [*CLIENTS["codex"].preface]
        client.say("Something else.")

    run = run_client(tmp_path, CLIENTS["codex"], codex, "Go on.", 2, between=clear)
    assert RULE in read_record(run.bodies[0])
    assert "Something else." in run.bodies[-1]
    assert not read_record(run.bodies[-1])
    assert RULE not in run.bodies[-1]


def test_a_newest_message_that_is_edited_keeps_the_record(tmp_path: Path) -> None:
    """A client that returned, and goes back before its last message."""
    claude, codex = make_client(CLIENTS["claude"]), make_client(CLIENTS["codex"])
    run_client(tmp_path, CLIENTS["claude"], claude, f"{TASK} {RULE}", 2)
    run_client(tmp_path, CLIENTS["codex"], codex, "Paint it.", 1)
    size = len(claude.messages)

    def go_back(client: ScriptedClient) -> None:
        del client.messages[size:]
        client.say("No, this.")

    run = run_client(tmp_path, CLIENTS["claude"], claude, "And this.", 1, between=go_back)
    assert ["Paint it." in read_record(body) for body in run.bodies] == [True, True]
    assert "And this." not in run.bodies[-1]


def test_requests_beside_the_conversation_get_no_record(tmp_path: Path) -> None:
    """A request for a title has no tools, and a sub-agent has a session of its own."""
    claude, opencode = make_client(CLIENTS["claude"]), make_client(CLIENTS["opencode"])
    run_client(tmp_path, CLIENTS["claude"], claude, f"{TASK} {RULE}", 2)
    title = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Write a title for: Go on."}]}

    async def ask_title(http: httpx.AsyncClient, url: str) -> None:
        for headers in (opencode.headers, CODEX_AGENT):
            tools = {"tools": opencode.body()["tools"]} if headers is CODEX_AGENT else {}
            answer = await http.post(url + "/v1/chat/completions", json=title | tools, headers=headers)
            assert answer.status_code == 200

    run = run_client(tmp_path, CLIENTS["opencode"], opencode, "Go on.", 2, before=ask_title)
    assert [bool(read_record(body)) for body in run.bodies] == [False, False, True, True]


def test_both_clients_at_once_are_a_fork(tmp_path: Path) -> None:
    """Neither sees what the other does, and it is said."""
    claude, codex = make_client(CLIENTS["claude"]), make_client(CLIENTS["codex"])

    def start_codex(client: ScriptedClient) -> None:
        runs.append(run_client(tmp_path, CLIENTS["codex"], codex, "Paint it.", 2))
        client.say("And?")

    runs: list[Run] = []
    run = run_client(tmp_path, CLIENTS["claude"], claude, f"{TASK} {RULE}", 2, between=start_codex)
    assert TASK in read_record(runs[0].bodies[0])
    assert not any(read_record(body) or "Paint it." in body for body in run.bodies)
    assert any("Codex works in the session pump, too: it is a fork" in notice for notice in run.notices)
    back = run_client(tmp_path, CLIENTS["codex"], codex, "What else?", 1)
    newest = read_record(back.bodies[0]).rpartition("[While this conversation rested")[2]
    assert "And?" in newest, "a new run sees what the other did last"
    assert TASK not in newest
