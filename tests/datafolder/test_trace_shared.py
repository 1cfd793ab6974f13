"""One trace and several that write it, other logs of the same name, and what had to be forgotten."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.datafolder.traced import full_disk, made_again, seqs, session_on, traced, turn
from tidegate import KeptLog, MemoryLog, Session, open_store
from tidegate.core.errors import NotKept
from tidegate.core.events import Event, NoteAdded
from tidegate.datafolder.trace.writer import Trace, read_trace
from tidegate.store.memory import MemoryStore

TIME = 1_000_000.25


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "traces" / "s.jsonl"


def test_two_that_have_it_open_write_each_event_once(path: Path) -> None:
    store = MemoryStore()
    sessions, traces = [], []
    for _ in range(2):
        log = KeptLog(store, "s")
        sessions.append(session_on(log))
        traces.append(Trace(path, "s"))
        traces[-1].append_missing(log)
        sessions[-1].history.observe(traces[-1])
    for number in range(6):
        turn(sessions[number % 2], number)
    sessions[0].history.refresh()
    assert seqs(path) == list(range(1, store.head("s") + 1))
    assert [trace.last_error for trace in traces] == ["", ""]
    names = {line.name for line in read_trace(path) if line.event == "tool_result"}
    assert names == {"read"}


def test_a_result_has_the_name_of_its_newest_call_whoever_wrote_it(path: Path) -> None:
    """An id may come again, for another tool; and who opens the trace last has seen no call at all."""
    store = MemoryStore()

    def opened() -> Session:
        log = KeptLog(store, "s")
        session, trace = session_on(log), Trace(path, "s")
        trace.append_missing(log)
        session.history.observe(trace)
        return session

    def call(session: Session, name: str) -> None:
        calls = [{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}]
        session.add({"role": "assistant", "content": None, "tool_calls": calls})

    def answer(session: Session) -> None:
        session.add({"role": "tool", "tool_call_id": "c", "content": "done"})

    first, second = opened(), opened()
    call(first, "read")
    answer(second)
    call(second, "write")
    answer(first)
    call(first, "list")
    answer(opened())
    assert [line.name for line in read_trace(path) if line.event == "tool_result"] == ["read", "write", "list"]


WRITER = """
import sys
from tidegate import KeptLog, Session, open_store
from tidegate.datafolder.trace.writer import Trace

log = KeptLog(open_store(sys.argv[1]), "s")
session = Session(window=4_000, count="chars/4", log=log)
trace = Trace(sys.argv[2], "s", patience=300.0)
trace.append_missing(log)
session.history.observe(trace)
sys.stdin.readline()
for number in range(30):
    session.add({"role": "user", "content": f"{sys.argv[3]} {number}"})
assert trace.last_error == "", trace.last_error
"""


def test_processes_at_once_write_each_event_once(tmp_path: Path, path: Path) -> None:
    store = tmp_path / "data"
    open_store(store).close()
    command = [sys.executable, "-c", WRITER, str(store), str(path)]
    writers = [subprocess.Popen([*command, name], stdin=subprocess.PIPE, text=True) for name in "ab"]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.close()
    assert [writer.wait(600) for writer in writers] == [0, 0]
    kept = open_store(store)
    assert seqs(path) == list(range(1, kept.head("s") + 1))
    assert len(seqs(path)) >= 60
    assert path.read_bytes() == made_again(KeptLog(kept, "s"), path)
    kept.close()


def test_one_that_hangs_with_the_lock_does_not_hold_up_the_session(path: Path) -> None:
    session = traced(path, 1, patience=0.02)
    trace = Trace(path, "s", patience=0.02)
    trace.append_missing(session.log)
    session.history.observe(trace)
    other = os.open(path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    turn(session, 1)
    assert "held by another process" in trace.last_error
    os.close(other)
    turn(session, 2)
    assert trace.last_error == ""
    assert seqs(path) == list(range(1, session.log.head + 1))


def test_a_log_that_is_behind_the_trace_takes_nothing_from_it(path: Path) -> None:
    session = traced(path)
    assert isinstance(session.log, MemoryLog)
    whole = path.read_bytes()
    for known in (0, 1, 10):
        trace = Trace(path, "s")
        trace.append_missing(MemoryLog(session.log.records()[:known]))
        assert path.read_bytes() == whole
        if known == 0:
            trace(next(session.log.read(1)))
            assert path.read_bytes() == whole


@pytest.mark.parametrize("length", [0, 1, 3, 200])
def test_the_trace_of_another_log_of_this_name_is_begun_anew(path: Path, length: int) -> None:
    """A session was removed and its name taken again; how far the new one has come does not matter."""
    traced(path)
    log = MemoryLog()
    for seq in range(1, length + 1):
        log.append(Event(seq, TIME + seq, NoteAdded("thought", "new")))
    trace = Trace(path, "s")
    trace.append_missing(log)
    log.append(Event(length + 1, TIME, NoteAdded("thought", "newest")))
    trace(Event(length + 1, TIME, NoteAdded("thought", "newest")))
    assert {line.topic for line in read_trace(path)} == {"thought"}
    assert seqs(path) == list(range(1, length + 2))


def test_a_trace_that_was_removed_is_made_again(path: Path) -> None:
    session = traced(path, 1)
    trace = Trace(path, "s")
    trace.append_missing(session.log)
    session.history.observe(trace)
    path.unlink()
    turn(session, 1)
    assert seqs(path) == list(range(1, session.log.head + 1))


def test_what_was_forgotten_leaves_the_trace(path: Path) -> None:
    log, without = MemoryLog(), MemoryLog()
    for seq, text in enumerate(("keep this", "hunter2-hunter2", "and this"), 1):
        log.append(Event(seq, TIME, NoteAdded("thought", text)))
        without.append(Event(seq, TIME, NoteAdded("thought", text.replace("hunter2-hunter2", "[forgotten]"))))
    trace = Trace(path, "s")
    trace.append_missing(log)
    assert b"hunter2" in path.read_bytes()
    trace.rewrite(without)
    assert [line.text for line in read_trace(path)] == ["keep this", "[forgotten]", "and this"]
    with full_disk(5), pytest.raises(NotKept, match="could not be made again"):
        trace.rewrite(log)
    assert path.read_bytes() == b""
