"""The commands on kept sessions, on a folder made by another; where it matters in a process of their own."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.calling import called
from tidegate.core.events import MessageAdded
from tidegate.core.messages import text_of
from tidegate.datafolder.data_folder import DataFolder
from tidegate.proof.session_generator import generate_session

TIDEGATE = [sys.executable, "-m", "tidegate.cli.main"]
COMMANDS = "sessions show misses trace recall memory undo redo clear fork forget export import doctor view".split()
SECRET = "hunter2-Zq81-xyzzy-0042"


class Kept(NamedTuple):
    folder: Path
    requests: dict[int, bytes]


def tidegate(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*TIDEGATE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert "Traceback" not in done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A session of some turns that was compacted on its way, with a note in memory."""
    folder = tmp_path_factory.mktemp("made") / "data"
    data = DataFolder(folder)
    requests: dict[int, bytes] = {}
    with data.open("build-fix", "gpt-4o", window=2500, system="You fix builds.") as session:
        for message in generate_session(4, 5):
            if message["role"] == "assistant":
                request = session.prepare()
                requests[session.log.head] = request.to_bytes()
                session.record({"prompt_tokens": request.tokens, "completion_tokens": 20})
            session.add(message)
        session.add({"role": "user", "content": f"The password of the staging box is {SECRET}, remember it."})
    data.notes.add_entry("The port of the gateway is 8443.", source="build-fix", title="Ports")
    data.close()
    return Kept(folder, requests)


@pytest.fixture
def kept(made: Kept, tmp_path: Path) -> Kept:
    shutil.copytree(made.folder, tmp_path / "data")
    return Kept(tmp_path / "data", made.requests)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    done = called(command, "--help")
    assert done.returncode == 0
    assert f"  tidegate {command}" in done.stdout.split("examples:")[1]
    assert "TIDEGATE_DATA" in done.stdout


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = called("sessions", "--data", tmp_path / "none")
    assert done.returncode == 2
    assert "There is no data folder" in done.stderr
    assert "--data" in done.stderr
    assert not (tmp_path / "none").exists()


def test_the_environment_names_the_folder(kept: Kept) -> None:
    done = tidegate("sessions", env={**os.environ, "TIDEGATE_DATA": str(kept.folder)})
    assert done.returncode == 0
    assert "build-fix" in done.stdout


def test_sessions_lists_length_size_and_use(kept: Kept) -> None:
    lines = called("sessions", "--data", kept.folder).stdout.splitlines()
    assert lines[0].split() == ["session", "records", "on", "disk", "last", "used", "begun", "title"]
    assert lines[1].startswith("build-fix")
    assert "kB" in lines[1]
    assert "(open)" not in lines[1]
    (row,) = json.loads(called("sessions", "--data", kept.folder, "--json").stdout)
    assert row["name"] == "build-fix"
    assert row["head"] > 30
    assert row["in_use"] is False
    assert row["title"]
    assert row["title"][:59] + "…" in lines[1]
    data = DataFolder(kept.folder)
    with data.open("build-fix", "gpt-4o"):
        assert called("sessions", "--data", kept.folder).stdout.splitlines()[1].endswith("(open)")
    data.close()


def test_show_counts_one_of_each_in_the_singular(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    with data.open("short", "gpt-4o") as session:
        session.add({"role": "user", "content": "Hello."})
        session.record({"prompt_tokens": session.prepare().tokens, "completion_tokens": 2})
        session.add({"role": "assistant", "content": "Hello."})
    data.close()
    lines = called("show", "short", "--data", tmp_path).stdout.splitlines()
    assert re.search(r"The view has 2 messages, \d+ tokens and 1 turn\.", lines[0])
    assert re.fullmatch(r"1 request was answered, made at record \d+\. --at shows it\.", lines[-1])


def test_show_renders_past_requests_exactly(kept: Kept) -> None:
    outline = called("show", "build-fix", "--data", kept.folder).stdout
    lines = outline.splitlines()
    assert re.fullmatch(
        r"The session has \d+ records\. The view has \d+ messages, [\d,]+ tokens and \d+ turns?\.", lines[0]
    )
    assert lines[1].startswith("The model is gpt-4o; requests are in the format ")
    edits = [line for line in lines if " -> " in line]
    assert edits
    for line in edits:
        assert re.fullmatch(r" +\d+  \w+: [\d,]+ -> [\d,]+ tokens\. [A-Z\d].*\.", line), line
    assert re.fullmatch(r"\d+ requests were answered, made at records [\d, .]+\. --at shows one of them\.", lines[-1])
    for head in list(kept.requests)[::10]:
        shown = called("show", "build-fix", "--at", head, "--data", kept.folder)
        assert shown.returncode == 0
        assert json.loads(shown.stdout) == json.loads(kept.requests[head])
    assert called("show", "build-fix", "--at", 10**6, "--data", kept.folder).returncode == 2
    missing = called("show", "other", "--data", kept.folder)
    assert missing.returncode == 1
    assert "There is no session 'other'" in missing.stderr


def test_trace_prints_and_adds_up(kept: Kept) -> None:
    lines = [json.loads(line) for line in called("trace", "build-fix", "--data", kept.folder).stdout.splitlines()]
    used = [line for line in lines if line["event"] == "model_usage"]
    assert len(used) == len(kept.requests)
    assert any(line["event"] == "context_compaction" for line in lines)
    total = json.loads(called("trace", "build-fix", "--usage", "--data", kept.folder).stdout)
    assert total["gpt-4o"]["input_tokens"] == sum(line["input_tokens"] for line in used)


def test_a_part_of_a_list(kept: Kept) -> None:
    data = ("--data", kept.folder)
    assert called("sessions", "FIX", *data).stdout.splitlines()[1].startswith("build-fix")
    assert called("sessions", "other", *data).stdout == "No session has such a name.\n"
    lines = called("trace", "build-fix", *data).stdout.splitlines()
    assert called("trace", "build-fix", "2", *data).stdout.splitlines() == lines[-2:]
    assert called("trace", "build-fix", "0", *data).returncode == 2


def test_recall_by_id_range_and_words(kept: Kept) -> None:
    data = DataFolder(kept.folder)
    (said,) = islice(data.open_log("build-fix").read(3), 1)
    data.close()
    assert isinstance(said.payload, MessageAdded)
    by_id = called("recall", "build-fix", "m3", "--data", kept.folder)
    assert by_id.returncode == 0
    assert text_of(said.payload.message)[:80] in by_id.stdout
    both = called("recall", "build-fix", "m3..m8", "--chars", 3000, "--data", kept.folder)
    assert both.returncode == 0
    assert "m3" in both.stdout
    assert len(both.stdout) < 4000
    words = called("recall", "build-fix", "staging", "box", "--data", kept.folder)
    assert SECRET in words.stdout
    assert called("recall", "build-fix", "m999999", "--data", kept.folder).returncode != 0


def test_memory_search_finds_notes_and_logs(kept: Kept) -> None:
    found = called("memory", "search", "gateway", "port", "--notes", "--data", kept.folder)
    assert found.returncode == 0
    assert "8443" in found.stdout
    in_log = called("memory", "search", "staging box", "--session", "build-fix", "--data", kept.folder)
    assert in_log.returncode == 0
    assert in_log.stdout.startswith("build-fix m")
    nothing = called("memory", "search", "zebraquux", "--data", kept.folder)
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (1, "", "Nothing found.\n")
    words_last = called("memory", "search", "--notes", "gateway", "port", "--data", kept.folder)
    assert words_last.stdout == called("memory", "gateway", "port", "--notes", "--data", kept.folder).stdout != ""
    assert "needs words" in called("memory", "search", "--data", kept.folder).stderr
    (note,) = called("memory", "list", "--data", kept.folder).stdout.split()
    assert "8443" in called("memory", "show", note, "--data", kept.folder).stdout


def test_undo_and_redo_report_sizes_on_one_scale(tmp_path: Path) -> None:
    """The counts of the model, not an estimate: one step begins with the size that the step before ended with."""
    with DataFolder(tmp_path, secrets=[]) as data, data.open("long", "gpt-4o", window=6_000) as session:
        for number in range(14):
            session.add({"role": "user", "content": f"Question {number}. " + "words to read " * 250})
            session.add({"role": "assistant", "content": "Done " + "and said " * 50})
            session.prepare()

    def read_sizes(*commands: str) -> list[tuple[str, str]]:
        lines = [called(command, "long", "--data", tmp_path).stdout for command in commands]
        return [(line.split()[-4], line.split()[-2]) for line in lines]

    undone = read_sizes("undo", "undo")
    assert undone[0][1] == undone[1][0]
    assert read_sizes("redo", "redo") == [(after, before) for before, after in reversed(undone)]


def test_undo_redo_clear_and_fork(kept: Kept) -> None:
    data = ("--data", kept.folder)
    assert "is undone" in called("undo", "build-fix", *data).stdout
    assert "is applied again" in called("redo", "build-fix", *data).stdout
    assert called("redo", "build-fix", *data).returncode == 1
    assert (
        "other begins as build-fix was at record 20" in called("fork", "build-fix", "other", "--at", 20, *data).stdout
    )
    assert "already" in called("fork", "build-fix", "other", *data).stderr
    assert "The log keeps them" in called("clear", "build-fix", *data).stdout
    folder = DataFolder(kept.folder)
    with folder.open("build-fix", "gpt-4o", window=3000) as session:
        assert session.view.message_count == 0
    assert folder.store.head("other") == 20
    folder.close()


def test_clear_keeps_pinned_rules(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data, data.open("work", "gpt-4o", window=6_000) as session:
        session.add({"role": "user", "content": "Why is it slow?"})
        session.rules.add("Answer in French.")
    assert called("clear", "work", "--data", tmp_path).stdout.endswith("Pinned again: 1.\n")
    with DataFolder(tmp_path, secrets=[]) as data, data.open("work", "gpt-4o", window=6_000) as session:
        assert [line.text for line in session.rules] == ["Answer in French."]
        assert "Why is it slow?" not in str(session.render_request().messages)


def test_fork_takes_the_id_of_a_message(kept: Kept) -> None:
    done = called("fork", "build-fix", "other", "--at", "m7", "--data", kept.folder)
    assert done.stdout == "other begins as build-fix was at record 7.\n"


def test_export_and_import(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "copy.tidegate"
    assert "records" in called("export", "build-fix", file, "--data", kept.folder).stdout
    again = called("export", "build-fix", file, "--data", kept.folder)
    assert (again.returncode, "exists already" in again.stderr, "--force" in again.stderr) == (2, True, True)
    assert called("export", "build-fix", file, "--force", "--data", kept.folder).returncode == 0
    assert file.stat().st_mode & 0o777 == 0o600
    taken = called("import", file, "--data", kept.folder)
    assert taken.returncode == 2
    assert "already" in taken.stderr
    fresh = tmp_path / "fresh"
    assert called("import", file, "--as", "again", "--data", fresh).stdout.startswith("again: ")
    assert "again" in called("sessions", "--data", fresh).stdout
    file.write_bytes(file.read_bytes()[:-40])
    assert called("import", file, "--as", "third", "--data", fresh).returncode == 2


def test_forget_asks_first_and_takes_words_from_standard_input(kept: Kept) -> None:
    data = ("--data", kept.folder)
    unsure = tidegate("forget", "build-fix", *data, stdin=subprocess.DEVNULL)
    assert unsure.returncode == 2
    assert "--yes" in unsure.stderr
    done = tidegate("forget", "build-fix", "--words", *data, input=SECRET + "\n")
    assert done.returncode == 0
    assert SECRET not in done.stdout
    assert SECRET not in called("recall", "build-fix", "staging", "box", *data).stdout
    assert called("forget", "build-fix", "m3", "--yes", *data).returncode == 0
    assert "[forgotten]" in called("recall", "build-fix", "m3", *data).stdout
    assert called("forget", "build-fix", "--yes", *data).returncode == 0
    assert "No sessions" in called("sessions", *data).stdout


def test_forget_says_in_a_dry_run_what_it_would_remove(kept: Kept) -> None:
    data = ("--data", kept.folder)

    def read_all() -> dict[Path, bytes]:
        return {
            path: path.read_bytes() for path in kept.folder.rglob("*") if path.is_file() and "db-" not in path.suffix
        }

    recalled = called("recall", "build-fix", "m3", *data).stdout
    before = read_all()
    shown = tidegate("forget", "build-fix", "--words", "--dry-run", *data, input=SECRET + "\n").stdout
    assert SECRET not in shown
    one = called("forget", "build-fix", "m3", "--dry-run", *data).stdout
    assert "forgotten: m3" in one
    assert "build-fix: " in called("forget", "build-fix", "--dry-run", *data).stdout
    assert (
        "0 sessions not used for 1 day would be removed"
        in called("forget", "--unused-for", 1, "--dry-run", *data).stdout
    )
    assert read_all() == before
    assert called("recall", "build-fix", "m3", *data).stdout == recalled
    done = tidegate("forget", "build-fix", "--words", *data, input=SECRET + "\n").stdout
    count = next(line for line in shown.splitlines() if line.startswith("build-fix: "))
    assert count.split(",")[:3] == done.splitlines()[0].split(",")[:3]


def test_the_trace_of_a_session_without_a_file_is_derived_and_not_kept(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as folder, folder.open("s", "gpt-4o", live_trace=False) as session:
        session.add({"role": "user", "content": "hello"})
    lines = called("trace", "s", "--data", tmp_path).stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]
    assert not (tmp_path / "traces/s.jsonl").exists()


def test_doctor_finds_and_mends(kept: Kept) -> None:
    data = ("--data", kept.folder)
    assert called("doctor", *data).returncode == 0
    (view,) = (kept.folder / "views").iterdir()
    view.write_bytes(b"nonsense")
    found = called("doctor", *data)
    assert found.returncode == 1
    assert "snapshot does not fit" in found.stdout
    assert "mended" in called("doctor", "--repair", *data).stdout
    assert called("doctor", "--repair", *data).returncode == 0
    assert isinstance(json.loads(called("doctor", "--json", *data).stdout), list)


def test_a_mistyped_session_is_suggested(kept: Kept) -> None:
    done = called("show", "biuld-fix", "--data", kept.folder)
    assert done.returncode == 1
    assert "Did you mean 'build-fix'?" in done.stderr
    assert "Did you mean" not in called("show", "zzz", "--data", kept.folder).stderr
