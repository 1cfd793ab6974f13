"""Every format, quirks and all: what an importer gives from a file as the agent would have written it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.lab.importers import bench_samples as bench
from tests.lab.importers import log_samples as logs
from tests.lab.importers import samples
from tests.lab.importers.samples import call, result
from tidegate.lab.importers import read_recordings
from tidegate.lab.importers.recording import Recording


def all_of(tmp_path: Path, content: bytes, name: str = "some file.bin") -> list[Recording]:
    path = tmp_path / name
    path.write_bytes(content)
    return read_recordings(path)


def one(tmp_path: Path, content: bytes, name: str = "some file.bin") -> Recording:
    found = all_of(tmp_path, content, name)
    assert len(found) == 1
    return found[0]


def plain(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Arguments as values: how JSON is spaced says nothing."""
    said = json.loads(json.dumps(messages))
    for message in said:
        for made in message.get("tool_calls", []):
            try:
                made["function"]["arguments"] = json.loads(made["function"]["arguments"])
            except ValueError:
                continue
    return list(said)


SAID: list[tuple[str, bytes, str, list[dict[str, Any]]]] = [
    ("claude-code", samples.CLAUDE_CODE, "cc-1", samples.CLAUDE_CODE_SAID),
    ("codex", samples.CODEX, "cx-1", samples.CODEX_SAID),
    ("opencode", samples.OPENCODE, "ses_1", samples.OPENCODE_SAID),
    ("copilot", samples.COPILOT, "cp-1", samples.COPILOT_SAID),
    ("gemini-cli", samples.GEMINI, "ge-1", samples.GEMINI_SAID),
    ("gemini-cli", samples.GEMINI_LINES, "ge-1", samples.GEMINI_SAID),
    ("pi", samples.PI, "pi-1", samples.PI_SAID),
    ("swe-agent", bench.SWE_AGENT, "some file", bench.SWE_AGENT_SAID),
    ("livemcp", bench.LIVEMCP, "lm-1", [*bench.CHAT[:3], result("c1", bench.MCP), *bench.CHAT[4:]]),
    ("spans", bench.SPANS, "tr-0", bench.SPANS_SAID),
    ("spans", bench.OTLP, "tr-0", bench.CHAT),
    ("spans", bench.SDK_SPANS, "tr-0", bench.CHAT),
    *(("langchain", dump, "some file", bench.CHAT) for dump in logs.LANGCHAIN.values()),
    ("requests", logs.BATCH, "some file", bench.CHAT),
    ("requests", logs.ANTHROPIC_LOG, "some file", bench.CHAT),
    ("requests", logs.RESPONSES_LOG, "some file", bench.CHAT),
    ("chat", logs.NORMAL, "some file", bench.CHAT),
    ("chat", samples.document(bench.CHAT), "some file", bench.CHAT),
]


@pytest.mark.parametrize(("form", "content", "name", "said"), SAID, ids=[f"{n}-{s[0]}" for n, s in enumerate(SAID)])
def test_what_was_said(tmp_path: Path, form: str, content: bytes, name: str, said: list[dict[str, Any]]) -> None:
    found = one(tmp_path, content)
    assert (found.origin.format, found.name) == (form, name)
    assert plain(found.messages) == plain(said)
    assert not found.times or len(found.times) == len(found.messages)


def test_claude_code_says_what_it_did(tmp_path: Path) -> None:
    found = one(tmp_path, samples.CLAUDE_CODE)
    assert found.repairs == [
        "1 result before its call: moved after it",
        "1 call without a result: got a placeholder",
        "left out: attachment lines (1)",
        "left out: lines of subagents (1)",
        "left out: messages of the program itself (1)",
        "left out: lines of an abandoned branch (2)",
    ]
    assert (found.origin.agent, found.origin.model, found.origin.project) == (
        "Claude Code",
        "claude-x",
        "/home/me/project",
    )
    assert [(cut.message_index, cut.summary) for cut in found.compactions] == [(4, ""), (4, "All of it so far.")]
    assert found.times[:2] == [1777629601.0, 1777629602.0]


def test_the_file_of_a_subagent_is_a_session(tmp_path: Path) -> None:
    said = samples.lines(
        samples.cc("user", 1, "look", isSidechain=True),
        samples.cc("assistant", 2, [{"type": "text", "text": "looked"}], "m", isSidechain=True),
    )
    found = one(tmp_path, said, "agent-77.jsonl")
    assert found.name == "agent-77"
    assert [message["content"] for message in found.messages] == ["look", "looked"]


def test_images_stay(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    said = samples.lines(
        samples.cc("user", 1, [{"type": "text", "text": "see"}, image]),
        samples.cc("assistant", 2, [samples.use("t1")], "m"),
        samples.cc("user", 3, [samples.used("t1", [image])]),
    )
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    messages = one(tmp_path, said).messages
    assert messages[0]["content"] == [{"type": "text", "text": "see"}, shown]
    assert messages[2]["content"] == [shown]


def test_codex_says_what_it_did(tmp_path: Path) -> None:
    found = one(tmp_path, samples.CODEX)
    assert found.repairs == ["left out: calls the provider served itself (1)"]
    assert (found.origin.model, found.origin.project) == ("gpt-x", "/p")
    assert [(cut.message_index, cut.summary) for cut in found.compactions] == [(6, "so far")]


def test_codex_of_old(tmp_path: Path) -> None:
    found = one(tmp_path, samples.CODEX_OLD)
    assert (found.origin.format, found.name) == ("codex", "cx-0")
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant", "tool"]


def test_opencode_says_what_it_did(tmp_path: Path) -> None:
    found = one(tmp_path, samples.OPENCODE)
    assert found.repairs == [
        "1 call without a result: got a placeholder",
        "1 result moved after its call",
        "1 call id missing or used again: renamed",
    ]
    assert [(cut.message_index, cut.summary) for cut in found.compactions] == [(6, "All so far.")]


def stored(root: Path) -> Path:
    """The sample as OpenCode kept it before it had a database."""
    for message in samples.OPENCODE_MESSAGES:
        info = message["info"]
        place = root / "message" / "ses_1" / f"{info['id']}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(info))
        for at, part in enumerate(message["parts"]):
            file = root / "part" / info["id"] / f"prt_{at}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(part))
    session = root / "session" / "project" / "ses_1.json"
    session.parent.mkdir(parents=True)
    session.write_text(json.dumps(samples.OPENCODE_INFO))
    return session


def test_opencode_from_its_folder(tmp_path: Path) -> None:
    found = read_recordings(stored(tmp_path))
    assert plain(found[0].messages) == plain(samples.OPENCODE_SAID)


def test_opencode_from_its_database(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE session (id TEXT, directory TEXT, parent_id TEXT)")
        database.execute("CREATE TABLE message (id TEXT, session_id TEXT, data TEXT)")
        database.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
        database.execute("INSERT INTO session VALUES ('ses_1', '/p', NULL), ('ses_2', '/p', 'ses_1')")
        for message in samples.OPENCODE_MESSAGES:
            info = message["info"]
            for session in ("ses_1", "ses_2"):
                database.execute("INSERT INTO message VALUES (?, ?, ?)", (info["id"], session, json.dumps(info)))
            for at, part in enumerate(message["parts"]):
                row = (f"prt_{at}", info["id"], "ses_1", json.dumps(part))
                database.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
        database.commit()
        before = sorted(entry.name for entry in tmp_path.iterdir())
        found = read_recordings(path)  # while OpenCode has it open, with what is not yet in the main file
        assert sorted(entry.name for entry in tmp_path.iterdir()) == before
    assert [each.name for each in found] == ["ses_1"]
    assert plain(found[0].messages) == plain(samples.OPENCODE_SAID)


def test_copilot_gemini_and_pi_say_what_they_left(tmp_path: Path) -> None:
    assert one(tmp_path, samples.COPILOT).repairs == [
        "left out: events of subagents (1)",
        "left out: notifications (1)",
    ]
    assert one(tmp_path, samples.GEMINI_LINES).repairs == [
        "1 call without a result: got a placeholder",
        "left out: messages that were taken back (1)",
        "left out: messages of the program itself (1)",
    ]
    found = one(tmp_path, samples.PI)
    assert found.repairs == [
        "1 empty message left out",
        "left out: lines of other branches (1)",
        "left out: commands kept from the model (1)",
    ]
    assert [(cut.message_index, cut.summary) for cut in found.compactions] == [(3, "All so far.")]


def test_openhands(tmp_path: Path) -> None:
    found = all_of(tmp_path, bench.OPENHANDS)
    assert [each.name for each in found] == ["oh-1", "oh-2"]
    assert plain(found[0].messages) == plain(bench.CHAT)
    assert found[0].repairs == [
        "left out: events of the program itself (2)",
        "left out: errors that answer no call (1)",
        "left out: calls that end the task (1)",
    ]
    assert (found[0].origin.project, len(found[0].tools)) == ("o/r", 1)
    assert [message["content"] for message in found[1].messages] == ["old pairs"]


def test_swe_agent_with_calls(tmp_path: Path) -> None:
    found = one(tmp_path, bench.SWE_AGENT_CALLS)
    assert [message.get("tool_call_id") for message in found.messages] == [None, None, "x", None, "x_2"]
    assert found.repairs == ["1 call id missing or used again: renamed"]


def test_mini_swe_agent(tmp_path: Path) -> None:
    found = one(tmp_path, bench.MINI)
    assert (found.name, found.origin.model) == ("mi-1", "some/model")
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant", "tool"]
    assert found.times == [0.0, 0.0, 1777000000.5, 1777000001.5]


def test_mini_swe_agent_in_text(tmp_path: Path) -> None:
    found = one(tmp_path, bench.MINI_TEXT)
    assert (
        plain(found.messages)[2]["tool_calls"]
        == plain([{"tool_calls": [call("call_1", "bash", command="ls -l")]}])[0]["tool_calls"]
    )
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert "tool_calls" not in found.messages[4]


def test_tau(tmp_path: Path) -> None:
    found = all_of(tmp_path, bench.TAU, "runs.json")
    assert [each.name for each in found] == ["runs-task3-trial1", "runs-task4-trial0"]
    assert [message.get("tool_call_id") for message in found[0].messages] == [None, None, "same", None, "same_2"]


def test_tau2_hides_the_tools_of_the_user(tmp_path: Path) -> None:
    found = one(tmp_path, bench.TAU2)
    assert plain(found.messages) == plain(
        [
            {"role": "system", "content": "<policy>\nBe fair.\n</policy>"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "done"},
            {"role": "assistant", "content": None, "tool_calls": [call("a1", n=1), call("a2", n=2)]},
            result("a1", "one"),
            result("a2", "two"),
        ]
    )
    assert (found.name, found.origin.project, found.origin.model) == ("sim-1", "telecom", "gpt-x")


def test_spans_say_what_they_left(tmp_path: Path) -> None:
    found = one(tmp_path, bench.SPANS)
    assert found.repairs == [
        "1 further result of an answered call left out",
        "left out: answers to the last prompt (1)",
    ]
    assert (found.origin.agent, found.origin.model) == ("CodeAgent", "claude-x")


def test_nothing_in_a_span_is_run(tmp_path: Path) -> None:
    """The printed form of Python objects is read as a literal: an expression in it is not a call that can be read."""
    mark = tmp_path / "mark"
    hostile = bench.SPANS.replace(b"[{'id': 'call_1'", f"[open('{mark}', 'w'), {{'id': 'call_1'".encode())
    assert hostile != bench.SPANS
    found = one(tmp_path, hostile)
    assert not mark.exists()
    assert "left out: calls that could not be read (1)" in found.repairs


def test_a_log_of_requests_is_told_apart_by_session(tmp_path: Path) -> None:
    found = all_of(tmp_path, logs.OPENAI_LOG, "log.jsonl")
    assert [each.name for each in found] == ["log-1", "log-2"]
    assert plain(found[0].messages) == plain(bench.CHAT)
    assert [message["content"] for message in found[1].messages] == ["a side question", "aside"]
    assert found[0].tools == [logs.TOOL]
    assert found[0].times == [0.0, 0.0, 1777629601.0, 0.0, 0.0, 1777629609.0]


def test_a_meta_line_begins_a_session(tmp_path: Path) -> None:
    found = all_of(tmp_path, logs.NORMAL + logs.NORMAL.replace(b'"n1"', b'"n2"'))
    assert [each.name for each in found] == ["n1", "n2"]
    assert [plain(each.messages) for each in found] == [plain(bench.CHAT)] * 2


def test_normal_form_keeps_its_meta(tmp_path: Path) -> None:
    meta = one(tmp_path, logs.NORMAL).origin
    assert (meta.agent, meta.model, meta.project, meta.session) == ("Some", "gpt-x", "o/r", "n1")
