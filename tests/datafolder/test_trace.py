"""The trace: every event of the log in it once, whatever happens to the file, and never in the way of the session."""

import json
import os
from pathlib import Path

import pytest

from tests.datafolder.traced import full_disk, made_again, seqs, session_on, traced, turn
from tidegate import KeptLog, MemoryLog
from tidegate.core.events import Event, NoteAdded
from tidegate.core.text.secrets import SecretMask
from tidegate.datafolder.trace.writer import Trace, read_trace
from tidegate.store.memory import MemoryStore

TIME = 1_000_000.25


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "traces" / "s.jsonl"


def test_it_has_every_event_of_the_log_once_and_in_order(path: Path) -> None:
    session = traced(path)
    assert seqs(path) == list(range(1, session.log.head + 1))
    events = [line.event for line in read_trace(path)]
    for name in ("message", "tool_call", "tool_result", "model_usage", "context_compaction", "note"):
        assert name in events
    assert {line.name for line in read_trace(path) if line.event == "tool_result"} == {"read"}
    assert made_again(session.log, path) == path.read_bytes()  # type: ignore[arg-type] # it is a MemoryLog


def test_only_its_owner_can_read_it(path: Path) -> None:
    old = os.umask(0o022)
    try:
        traced(path, 1)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_wherever_it_was_torn_it_is_mended_to_the_same_bytes(path: Path) -> None:
    """Cut at every byte of its last events, among them one of two lines, and with rubbish behind the cut."""
    session = traced(path, 2)
    whole = path.read_bytes()
    turn_of_lines = sum(map(len, whole.splitlines(keepends=True)[-8:]))
    assert b'"more":true' in whole[-turn_of_lines:]
    for cut in range(turn_of_lines):
        for rubbish in (b"", b"\0" * 40, b'{"time":1,"seq":') if cut % 7 == 0 else (b"",):
            path.write_bytes(whole[: len(whole) - cut] + rubbish)
            trace = Trace(path, "s")
            trace.append_missing(session.log)
            assert path.read_bytes() == whole, cut


def test_rubbish_of_any_size_is_cut_off(path: Path) -> None:
    session = traced(path, 2)
    whole = path.read_bytes()
    for rubbish in (b"\0" * 300_000, b"no line\n" * 40_000):
        for good in (whole, b""):
            path.write_bytes(good + rubbish)
            trace = Trace(path, "s")
            trace.append_missing(session.log)
            assert path.read_bytes() == whole


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not count what is read")
def test_opening_reads_the_end_only(path: Path) -> None:
    def read_so_far() -> int:
        return int(Path("/proc/self/io").read_text().partition("rchar: ")[2].partition("\n")[0])

    session = traced(path, 2)
    lines = path.read_bytes()
    head, _, last = lines[:-1].rpartition(b"\n")
    path.write_bytes(head + b"\n" + b" " * 5_000_000 + b"\n" + last + b"\n")
    trace = Trace(path, "s")
    before = read_so_far()
    trace.append_missing(session.log)
    assert read_so_far() - before < 50_000
    assert path.stat().st_size > 5_000_000


def test_a_full_disk_does_not_end_the_session_and_the_gap_is_filled(path: Path) -> None:
    session = session_on(MemoryLog())
    trace = Trace(path, "s")
    trace.append_missing(session.log)
    session.history.observe(trace)
    turn(session, 0)
    for room in (0, 1, 150, 700):
        size = path.stat().st_size
        with full_disk(size + room):
            turn(session, room)
            assert "was not written" in trace.last_error
            assert size <= path.stat().st_size <= size + room
            assert path.read_bytes().endswith(b"\n"), "no half line stays"
        turn(session, room + 1)
        assert trace.last_error == ""
        assert path.read_bytes() == made_again(session.log, path)  # type: ignore[arg-type] # it is a MemoryLog
    with full_disk(path.stat().st_size):
        turn(session, 9)
    trace = Trace(path, "s")
    trace.append_missing(session.log)
    assert path.read_bytes() == made_again(session.log, path)  # type: ignore[arg-type] # it is a MemoryLog


def test_what_is_no_file_is_a_failure_and_no_more(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    for name in ("fifo", "folder", "link", "victim/below"):
        session = session_on(MemoryLog())
        trace = Trace(tmp_path / name, "s")
        trace.append_missing(session.log)
        session.history.observe(trace)
        turn(session, 1)
        assert trace.last_error, name
    assert (tmp_path / "victim").read_text() == "untouched"


def test_a_name_that_json_cannot_hold_ends_nothing(path: Path) -> None:
    log = MemoryLog()
    log.append(Event(1, TIME, NoteAdded("clear")))
    Trace(path, "s\ud800").append_missing(log)
    assert [line.session for line in read_trace(path)] == ["s?"]


def test_a_damaged_log_is_a_failure_and_no_more(path: Path) -> None:
    store = MemoryStore()
    session = session_on(KeptLog(store, "s"))
    session.history.add_note("thought", "one")
    head = store.append("s", session.log.head, [b"\xc1 no event"])
    trace = Trace(path, "s")
    trace.append_missing(KeptLog(store, "s"))
    assert f"Record {head} of session 's'" in trace.last_error


def test_keys_are_masked_in_the_file(path: Path) -> None:
    """A configured value and a well-known shape, in what a tool is called with and in a note."""
    session = session_on(MemoryLog())
    shape = "ghp_" + "a1B2c3D4e5F6" * 3
    trace = Trace(path, "s", SecretMask(["correct-horse-battery"]))
    trace.append_missing(session.log)
    session.history.observe(trace)
    arguments = json.dumps({"password": "correct-horse-battery", "token": shape})
    call = {"id": "c1", "type": "function", "function": {"name": "login", "arguments": arguments}}
    session.add({"role": "assistant", "content": None, "tool_calls": [call]})
    session.history.add_note("error", f"login with correct-horse-battery or {shape} failed")
    written = path.read_text()
    assert written.count("[masked]") == 4
    assert "horse" not in written
    assert shape[4:] not in written
    assert shape in "".join(str(event.payload) for event in session.log.read()), "the log is not touched"
