"""Recordings as sessions of ours: whole, with their times, said where they come from, and read back as they were."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import run_command
from tests.lab.importers import bench_samples as bench
from tests.lab.importers import log_samples as logs
from tests.lab.importers import samples
from tests.lab.importers.test_formats import plain
from tidegate.core.errors import BadInput
from tidegate.core.events import MessageAdded, NoteAdded
from tidegate.datafolder.archive.transfer import export_session
from tidegate.datafolder.data_folder import DataFolder
from tidegate.lab.importers import read_recordings
from tidegate.lab.importers.session_import import import_recording


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataFolder]:
    folder = DataFolder(tmp_path / "data")
    yield folder
    folder.close()


def written(tmp_path: Path, content: bytes, name: str = "some.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_a_recording_becomes_a_session(tmp_path: Path, data: DataFolder) -> None:
    recording = read_recordings(written(tmp_path, samples.CODEX))[0]
    assert import_recording(data, recording) == ("cx-1", 7, False)
    events = list(data.open_log("cx-1").read())
    said = [event for event in events if isinstance(event.payload, MessageAdded)]
    assert len(said) == 5  # the two system messages are the fixed part
    assert recording.times[4:6] == [1777629607.0, 1777629606.0]  # the second call was answered first
    assert [event.time % 60 for event in said] == [2, 4, 7, 7, 9]
    notes = {event.payload.topic: event.payload.text for event in events if isinstance(event.payload, NoteAdded)}
    assert notes["system"] == "Be Codex.\n\none\ntwo"
    origin = json.loads(notes["imported"])
    assert (origin["format"], origin["agent"], origin["session"]) == ("codex", "Codex CLI", "cx-1")
    assert origin["mended"] == recording.repairs
    assert origin["path"].endswith("some.jsonl")


def test_the_same_is_not_taken_in_twice_and_names_are_told_apart(tmp_path: Path, data: DataFolder) -> None:
    first = read_recordings(written(tmp_path, samples.CODEX))[0]
    other = read_recordings(written(tmp_path, samples.CODEX.replace(b"Done.", b"Well done.")))[0]
    assert [import_recording(data, each) for each in (first, other, first, other)] == [
        ("cx-1", 7, False),
        ("cx-1-2", 7, False),
        ("cx-1", 7, True),
        ("cx-1-2", 7, True),
    ]


BACK = {
    "claude-code": samples.CLAUDE_CODE,
    "chat": logs.NORMAL,
    "tau2": bench.TAU2,
    "gemini": samples.GEMINI,
    "requests": logs.OPENAI_LOG,
}


@pytest.mark.parametrize("content", BACK.values(), ids=BACK.keys())
def test_a_session_is_read_back_as_it_was(tmp_path: Path, data: DataFolder, content: bytes) -> None:
    """From the data folder, and from an export of it."""
    recording = read_recordings(written(tmp_path, content))[0]
    import_recording(data, recording, "kept")
    export_session(data, "kept", tmp_path / "kept.tidegate")
    for place in (tmp_path / "data", tmp_path / "kept.tidegate"):
        back = read_recordings(place)[0]
        assert plain(back.messages) == plain(recording.messages)
        assert (back.name, back.origin.format, back.origin.model) == ("kept", "tidegate", recording.origin.model)
        assert back.tools == recording.tools


def test_the_session_can_go_on(tmp_path: Path, data: DataFolder) -> None:
    import_recording(data, read_recordings(written(tmp_path, logs.NORMAL))[0], "kept")
    with data.open("kept", "gpt-4o") as session:
        session.add({"role": "user", "content": "and now?"})
        body = session.prepare().body
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]


def test_an_export_cut_anywhere_is_refused(tmp_path: Path, data: DataFolder) -> None:
    import_recording(data, read_recordings(written(tmp_path, logs.NORMAL))[0], "kept")
    export_session(data, "kept", tmp_path / "kept.tidegate")
    whole = (tmp_path / "kept.tidegate").read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        with pytest.raises(BadInput, match="cut"):
            read_recordings(written(tmp_path, whole[:at], "cut"))


# --- the command --------------------------------------------------------------------------------------------------


def command(*words: Any) -> int:
    return run_command("import", *words)


def test_the_command_takes_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = tmp_path / "files"
    files.mkdir()
    written(files, samples.CLAUDE_CODE, "a.jsonl")
    written(files, bench.OPENHANDS, "b.jsonl")
    written(files, b"broken\n", "c.jsonl")
    assert command(files, "--data", tmp_path / "data") == 1
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert lines[0].startswith("cc-1: 7 messages of Claude Code; 1 result before its call: moved after it;")
    assert [line.partition(":")[0] for line in lines[:3]] == ["cc-1", "oh-1", "oh-2"]
    assert lines[3] == "3 sessions from 2 of 3 files"
    assert "c.jsonl, line 1: broken JSON" in told.err
    assert command(files / "a.jsonl", "--data", tmp_path / "data") == 0
    assert capsys.readouterr().out == "cc-1: there already\n"


def test_the_command_keeps_an_export_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = DataFolder(tmp_path / "data")
    import_recording(data, read_recordings(written(tmp_path, logs.NORMAL))[0], "kept")
    export_session(data, "kept", tmp_path / "kept.tidegate")
    records = data.open_log("kept").head
    data.close()
    assert command(tmp_path / "kept.tidegate", "--as", "other", "--trust", "--data", tmp_path / "data") == 0
    assert capsys.readouterr().out == f"other: {records + 1} records\n"


def test_wrong_calls_of_the_command(tmp_path: Path) -> None:
    export_cut = written(tmp_path, b"\x1f\x8bnothing", "cut.tidegate")
    file = written(tmp_path, bench.OPENHANDS)
    for words, why in (
        ([], "nothing to import"),
        ([file, file, export_cut, "--as", "x"], "2 files cannot all be --as x"),
        ([file, "--as", "x"], "holds 2 sessions"),
        ([export_cut], "export is not complete"),
        ([tmp_path / "none"], "not a file"),
    ):
        with pytest.raises(BadInput, match=why):
            command(*words, "--data", tmp_path / "data")
