"""Threat: a key that a user pastes or a tool prints is copied into files that are shared, backed up or looked at later.
Everything that is written beside the log and everything that leaves it is masked, in whatever form the key is there.
"""

import asyncio
import gzip
import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.cli.calling import called
from tests.cli.desk import CONFIG, ForkedDesk
from tests.fake.server import KEY, Fake, Step
from tests.fake.words import refusal
from tests.scale import FACTOR, mark_all_but, spread
from tests.security.planted import CONFIGURED, PLAIN_CONFIGURED, PLANTED, in_log, leaks, seen_in
from tests.tui.stage import on_stage, played
from tidegate import BadInput, DataFolder, Session
from tidegate.agent.config.files import parse_config
from tidegate.agent.runtime import open_agent
from tidegate.core.events import MessageAdded
from tidegate.core.messages import Call, Message, Text, Thinking, calls_of, text_of
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES
from tidegate.datafolder.archive.transfer import export_session, import_session
from tidegate.datafolder.trace.lines import read_trace
from tidegate.integrations.otel_spans import create_span_watcher
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.presets import preset_names
from tidegate.session.recall import recall_message
from tidegate.store.session_log import MAX_INLINE_BYTES

SECRETS = [CONFIGURED, PLAIN_CONFIGURED]
ALL = set(PLANTED)
CUTS = """
moments:
  before_call:
    - {stage: cap_texts, chars: 400, roles: [user]}
"""
WINDOW = 16_000


def turns(text: str, number: int) -> Iterator[dict[str, object]]:
    """A turn with a text in what the user says, in a call's arguments, in a long failure and in the answer."""
    lines = "line of output\n" * (900 if number % 2 else 20)
    function = {"name": "read", "arguments": json.dumps({"path": text, "deep": [{"x": text}]})}
    yield {"role": "user", "content": f"please look, {text}\nthanks {number}"}
    yield {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }
    yield {"role": "tool", "tool_call_id": f"c{number}", "content": f"Error: {lines[:400]}{text}\n{lines}"}
    yield {"role": "assistant", "content": f"I found {text}"}


def talk(session: Session) -> None:
    """Every planted secret, in several windows of talk: it is cut, cleared, summarized and spilled on the way."""
    for number, planted in enumerate(PLANTED.values()):
        for message in turns(planted.text, number):
            session.add(message)
            if message["role"] != "assistant":
                session.prepare()
    session.history.add_note("error", f"it failed with {PLANTED['slack'].text}")


def opened(data: DataFolder, name: str = "s", policy: str = "default") -> Session:
    system = f"Use the deploy key.\n{PLANTED['github'].text}"
    return data.open(name, "gpt-4o", policy=policy, window=WINDOW, count="estimate", system=system)


class Worked(NamedTuple):
    """A folder in which a session with every secret was led under a policy, and the last request of that session."""

    data: DataFolder
    policy: str
    request: bytes


WRITING_PRESETS = ("default", "ai", "cowagent", "jutul")
"""Together they have every stage that writes what was said elsewhere. The others only leave messages out."""


@pytest.fixture(scope="module", params=mark_all_but(preset_names() if FACTOR > 1 else WRITING_PRESETS, "default"))
def worked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    data = DataFolder(tmp_path_factory.mktemp("data"), secrets=SECRETS)
    with opened(data, policy=request.param) as session:
        session.set_tools([{"type": "function", "function": {"name": "read", "description": PLANTED["jwt"].text}}])
        talk(session)
        last = session.prepare().to_bytes()
    assert data.open_search().search("thanks"), "the index is made when it is first asked"
    data.close_search()
    yield Worked(data, request.param, last)
    data.close()


def test_no_file_beside_the_log_holds_a_secret(worked: Worked) -> None:
    assert leaks(worked.data.root, in_log) == {}
    made = {path.relative_to(worked.data.root).parts[0] for path in worked.data.root.rglob("*")}
    assert made >= {"traces", "views", "search.db"}


def test_the_log_holds_all_that_was_said_and_recall_gives_it(worked: Worked) -> None:
    log = worked.data.open_log("s")
    said = {event.seq: msgspec.json.encode(event.payload) for event in log.read()}
    assert seen_in(b"".join(said.values())) == ALL
    pem = json.dumps(PLANTED["pem"].text)[1:-1].encode()
    part = recall_message(log, f"m{min(seq for seq, text in said.items() if pem in text)}").parts[0]
    assert isinstance(part, Text)
    assert PLANTED["pem"].text in part.text


def test_a_session_with_secrets_goes_on_with_the_same_request(worked: Worked) -> None:
    """The snapshot has left the secrets out; what it lacks comes from the log, byte for byte."""
    with worked.data.open(
        "s", "gpt-4o", policy=worked.policy, window=WINDOW, count="estimate", restore=False
    ) as session:
        assert worked.data.snapshots.saved_seq("s") == session.log.head, "it was opened from its snapshot"
        assert session.render_request().to_bytes() == worked.request


def test_an_export_and_a_page_hold_no_secret(worked: Worked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, file = worked.data, tmp_path / "s.tidegate"
    monkeypatch.setenv("HUSH_API_KEY", CONFIGURED)
    monkeypatch.setenv("QUIET_TOKEN", PLAIN_CONFIGURED)
    assert export_session(data, "s", file).masked_count > len(PLANTED)
    assert called("view", "s", "--out", tmp_path / "s.html", "--data", data.root).returncode == 0
    assert leaks(tmp_path) == {}
    other = DataFolder(tmp_path / "other")
    import_session(other, file)
    said = [event.payload.message for event in other.open_log("s").read() if isinstance(event.payload, MessageAdded)]
    calls = [call for message in said for call in calls_of(message)]
    assert calls
    assert all(isinstance(json.loads(call.arguments), dict) for call in calls)
    with other.open("s", "gpt-4o", policy=worked.policy, window=WINDOW, count="estimate") as session:
        assert seen_in(session.prepare().to_bytes()) == set()
    other.close()


@pytest.mark.exhaustive
def test_a_trace_is_whole_lines_of_json(worked: Worked) -> None:
    path = worked.data.trace_path("s")
    lines = list(read_trace(path))
    assert len(lines) == len(path.read_bytes().splitlines())
    assert {line.seq for line in lines} == set(range(1, worked.data.open_log("s").head + 1))


@pytest.mark.parametrize("places", [[0, 36, 81], pytest.param(range(0, 90, 9), marks=pytest.mark.exhaustive)])
def test_a_secret_that_a_cut_has_split_is_masked(places: Sequence[int], tmp_path: Path) -> None:
    """A tool that knows where results are cut can have the rest of a key look like nothing."""
    data = DataFolder(tmp_path, secrets=SECRETS)
    kinds = ["anthropic", "openai project", "jwt", "configured plain"]
    with data.open("s", "gpt-4o", policy="cowagent", window=WINDOW, count="estimate") as session:
        for number, (place, kind) in enumerate(product(places, kinds)):
            text = "x" * 15_000 + f" {PLANTED[kind].text} " + "y" * (9_980 - place)
            session.add({"role": "user", "content": f"turn {number}"})
            session.add(Message("assistant", (Call(f"c{number}", "cat", "{}"),)))
            session.add({"role": "tool", "tool_call_id": f"c{number}", "content": text})
            session.prepare()
            session.add({"role": "assistant", "content": "done"})
    export_session(data, "s", tmp_path.parent / f"{tmp_path.name}.tidegate")
    data.close()
    assert leaks(tmp_path, in_log) == {}
    assert seen_in(gzip.decompress((tmp_path.parent / f"{tmp_path.name}.tidegate").read_bytes())) == set()


SOME_KINDS = ("anthropic", "configured", "pem", "configured plain inside base64")


@pytest.mark.parametrize(
    "kinds",
    [
        SOME_KINDS,
        pytest.param(spread([kind for kind in PLANTED if kind not in SOME_KINDS], 8), marks=pytest.mark.exhaustive),
    ],
    ids=["some", "the others"],
)
def test_a_large_record_with_a_secret_stays_in_the_log(tmp_path: Path, kinds: Sequence[str]) -> None:
    data = DataFolder(tmp_path, secrets=SECRETS)
    text = "plain words of a long result\n" * (MAX_INLINE_BYTES // 50)
    with data.open("s", "gpt-4o", window=1_000_000, count="estimate") as session:
        for kind in kinds:
            (secret,) = session.add({"role": "user", "content": f"{text}{PLANTED[kind].text}\n{text}"})
            assert list((tmp_path / "blobs").rglob("*")) == [], kind
            assert PLANTED[kind].text in text_of(recall_message(data.open_log("s"), secret))
        session.add({"role": "user", "content": text + text})
    assert any(path.is_file() for path in (tmp_path / "blobs").rglob("*")), "a large record without a secret is a blob"
    data.close()
    assert leaks(tmp_path, in_log) == {}


# --- the agent and its commands ---------------------------------------------------------------------------------------


def planted_files(folder: Path) -> list[Call]:
    """A file with each secret in it, and calls that read it, write it into notes and name it."""
    calls: list[Call] = []
    for number, planted in enumerate(PLANTED.values()):
        (folder / f"file{number}.txt").write_text(planted.text)
        noted = {"text": f"Remember: {planted.text}", "about": planted.text}
        named = {"text": planted.text, "note": f"note-{number}.md"}
        for name, arguments in (
            ("read", {"path": f"file{number}.txt"}),
            ("read", {"path": f"none/{planted.text}"}),
            ("memory_write", noted),
            ("memory_write", named),
        ):
            calls.append(Call(f"c{len(calls)}", name, json.dumps(arguments)))
    secret_name = json.dumps({"text": "x", "note": f"{PLANTED['github'].hidden[0]}.md"})
    return [*calls, Call("named", "memory_write", secret_name)]


def test_a_command_leaves_no_secret_in_a_file_or_on_the_screen(tmp_path: Path) -> None:
    """`run` with tools, a subagent and a failure that repeats the key; then everything one can do with the session."""
    desk = ForkedDesk(tmp_path)
    desk.environment |= {"HUSH_API_KEY": CONFIGURED, "QUIET_TOKEN": PLAIN_CONFIGURED}
    desk.configure(CONFIG + "capabilities: {default_policy: auto}\nexecution: {max_steps: 500, state_notes: false}\n")
    texts = "\n".join(planted.text for planted in PLANTED.values())
    calls = planted_files(tmp_path)
    work = [
        ScriptedAnswer(text=f"I look.\n{texts}", calls=tuple(calls[at : at + 100])) for at in range(0, len(calls), 100)
    ]
    task = ScriptedAnswer(calls=(Call("t", "task", json.dumps({"prompt": f"Use this:\n{texts}"})),))
    steps: list[Step] = [
        *work,
        task,
        f"It is\n{texts}",
        f"All done:\n{texts}",
        refusal("openai_chat", 402, f"Bad key {KEY}"),
    ]
    out = tmp_path / "out"
    out.mkdir()

    async def act(server: Fake) -> None:
        ran = [await desk.run("run", f"Please look.\n{texts}", "--session", "s")]
        assert (ran[0].status, ran[0].err) == (0, "")
        ran.append(await desk.run("run", "And again?", "--session", "s"))
        assert ran[1].status == 1
        commands = [["memory", "search", "Remember"], ["trace", "s"], ["sessions"], ["doctor"]]
        commands += [["view", "s", "--out", str(out / "s.html")], ["export", "s", str(out / "s.tidegate")]]
        ran += [await desk.run(*command) for command in commands]
        assert seen_in("\n".join(each.out + each.err for each in ran).encode()) == set()
        assert KEY not in "".join(each.out + each.err for each in ran)

    server = desk.serve(steps, act)
    assert len(server.refused) == 1, "the one that was meant to be"
    assert seen_in(b"\n".join(seen.raw for seen in server.seen)) >= ALL, "the session's own model sees what was said"
    assert leaks(out) == {}
    assert leaks(tmp_path / "data", in_log) == {}
    notes = "".join(path.read_text() for path in (tmp_path / "data" / "memory").glob("*.md"))
    assert notes.count("[masked]") >= len(PLANTED)


def test_the_keys_of_an_agent_are_hidden_whoever_opened_the_folder(tmp_path: Path) -> None:
    """The folder knows the environment of the process; the agent's configuration has a key of its own."""
    config = f"""
agents: [{{id: main, model: {{provider: openai, model: scripted, config: {{api_key: "{PLAIN_CONFIGURED}"}}}}}}]
window: 8000
capabilities: {{default_policy: auto}}
"""
    data = DataFolder(tmp_path / "data")
    note = json.dumps({"text": f"The key is {PLAIN_CONFIGURED}"})

    async def run() -> None:
        provider = ScriptedProvider("openai_chat", [ScriptedAnswer(calls=(Call("c", "memory_write", note),)), "Noted."])
        parsed = parse_config(config, {})
        async with open_agent(
            parsed, data=data, name="s", workspace=tmp_path, provider=provider, environment={}
        ) as agent:
            async for _ in agent.run_turn(f"Remember {PLAIN_CONFIGURED}"):
                pass

    asyncio.run(run())
    data.close()
    assert leaks(tmp_path / "data", in_log) == {}


def test_a_chat_leaves_no_secret_in_a_file_or_on_the_screen(tmp_path: Path) -> None:
    shown = ["anthropic", "github", "jwt", "basic-auth url", ".env line", "pem", "github indented", "named strings"]

    async def play() -> None:
        steps = [f"I see {PLANTED[kind].text}" for kind in shown]
        async with on_stage(tmp_path, steps) as stage:
            for kind in shown:
                await stage.say(f"Look at {PLANTED[kind].text}")
                await stage.sees("I see")
                await stage.idle()
                assert seen_in(stage.text().replace("\n", "").encode()) == set()
            await stage.say(f"/export {tmp_path / 'chat.tidegate'}")
            await stage.until((tmp_path / "chat.tidegate").exists, "the export")

    played(play)
    assert leaks(tmp_path, lambda path: in_log(Path(*path.parts[1:])) if path.parts[0] == "data" else False) == {}


def test_the_lab_leaves_no_secret_in_its_reports_and_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSH_API_KEY", CONFIGURED)
    monkeypatch.setenv("QUIET_TOKEN", PLAIN_CONFIGURED)
    recordings, out = tmp_path / "recordings", tmp_path / "out"
    recordings.mkdir()
    out.mkdir()
    for place in range(2):
        listed = list(PLANTED.values()) * 2
        lines = [message for number, each in enumerate(listed[place:]) for message in turns(each.text, 2 * number)]
        (recordings / f"r{place}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    reports = [f"--json={out / 'a.json'}", f"--csv={out / 'a.csv'}", f"--html={out / 'a.html'}"]
    words = ["--window", "2000", "--policy", "ai", "--jobs", "1", "--cache", out / "cache", *reports]
    ran = called("lab", recordings, *words, "--save", out / "kept.json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert seen_in(ran.stdout.encode()) == set()
    assert leaks(out) == {}
    assert json.loads((out / "a.json").read_text())["sessions"]
    again = called("lab", recordings, *words)
    assert again.stdout == ran.stdout, "figures from the cache are the same"


def test_spans_hold_no_word_of_what_was_said() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    session = Session("gpt-4o", window=WINDOW, wire="openai_chat", count="estimate", system=PLANTED["github"].text)
    session.history.observe(create_span_watcher(provider.get_tracer("test"), session="s"))
    talk(session)
    session.record({"prompt_tokens": 100, "completion_tokens": 4})
    made = exporter.get_finished_spans()
    assert len(made) > len(PLANTED)
    assert seen_in("\n".join(span.to_json() for span in made).encode()) == set()


def test_a_signed_thought_with_a_secret_is_exported_without_its_signature(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data", secrets=SECRETS)
    block = {"type": "thinking", "thinking": f"The key: {PLANTED['aws secret'].text}", "signature": "c2lnbmVk"}
    with data.open("s", "claude-sonnet-4-5", window=WINDOW, count="estimate") as session:
        session.add({"role": "user", "content": "hello"})
        session.add(Message("assistant", (Thinking(block=json.dumps(block)), Text("hi")), origin="anthropic"))
        session.prepare()
    export_session(data, "s", tmp_path / "s.tidegate")
    data.close()
    assert leaks(tmp_path / "data", in_log) == {}
    assert seen_in(gzip.decompress((tmp_path / "s.tidegate").read_bytes())) == set()


def test_a_secret_is_no_name_for_a_session(tmp_path: Path) -> None:
    """Files are named for sessions. One that is imported under such a name gets another."""
    data, name = DataFolder(tmp_path / "data", secrets=SECRETS), f"ghp_{PLANTED['github'].hidden[0]}"
    with data.open("s", "gpt-4o") as session:
        session.add({"role": "user", "content": "hello"})
    for act in (
        lambda: data.open(name, "gpt-4o"),
        lambda: data.fork("s", 2, name),
        lambda: import_session(data, tmp_path / "s.tidegate", name),
    ):
        export_session(data, "s", tmp_path / "s.tidegate")
        with pytest.raises(BadInput, match="contains a secret") as refused:
            act()
        assert name not in str(refused.value)
    recording = tmp_path / f"{name}.jsonl"
    recording.write_text("\n".join(json.dumps(message) for message in turns("nothing", 1)))
    assert called("import", recording, "--data", data.root).returncode == 0
    data.close()
    assert leaks(tmp_path / "data", in_log) == {}


# --- snapshots --------------------------------------------------------------------------------------------------------


def kept_view(data: DataFolder, name: str = "s") -> bytes:
    return (data.root / "views" / name).read_bytes()


def test_a_secret_that_came_after_the_last_snapshot_is_left_out_of_the_next(tmp_path: Path) -> None:
    """A process that was killed has saved no snapshot: the next one finds the secret in the log."""
    secret = PLANTED["anthropic"].text
    data = DataFolder(tmp_path, secrets=[])
    with data.open("s", "gpt-4o", window=WINDOW, count="estimate") as session:
        session.add({"role": "user", "content": "hello"})
    killed = data.open("s", "gpt-4o", window=WINDOW, count="estimate")
    killed.add({"role": "assistant", "content": secret})
    killed.add({"role": "user", "content": "go on"})
    again = DataFolder(tmp_path, secrets=[])
    with again.open("s", "gpt-4o", window=WINDOW, count="estimate") as session:
        expected = session.prepare().to_bytes()
        assert secret.encode() in expected
    assert seen_in(kept_view(again)) == set()
    with DataFolder(tmp_path, secrets=[]).open("s", "gpt-4o", window=WINDOW, count="estimate") as session:
        assert session.render_request().to_bytes() == expected


@pytest.mark.parametrize("where", ["system", "tools", "message", "cut result"])
def test_what_a_snapshot_leaves_out_comes_from_the_log(tmp_path: Path, where: str) -> None:
    secret = PLANTED["aws secret"].text
    data = DataFolder(tmp_path, secrets=[])
    options: dict[str, Any] = {"window": WINDOW, "count": "estimate", "policy": "ai"}
    with data.open("s", "gpt-4o", system=f"Use {secret}" if where == "system" else "Be careful.", **options) as session:
        session.set_tools([_tool(secret if where == "tools" else "reads a file")])
        session.add({"role": "user", "content": secret if where == "message" else "hello"})
        session.add(Message("assistant", (Call("c1", "read", "{}"),)))
        lines = f"{secret}\n" + "line of output\n" * 6_000 if where == "cut result" else "nothing"
        session.add({"role": "tool", "tool_call_id": "c1", "content": lines})
        expected = session.prepare().to_bytes()
    assert secret[-20:].encode() in expected
    assert seen_in(kept_view(data)) == set()
    with data.open("s", "gpt-4o", restore=False, **options) as session:
        assert data.snapshots.saved_seq("s") == session.log.head, "it was opened from its snapshot"
        assert session.render_request().to_bytes() == expected


def _tool(description: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": "read", "description": description}}


def test_rules_with_a_secret_in_them_hold_after_a_snapshot_without_it(tmp_path: Path) -> None:
    """One rule was taken back; the message of the other was cut, so that the view has its rule from elsewhere."""
    rule, removed = (f"Never change {PLANTED[kind].text.strip()} without asking me." for kind in ("github", "openai"))
    options: dict[str, Any] = {
        "window": WINDOW,
        "count": "estimate",
        "policy": parse_policy(CUTS, source="cuts", stages=STAGES),
    }
    data = DataFolder(tmp_path, secrets=[])
    with data.open("s", "gpt-4o", **options) as session:
        session.add({"role": "user", "content": f"{rule}\n\n" + "Here is some talk of mine. " * 300}, typed=True)
        session.add({"role": "assistant", "content": "Yes."})
        session.add({"role": "user", "content": removed}, typed=True)
        session.add({"role": "assistant", "content": "Yes."})
        session.add({"role": "user", "content": "Go on."})
        session.prepare()
        assert session.rules.remove(removed)
        expected = [line.text for line in list(session.rules)]
        assert any(item.rules for item in session.view.items)
        items, gone = session.view.items, session.view.removed_rules
    assert expected == [rule]
    assert gone
    assert seen_in(kept_view(data)) == set()
    with data.open("s", "gpt-4o", restore=False, **options) as session:
        assert data.snapshots.saved_seq("s") == session.log.head, "it was opened from its snapshot"
        assert (session.view.items, session.view.removed_rules) == (items, gone)
        assert [line.text for line in list(session.rules)] == expected
