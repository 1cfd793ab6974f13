"""The command as people run it: in a process of its own, with its output and its exit status."""

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import called
from tests.cli.slow_policy import SlowPolicy
from tidegate import __version__
from tidegate.proof.session_generator import generate_session

TIDEGATE = [sys.executable, "-m", "tidegate.cli.main"]
QUICK = ["--policy", "default", "--window", "8000", "--jobs", "1"]


def tidegate(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*TIDEGATE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def record(path: Path, turns: int, seed: int = 0) -> list[dict[str, object]]:
    said = list(generate_session(turns, seed))
    text = "".join(json.dumps(line) + "\n" for line in [{"meta": {"id": path.stem}}, *said])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return said


def test_version() -> None:
    done = tidegate("--version")
    assert done.returncode == 0
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith(f"tidegate {__version__} with Python 3.")
    assert second.startswith("extras installed: ")
    assert "chat" in second


@pytest.mark.parametrize("command", ["replay", "seeds", "demo", "policies"])
def test_help_has_examples(command: str) -> None:
    done = called(command, "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert f"  tidegate {command}" in done.stdout


def test_replay_prints_a_table(tmp_path: Path) -> None:
    record(tmp_path / "one.jsonl", 6)
    record(tmp_path / "two.jsonl.gz", 4, seed=1)
    done = called("replay", tmp_path, *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("policy default, window 8,000, tokens by exact")
    assert [line.split()[0] for line in lines if line[:3] in ("one", "two", "tot")] == ["one", "two", "total"]
    assert "edits by stage: " in done.stdout


@pytest.mark.exhaustive
def test_replay_prints_json_and_processes_make_no_difference(tmp_path: Path) -> None:
    said = [record(tmp_path / f"{name}.jsonl", turns, turns) for name, turns in (("a", 3), ("b", 5), ("c", 2))]
    command = ("replay", tmp_path, "--window", 8000, "--count", "chars/4", "--wire", "all", "--json", "--jobs")
    alone, together = called(*command, 1), called(*command, 2)
    assert alone.returncode == together.returncode == 0
    assert alone.stdout == together.stdout
    report = json.loads(alone.stdout)
    calls = [sum(message["role"] == "assistant" for message in messages) for messages in said]
    assert [session["name"] for session in report["sessions"]] == ["a", "b", "c"]
    assert [session["calls"] for session in report["sessions"]] == calls
    whole = report["total"]
    assert whole["calls"] == sum(calls)
    assert whole["over"] == 0
    assert whole["invalid"] == 0
    assert whole["invalid_by_wire"] == whole["exceptions"] == {}
    assert 0 < whole["tokens"]["mean"] <= whole["tokens"]["max"] <= 8000
    assert 0 < whole["prefix"] < 1
    assert whole["edits"]
    made = json.dumps(said).count('"type": "function"')
    assert 0 <= whole["rereads"] <= whole["tool_calls"] == made
    assert report["wires"] == ["openai_chat", "openai_responses", "anthropic", "gemini"]


def test_requests_are_written_one_line_an_assistant_message(tmp_path: Path) -> None:
    said = record(tmp_path / "one.jsonl.gz", 5)
    out = tmp_path / "made" / "out"
    assert called("replay", tmp_path / "one.jsonl.gz", *QUICK, "--requests", out).returncode == 0
    assert [path.name for path in out.iterdir()] == ["one.jsonl"]
    rows = [json.loads(line) for line in (out / "one.jsonl").read_text().splitlines()]
    assert [row["at"] for row in rows] == [
        place for place, message in enumerate(said) if message["role"] == "assistant"
    ]
    assert all(set(row) == {"at", "messages"} and row["messages"][-1]["role"] in ("user", "tool") for row in rows)
    assert rows[0]["messages"] == said[:2]


def test_a_refused_request_is_written_as_an_error(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(
        '{"role": "system", "content": "%s"}\n{"role": "user", "content": "a"}\n{"role": "assistant", "content": "b"}\n'
        % ("word " * 9000)
    )
    done = called("replay", tmp_path, *QUICK, "--requests", tmp_path / "out")
    assert done.returncode == 0
    assert "refused: 1 call of 1 session" in done.stdout
    assert "against a window of 8,000" in done.stdout
    (row,) = map(json.loads, (tmp_path / "out" / "one.jsonl").read_text().splitlines())
    assert row["at"] == 2
    assert "8,000" in row["error"]


def test_a_setting_changes_what_happens(tmp_path: Path) -> None:
    record(tmp_path / "one.jsonl", 6)
    plain = called("replay", tmp_path, *QUICK, "--json")
    changed = called("replay", tmp_path, *QUICK, "--json", "--set", "fidelity=0.05", "--set", "tail=0.3")
    assert plain.returncode == changed.returncode == 0
    assert json.loads(plain.stdout)["total"]["tokens"] != json.loads(changed.stdout)["total"]["tokens"]


def test_a_policy_file_is_taken(tmp_path: Path) -> None:
    record(tmp_path / "one.jsonl", 2)
    policy = tmp_path / "mine.yaml"
    policy.write_text(called("policies", "default").stdout)
    ours = called("replay", tmp_path, "--policy", policy, "--window", 8000, "--json", "--jobs", 1)
    theirs = called("replay", tmp_path, *QUICK, "--json")
    assert json.loads(ours.stdout)["total"] == json.loads(theirs.stdout)["total"]


def test_an_unreadable_file_is_skipped_and_the_others_are_not(tmp_path: Path) -> None:
    record(tmp_path / "good.jsonl", 2)
    (tmp_path / "bad.jsonl").write_text('{"role": "user", "content": "x"}\n{"role": \n')
    done = called("replay", tmp_path, tmp_path / "absent.jsonl", *QUICK, "--json", "--requests", tmp_path / "out")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert [session["name"] for session in report["sessions"]] == ["good"]
    assert [Path(skipped["path"]).name for skipped in report["skipped"]] == ["bad.jsonl", "absent.jsonl"]
    assert "bad.jsonl, line 2: broken JSON" in done.stderr
    assert "remedy: " in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good.jsonl"], "no half-written file"


BAD_FILES = {
    "broken JSON": (b'{"role": "user", "content": "x"\n', "line 1: broken JSON"),
    "unknown role": (b'{"role": "oracle", "content": "x"}\n', "unknown role 'oracle'"),
    "unknown part": (b'{"role": "user", "content": [{"type": "hologram"}]}\n', "line 1"),
    "result without id": (b'{"role": "tool", "content": "x"}\n', "line 1"),
    "binary bytes": (bytes(range(256)) * 40, "line 1: binary data"),
    "an array": (b'[{"role": "user", "content": "x"}]', "an array"),
    "empty": (b"", "is empty"),
}


def test_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    for name, (content, cause) in BAD_FILES.items():
        path.write_bytes(content)
        done = called("replay", path, *QUICK)
        assert done.returncode == 1, name
        assert cause in done.stderr, name
        assert "bad.jsonl" in done.stderr, name
        assert "\nremedy: " in done.stderr, name


BAD_CALLS = {
    "negative window": (["--window", "-5"], "'-5' is not a number of tokens"),
    "no number": (["--window", "many"], "'many' is not a number of tokens"),
    "no window": ([], "required: --window"),
    "unknown policy": (["--window", "8000", "--policy", "cowagnet"], "cowagent"),
    "unknown setting": (["--window", "8000", "--set", "fidelty=3"], "fidelity"),
    "setting of a wrong type": (["--window", "8000", "--set", "fidelity=many"], "fidelity"),
    "no setting": (["--window", "8000", "--set", "fidelity"], "NAME=VALUE"),
    "unknown count": (["--window", "8000", "--count", "words"], "exact"),
    "unknown wire": (["--window", "8000", "--wire", "telex"], "openai_chat"),
    "requests into a file": (["--window", "8000", "--requests", __file__], "cannot be made"),
    "unknown option": (["--window", "8000", "--fast"], "--fast"),
}


def test_bad_call(tmp_path: Path) -> None:
    record(tmp_path / "one.jsonl", 1)
    for name, (arguments, hint) in BAD_CALLS.items():
        done = called("replay", tmp_path, *arguments)
        assert (done.returncode, done.stdout) == (2, ""), name
        assert hint in done.stderr, name
        assert "\nremedy: " in done.stderr, name


def test_a_wrong_policy_key_names_line_and_nearest(tmp_path: Path) -> None:
    record(tmp_path / "one.jsonl", 1)
    (tmp_path / "mine.yaml").write_text("name: mine\nmomnets:\n  before_call: []\n")
    done = called("replay", tmp_path, "--policy", tmp_path / "mine.yaml", "--window", 8000)
    assert done.returncode == 2
    assert "mine.yaml:2" in done.stderr
    assert '"moments"' in done.stderr


def test_a_folder_without_recordings(tmp_path: Path) -> None:
    done = called("replay", tmp_path, *QUICK)
    assert done.returncode == 2
    assert "no recording in this folder" in done.stderr


def test_two_recordings_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    record(tmp_path / "one.jsonl", 1)
    record(tmp_path / "one.jsonl.gz", 1)
    done = called("replay", tmp_path, *QUICK, "--requests", tmp_path / "out")
    assert done.returncode == 2
    assert "the same file of requests" in done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    command = subprocess.Popen([*TIDEGATE, "policies", "default"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    errors = command.stderr.read()
    command.stderr.close()
    command.wait()
    assert b"Traceback" not in errors
    assert b"BrokenPipe" not in errors


@pytest.mark.exhaustive
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_ctrl_c_keeps_what_was_done(jobs: int, tmp_path: Path) -> None:
    """An interrupt ends the work: what is done is in the report, and no file is half-written."""
    slow, recordings, out = SlowPolicy(tmp_path / "policy"), tmp_path / "recordings", tmp_path / "out"
    recordings.mkdir()
    record(recordings / "0-short.jsonl", 1)
    slow.write_session(recordings / "1-long.jsonl")
    record(recordings / "2-short.jsonl", 1)
    process = slow.start(
        "replay", recordings, "--policy", slow.path, "--window", 64000, "--json", "--jobs", jobs, "--requests", out
    )
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate()
    assert process.returncode == 130, errors
    report = json.loads(printed)
    assert report["interrupted"] is True
    assert "stopped after" in errors
    assert "Traceback" not in errors
    names = {session["name"] for session in report["sessions"]}
    # With one process files are taken in order; with several the longest comes first.
    assert names == {"0-short"} if jobs == 1 else names <= {"0-short", "2-short"}
    assert {path.name for path in out.iterdir()} == {f"{name}.jsonl" for name in names}


def test_a_bar_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    record(tmp_path / "one.jsonl", 2)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*TIDEGATE, "replay", str(tmp_path), *QUICK], stdout=subprocess.PIPE, stderr=theirs, check=True
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "replaying" in shown
    assert b"replaying" not in done.stdout


def test_policies_lists_and_prints() -> None:
    listed = called("policies").stdout
    for name in ("default", "cowagent", "jutul", "picoclaw", "digitorn", "ai"):
        assert f"\n{name} " in f"\n{listed}"
    assert called("policies", "picoclaw").stdout.startswith("name: picoclaw")
    wrong = called("policies", "pico")
    assert wrong.returncode == 2
    assert "picoclaw" in wrong.stderr


def test_without_a_command_it_prints_help_and_chat_comes_first() -> None:
    done = called()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: tidegate")
    assert done.stdout.index("  chat ") < min(done.stdout.index(f"  {name} ") for name in ("run", "demo", "sessions"))


@pytest.mark.parametrize("more", [[], ["--model"]])
def test_a_demo_in_a_tiny_window_is_refused(more: list[str]) -> None:
    done = called("demo", "--window", 10, *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--window 200 or more" in done.stderr
