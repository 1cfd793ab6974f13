"""What the doctor finds and mends; run twice, it finds nothing the second time, and it never makes anything worse."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.datafolder.kept import filled, folder, opened, records
from tests.scale import mark_all_but
from tidegate.core.edits import Drop
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited, decode_event, encode_event
from tidegate.core.messages import Call, Message, Text, text_of
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.doctor.examination import Finding, examine_folder
from tidegate.datafolder.removal import BEING_REMOVED
from tidegate.datafolder.retention import set_retention
from tidegate.datafolder.trace.writer import TraceLine, read_trace
from tidegate.store.memory import MemoryStore

BIG = "large " * 100_000


def looked(data: DataFolder, *, repair: bool = False) -> list[Finding]:
    return [finding for finding in examine_folder(data, repair=repair) if finding.severity != "fine"]


def mended(data: DataFolder) -> list[Finding]:
    """What a repair says. Before it a look changes nothing, after it there is nothing more to say."""
    before = contents(data.root)
    only_said = looked(data)
    assert {finding.severity for finding in only_said} <= {"broken", "unfinished"}
    assert contents(data.root) == before
    said = looked(data, repair=True)
    assert {finding.session for finding in said} >= {finding.session for finding in only_said}
    assert looked(data) == []
    after = contents(data.root)
    assert looked(data, repair=True) == []
    assert contents(data.root) == after
    return said


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its mode, but for locks and what SQLite keeps beside a file that is open."""
    paths = (path for path in root.rglob("*") if path.is_file() and path.parent.name != "locks")
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mode)
        for path in paths
        if not path.name.endswith((".lock", "-wal", "-shm"))
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions, one with a large message, a note and an index."""
    place = tmp_path_factory.mktemp("made") / "data"
    data = folder(place)
    filled(data, "a", "b", turns=4)
    with opened(data, "b") as session:
        session.add({"role": "user", "content": BIG})
        session.add({"role": "assistant", "content": "yes"})
    data.notes.add_entry("remember this", source="a")
    data.open_search().search("anything")
    data.close()
    return place


@pytest.fixture
def data(made: Path, tmp_path: Path) -> DataFolder:
    shutil.copytree(made, tmp_path / "data")
    return folder(tmp_path / "data")


def append(data: DataFolder, name: str, record: bytes) -> None:
    """Behind the log's back; the trace is then as far as the log, for that is not what is looked for here."""
    head = data.store.head(name)
    with data.trace_path(name).open("ab") as file:
        line = TraceLine(1.0, head + 1, "note", name)
        file.write(msgspec.json.encode(line) + b"\n")
    data.store.append(name, head, [record])


def blob_of(data: DataFolder) -> Path:
    (found,) = (path for path in (data.root / "blobs").rglob("*") if len(path.name) == 64)
    return found


def test_a_healthy_folder_is_fine(data: DataFolder) -> None:
    told: list[tuple[str, int, int]] = []
    findings = list(examine_folder(data, progress=lambda *step: told.append(step)))
    assert {finding.severity for finding in findings} == {"fine"}
    assert sorted(finding.session for finding in findings) == ["a", "b"]
    assert f"{data.store.head('a'):,} records, all whole." in str(findings[-1 if findings[-1].session == "a" else 0])
    assert [step[1:] for step in told] == [(0, 2), (1, 2), (2, 2)]
    assert mended(data) == []


def damage_chunk(data: DataFolder, name: str) -> int:
    """Flip a byte in the first row of a session. Gives how many records it holds."""
    db = sqlite3.connect(data.root / "tidegate.db")
    (ident,) = db.execute("SELECT id FROM sessions WHERE name = ?", (name,)).fetchone()
    low = ident << 36
    row = db.execute("SELECT id, count, data FROM packed_rows WHERE id > ? AND id < ? LIMIT 1", (low, low + (1 << 36)))
    place, count, content = row.fetchone()
    changed = content[:20] + bytes([content[20] ^ 1]) + content[21:]
    db.execute("UPDATE packed_rows SET data = ? WHERE id = ?", (changed, place))
    db.commit()
    db.close()
    return int(count)


def test_damaged_records_are_set_aside_and_the_session_opens_with_all_others(data: DataFolder) -> None:
    before, other = records(data, "a"), records(data, "b")
    lost = damage_chunk(data, "a")
    assert 1 < lost < len(before)
    (finding,) = mended(data)
    assert (finding.session, finding.severity) == ("a", "lost")
    assert f"Records 1 to {lost}" in finding.what
    assert "damaged/records-a-1-" in finding.remedy
    kept = list((data.root / "damaged").iterdir())
    assert len(kept) == 1
    assert stat.S_IMODE(kept[0].stat().st_mode) == 0o600
    after = records(data, "a")
    assert after[lost:] == before[lost:]
    assert all(
        isinstance(what := decode_event(record).payload, NoteAdded) and what.topic == "lost" for record in after[:lost]
    )
    assert records(data, "b") == other
    assert any(f"{lost} of them lost earlier" in str(finding) for finding in examine_folder(data))
    with opened(data, "a") as session:
        session.prepare()
        session.add({"role": "user", "content": "go on"})
        assert b"go on" in session.prepare().to_bytes()
    assert looked(data) == []


def test_a_damaged_blob_costs_its_own_message_only(data: DataFolder) -> None:
    before = records(data, "b")
    blob = blob_of(data)
    blob.write_bytes(blob.read_bytes()[:-5] + b"wrong")
    findings = mended(data)
    assert [(finding.session, finding.severity) for finding in findings] == [("b", "lost"), ("", "mended")]
    after = records(data, "b")
    assert [seq for seq, (old, new) in enumerate(zip(before, after, strict=True), 1) if old != new] == [len(before) - 1]
    assert not blob.exists()
    assert (data.root / "damaged" / f"blob-{blob.name}").exists()
    with opened(data, "b") as session:
        assert b"yes" in session.prepare().to_bytes()


def test_what_this_version_does_not_know_is_left_as_it_is(data: DataFolder) -> None:
    """A whole record with an event of another kind is of a newer tidegate: nothing is damaged but our knowledge."""
    head = data.store.head("a")
    record = encode_event(Event(head + 1, 1.0, NoteAdded("t"))).replace(b"noted", b"newer")
    append(data, "a", record)
    findings = looked(data, repair=True)
    assert [(finding.session, finding.severity) for finding in findings] == [("a", "broken")]
    assert list(data.store.read("a"))[head] == record
    append(data, "b", b"\xc1 no event at all")
    assert sorted(finding.severity for finding in looked(data, repair=True)) == ["broken", "lost"]
    assert [finding.session for finding in looked(data, repair=True)] == ["a"]


def test_an_event_out_of_place_is_lost(data: DataFolder) -> None:
    head = data.store.head("a")
    append(data, "a", encode_event(Event(head + 7, 1.0, NoteAdded("t"))))
    (finding,) = mended(data)
    assert (finding.session, finding.severity) == ("a", "lost")
    assert f"Record {head + 1} is" in finding.what
    with opened(data, "a") as session:
        session.prepare()


def test_an_unlawful_edit_is_said(data: DataFolder) -> None:
    head = data.store.head("a")
    edited = ViewEdited("drop", "manual", "", "", 0, 0, (Drop(("m999",)),))
    append(data, "a", encode_event(Event(head + 1, 1.0, edited)))
    said = [str(finding) for finding in examine_folder(data, repair=True) if "lawful" in finding.what]
    assert len(said) == 1
    assert f"1 edit at {head + 1} " in said[0]


def test_an_open_call_and_an_orphan_are_no_fault_for_they_are_mended_before_each_request(data: DataFolder) -> None:
    with opened(data, "c") as session:
        session.add({"role": "user", "content": "hi"})
        session.add(Message("assistant", (Text("let me see"), Call("c1", "look"))))
    assert looked(data) == []


def test_a_log_that_cannot_be_folded_is_said_and_the_others_are_looked_at(data: DataFolder) -> None:
    head = data.store.head("a")
    append(data, "a", encode_event(Event(head + 1, 1.0, NoteAdded("tools", "{"))))
    damage_chunk(data, "b")
    findings = looked(data, repair=True)
    assert sorted((finding.session, finding.severity) for finding in findings) == [("a", "broken"), ("b", "lost")]


def test_claims_are_put_in_order(data: DataFolder) -> None:
    claims = data.root / "blobs" / "claims" / "b"
    whole = claims.read_bytes()
    for wrong in (b"", whole.replace(b"0", b"1"), b"rubbish\n"):
        claims.write_bytes(wrong)
        (finding,) = mended(data)
        assert (finding.session, finding.severity) == ("b", "mended")
        assert claims.read_bytes() == whole
    assert blob_of(data).exists()


def test_a_claim_that_a_crash_left_and_its_blob_go(data: DataFolder) -> None:
    assert data.blobs is not None
    data.blobs.put("a", b"never acknowledged " * 20_000)
    (finding,) = looked(data, repair=True)
    assert (finding.session, finding.severity) == ("", "mended")
    assert blob_of(data).exists(), "one is left: the one that is needed"
    assert looked(data) == []


def test_what_is_left_of_a_session_that_is_no_more_is_set_aside(data: DataFolder) -> None:
    """Its log went by no removal of ours: the files may be all there is."""
    data.session_files("b").update("large_tool_results/x", lambda _: "of b")
    blob = blob_of(data)
    content = blob.read_bytes()
    data.store.delete("b")
    findings = mended(data)
    assert {finding.severity for finding in findings} == {"mended"}
    names = {path.name for path in (data.root / "damaged").iterdir()}
    assert names == {"files-b", "trace-b.jsonl", "claims-b", f"blob-{blob.name}"}
    assert (data.root / "damaged" / f"blob-{blob.name}").read_bytes() == content
    assert not (data.root / "views" / "b").exists()
    assert len(records(data, "a")) > 10


def test_a_session_that_is_being_made_is_not_taken_apart(data: DataFolder) -> None:
    data.session_files("new").update("x", lambda _: "first the files")
    with data.locks.exclusive("new"):
        assert looked(data, repair=True) == []
    assert data.session_files("new").read("x") == "first the files"


def test_a_session_in_use_is_looked_at_and_not_touched(data: DataFolder) -> None:
    before = records(data, "b")
    with opened(data, "a"):
        damage_chunk(data, "a")
        damage_chunk(data, "b")
        findings = looked(data, repair=True)
        assert sorted((finding.session, finding.severity) for finding in findings) == [("a", "broken"), ("b", "lost")]
    assert len(records(data, "b")) == len(before)
    assert [finding.session for finding in mended(data)] == ["a"]


def test_a_removal_that_was_cut_short_is_finished(data: DataFolder) -> None:
    set_retention(data, "b", BEING_REMOVED)
    (finding,) = mended(data)
    assert (finding.session, finding.severity) == ("b", "mended")
    assert data.store.head("b") == 0
    assert not [path for path in data.root.rglob("*") if path.name in ("b", "b.jsonl") and path.parent.name != "locks"]
    (data.retention_folder.root / "a.json").write_text("{")
    (data.retention_folder.root / "a.json").chmod(0o600)
    (finding,) = mended(data)
    assert "retention/a.json" in finding.what
    assert data.store.head("a")


DERIVED: dict[str, Callable[[DataFolder], None]] = {
    "snapshot cut": lambda data: os.truncate(data.root / "views" / "a", 100),
    "snapshot of another": lambda data: os.replace(data.root / "views" / "b", data.root / "views" / "a"),
    "trace cut": lambda data: os.truncate(data.trace_path("a"), 1000),
    "trace emptied": lambda data: os.truncate(data.trace_path("a"), 0),
    "trace with a hole": lambda data: _without_line(data.trace_path("a"), 5),
    "trace with a bad line": lambda data: _with_line(data.trace_path("a"), 5, b"\x00\xff rubbish\n"),
    "trace in a wrong order": lambda data: _swapped(data.trace_path("a")),
    "modes": lambda data: _opened_up(data.trace_path("a"), data.root / "tidegate.db"),
    "folder modes": lambda data: _opened_up(data.root / "traces", data.root / "blobs"),
    "index": lambda data: os.truncate(data.root / "search.db", 5_000),
    "half written": lambda data: _half_written(data.root),
}


def _opened_up(*paths: Path) -> None:
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)


def _without_line(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))


def _with_line(path: Path, number: int, line: bytes) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:number], line, *lines[number:]]))


def _swapped(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[8], *lines[4:8], lines[3], *lines[9:]]))


def _half_written(root: Path) -> None:
    for name in ("views/.a.new", "memory/.writing", "tidegate.db.new-0123", "traces/.x.writing"):
        (root / name).write_bytes(b"half")
        (root / name).chmod(0o600)
        os.utime(root / name, (1, 1))


@pytest.mark.parametrize("case", mark_all_but(DERIVED, "snapshot cut", "trace with a hole", "modes", "index"))
def test_what_can_be_made_again_is(case: str, data: DataFolder) -> None:
    before = {name: records(data, name) for name in ("a", "b")}
    if case == "index":
        data.close_search()
    DERIVED[case](data)
    said = mended(data)
    assert said
    assert {finding.severity for finding in said} == {"mended"}
    assert {name: records(data, name) for name in ("a", "b")} == before
    assert [line.seq for line in read_trace(data.trace_path("a"))][-1] == len(before["a"])
    assert not [path for path in data.root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o077]
    assert data.open_search().search("remember")[0].kind == "note"
    with opened(data, "a") as session:
        session.prepare()


def test_what_is_not_ours_is_left_alone(data: DataFolder) -> None:
    outside = data.root.parent / "outside"
    outside.write_text("mine")
    outside.chmod(0o644)
    places = ["", "sessions", "traces", "views", "blobs", "blobs/aa", "memory", "locks", "retention", "damaged"]
    for place in places:
        (data.root / place).mkdir(exist_ok=True, mode=0o700)
        for name in ("read me.txt", "a.bak"):
            (data.root / place / name).write_text("mine")
            (data.root / place / name).chmod(0o600)
        (data.root / place / "link").symlink_to(outside)
    before = contents(data.root)
    assert mended(data) == []
    assert contents(data.root) == before
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644


def test_notes_that_cannot_be_read_are_said(data: DataFolder) -> None:
    (data.root / "memory" / "odd.md").write_bytes(b"fine \xff\xfe not")
    (data.root / "memory" / "huge.md").write_bytes(b"x" * 3_000_000)
    for path in (data.root / "memory").glob("*.md"):
        path.chmod(0o600)
    for _ in range(2):
        (finding,) = looked(data, repair=True)
        assert "huge.md" in finding.what
    assert any("odd.md" in finding.what for finding in examine_folder(data))


def test_a_store_elsewhere_is_looked_through_too(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data", store=MemoryStore(), secrets=[])
    filled(data, "a", turns=2)
    assert looked(data) == []
    append(data, "a", b"rubbish")
    assert [finding.severity for finding in mended(data)] == ["lost"]
    assert any(
        isinstance(event.payload, MessageAdded) and text_of(event.payload.message)
        for event in data.open_log("a").read()
    )


def test_a_snapshot_that_another_model_counted_fits_its_log(tmp_path: Path) -> None:
    """A session that is folded from its log counts what it shows by its own model, and saves that."""
    data = folder(tmp_path)
    filled(data, "a", turns=3)
    shutil.rmtree(tmp_path / "views")
    with data.open("a", "claude-opus-4-8", window=100_000) as session:
        session.add({"role": "user", "content": "more"})
    assert (tmp_path / "views" / "a").exists()
    assert looked(data) == []
    data.close()


def test_the_trace_of_an_open_session_may_be_written_later(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    data.open("s", "gpt-4o").close()
    session = data.open("s", "gpt-4o", live_trace=False)
    for number in range(150):
        session.add({"role": "user", "content": f"{number}"})
    written = max(line.seq for line in read_trace(data.trace_path("s")))
    assert session.log.head - 64 < written < session.log.head
    assert looked(data) == [], "nothing is wrong with it"
    session.close()
    assert [line.seq for line in read_trace(data.trace_path("s"))] == list(range(1, session.log.head + 1))
    assert looked(data) == []
    data.close()
