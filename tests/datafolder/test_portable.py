"""A session leaves as one file and comes back as it was; a file that is not such a one leaves nothing behind."""

import gzip
import hashlib
import json
import os
import stat
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.datafolder.kept import SECRETS, filled, folder, opened, records, talk
from tidegate import BadInput, Call, Message, Result, Text, Thinking
from tidegate.core.events import Event, NoteAdded, encode_event
from tidegate.datafolder.archive.format import ArchiveLimits
from tidegate.datafolder.archive.transfer import export_session, import_session
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.doctor.examination import examine_folder
from tidegate.datafolder.removal import BEING_REMOVED
from tidegate.datafolder.retention import set_retention
from tidegate.store.errors import SessionNotFound
from tidegate.store.sqlite import SqliteStore

Lines = list[bytes]
KEY = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0" * 2


def lines_of(path: Path) -> Lines:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def sealed(lines: Lines) -> bytes:
    """The lines as an export whose sum is right, whatever they say."""
    end = json.loads(lines[-1])
    end["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    return gzip.compress(b"".join(lines[:-1]) + json.dumps(end).encode() + b"\n")


def arrived(data: DataFolder, name: str) -> list[bytes]:
    """The records of an imported session but the last, which says that it was imported."""
    *told, last = data.open_log(name).read()
    assert last.payload == NoteAdded("foreign", "a")
    return list(map(encode_event, told))


def all_files(root: Path) -> set[str]:
    """Names of what is there, without locks: those say nothing."""
    found = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return {name for name in found if not name.startswith("locks/") and not name.endswith((".lock", "-wal", "-shm"))}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of session `a`; the folder `from` beside it still has it."""
    place = tmp_path_factory.mktemp("exported")
    data = folder(place / "from")
    filled(data, "a", turns=6)
    data.session_files("a").update("large_tool_results/m3", lambda _: "the whole result\n")
    export_session(data, "a", place / "a.tidegate")
    data.close()
    return place / "a.tidegate"


@pytest.mark.exhaustive
def test_there_and_back_it_is_the_same_log_and_the_same_request(tmp_path: Path) -> None:
    source, target = folder(tmp_path / "from"), folder(tmp_path / "to")
    with opened(source, "a") as session:
        talk(session, turns=6)
        assert session.history.undo()
        session.add({"role": "user", "content": "x" * 700_000})  # large: in a blob
        session.add({"role": "assistant", "content": "fine"})
        request = session.prepare().to_bytes()
        assert sum(session.edit_counts.values()) >= 2
    source.session_files("a").update("conversation_history/main.md", lambda _: "# all of it\n\ttabs, 統一\n")
    done = export_session(source, "a", tmp_path / "a.tidegate")
    assert (done.event_count, done.file_count, done.masked_count) == (source.store.head("a"), 1, 0)
    assert stat.S_IMODE((tmp_path / "a.tidegate").stat().st_mode) == 0o600
    assert import_session(target, tmp_path / "a.tidegate", trust=True) == "a"
    assert arrived(target, "a") == records(source, "a")
    claims = {path.name for path in (target.root / "blobs" / "claims").iterdir()}
    assert claims == {".lock", "a"}, "what was needed on the way claims nothing any more"
    assert [info.name for info in target.store.sessions()] == ["a"]
    assert target.session_files("a").read("conversation_history/main.md") == "# all of it\n\ttabs, 統一\n"
    with opened(target, "a") as session:
        assert session.prepare().to_bytes() == request
    assert import_session(target, tmp_path / "a.tidegate", "b", trust=True) == "b"
    assert arrived(target, "b") == records(source, "a")
    assert not [finding for finding in examine_folder(target) if finding.severity != "fine"]


def test_the_same_session_gives_the_same_file(tmp_path: Path) -> None:
    data = folder(tmp_path / "data")
    filled(data, "a", turns=3)
    export_session(data, "a", tmp_path / "one")
    export_session(data, "a", tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.exhaustive
def test_a_long_session_is_never_in_memory(tmp_path: Path) -> None:
    data = folder(tmp_path / "data")
    events = 2_700
    for start in range(0, events, 100):
        notes = [Event(start + n, 1.0, NoteAdded("t", f"{n} " + "." * 2_500)) for n in range(1, 101)]
        data.store.append("long", start, [encode_event(note) for note in notes])
    tracemalloc.start()
    try:
        export_session(data, "long", tmp_path / "long")
        import_session(data, tmp_path / "long", "again")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert data.store.head("again") == events + 1
    assert peak < events * 2_500 * 0.6


def secretive(data: DataFolder) -> list[Message]:
    """Secrets wherever a text can be, one of them in a signed block; another signed block has none."""
    signed = json.dumps({"type": "thinking", "thinking": f"the key is {KEY}", "signature": "c2ln"})
    plain = json.dumps({"type": "thinking", "thinking": "I call curl", "signature": "c2ln"})
    said = [
        Message("user", (Text(f"my key is {KEY}, the pass phrase {SECRETS[0]}"),)),
        Message(
            "assistant",
            (
                Thinking(f"plain {KEY}"),
                Thinking(block=signed),
                Thinking(block=plain),
                Call("c1", "curl", json.dumps({"key": KEY, "n": 1})),
            ),
            origin="anthropic",
        ),
        Message("tool", (Result("c1", (Text(f"saw {KEY}"),)),)),
    ]
    with data.open("s", "claude-sonnet-4-5", window=50_000, count="estimate", system=f"use {SECRETS[0]}") as session:
        session.set_tools([{"name": "curl", "description": f"with {KEY}", "input_schema": {"type": "object"}}])
        session.add(*said)
        session.history.add_note("seen", f"key {KEY}")
        session.prepare()
    data.session_files("s").update("large_tool_results/m9", lambda _: f"again {KEY}")
    return said


def test_secrets_stay_behind_and_a_signed_block_is_whole_or_not_signed(tmp_path: Path) -> None:
    source, target = folder(tmp_path / "from"), folder(tmp_path / "to")
    said = secretive(source)
    done = export_session(source, "s", tmp_path / "s.tidegate")
    assert done.masked_count == 10
    text = gzip.decompress((tmp_path / "s.tidegate").read_bytes()).decode()
    assert SECRETS[0] not in text
    assert KEY not in text
    import_session(target, tmp_path / "s.tidegate")
    kept = [event.payload.message for event in target.open_log("s").read() if hasattr(event.payload, "message")]
    assert kept[1].parts[1] == Thinking("the key is sk-proj-…[masked]"), "changed, so its signature is gone"
    assert kept[1].parts[2] == said[1].parts[2]
    call = kept[1].parts[3]
    assert isinstance(call, Call)
    assert json.loads(call.arguments)["n"] == 1
    assert "[masked]" in json.loads(call.arguments)["key"]
    with target.open("s", "claude-sonnet-4-5", window=50_000, count="estimate") as session:
        request = session.prepare().to_bytes()
    assert b"c2ln" in request
    assert KEY.encode() not in request
    assert any(KEY.encode() in record for record in records(source, "s")), "the log itself keeps what was said"


def test_a_count_stays_an_upper_bound_where_something_was_masked(tmp_path: Path) -> None:
    data = folder(tmp_path / "data")
    secretive(data)
    export_session(data, "s", tmp_path / "s.tidegate")
    import_session(data, tmp_path / "s.tidegate", "t")
    with data.open("t", "claude-sonnet-4-5", window=50_000, count="estimate") as session:
        kept = [item.tokens for item in session.view.items]
        counted = [item.tokens for item in _counted_anew(tmp_path / "anew", session.view.items)]
    assert len(kept) == len(counted) == 3
    assert all(ours >= anew for ours, anew in zip(kept, counted, strict=True))


def _counted_anew(path: Path, items: list) -> list:
    with folder(path).open("x", "claude-sonnet-4-5", window=50_000, count="estimate") as session:
        session.add(*[item.message for item in items])
        return list(session.view.items)


def test_a_name_that_is_taken_is_refused(exported: Path) -> None:
    data = folder(exported.parent / "from")
    before, files = records(data, "a"), all_files(data.root)
    with pytest.raises(BadInput, match="another name"):
        import_session(data, exported)
    assert records(data, "a") == before
    assert all_files(data.root) == files
    assert import_session(data, exported, "Ein Name, mit Blank/Strich") == "Ein Name, mit Blank/Strich"
    for bad in ("a\0b", "\ud800", "x" * 600):
        with pytest.raises(BadInput):
            import_session(data, exported, bad)


def test_it_does_not_go_the_way_of_an_older_session_of_its_name(exported: Path, tmp_path: Path) -> None:
    data = folder(tmp_path / "to")
    filled(data, "a", turns=1)
    data.session_files("a").update("old", lambda _: "of the old one")
    set_retention(data, "a", BEING_REMOVED)
    data.store.delete("a")  # and there the removal was cut short
    import_session(data, exported)
    with opened(data, "a") as session:
        assert session.log.head >= 20
    assert data.session_files("a").names() == ["large_tool_results/m3"]


def test_what_is_open_is_not_written_over(exported: Path, tmp_path: Path) -> None:
    data = folder(tmp_path / "to")
    with data.locks.hold("a"), pytest.raises(BadInput, match="in use"):
        import_session(data, exported)
    assert import_session(data, exported) == "a"


def test_an_export_writes_over_nothing_but_an_export(tmp_path: Path) -> None:
    data = folder(tmp_path / "data")
    filled(data, "a", turns=2)
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    for place in ("mine.txt", "folder", "data/tidegate.db", "data/new", "none/there"):
        with pytest.raises(BadInput):
            export_session(data, "a", tmp_path / place)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    export_session(data, "a", tmp_path / "out")
    with opened(data, "a") as session:
        session.add({"role": "user", "content": "more"})
        assert export_session(data, "a", tmp_path / "out").event_count == session.log.head
    with pytest.raises(SessionNotFound):
        export_session(data, "none", tmp_path / "none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "folder", "mine.txt", "out"]


def dying(data_folder: Path, path: Path, step: str, number: int) -> bool:
    """Import in a process that dies at the n-th time of a step of the store. False if it was done before."""
    left = [number]

    def die(name: str) -> None:
        left[0] -= name == step
        if left[0] == 0:
            os._exit(9)

    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            data = DataFolder(data_folder, store=SqliteStore(data_folder, step=die), secrets=[])
            import_session(data, path, trust=True)
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize(("step", "number"), [("begun", 1), ("committed", 1), ("begun", 2), ("rows copied", 1)])
def test_killed_before_the_last_step_nothing_of_it_is_there(
    step: str, number: int, exported: Path, tmp_path: Path
) -> None:
    place = tmp_path / "to"
    folder(place).close()
    assert dying(place, exported, step, number)
    data = folder(place)
    assert data.store.head("a") == 0
    list(examine_folder(data, repair=True))
    assert data.store.sessions() == []
    assert not [finding for finding in examine_folder(data) if finding.severity != "fine"]
    assert import_session(data, exported) == "a"


def test_killed_behind_it_all_of_it_is_there(exported: Path, tmp_path: Path) -> None:
    place = tmp_path / "to"
    folder(place).close()
    assert dying(place, exported, "rows copied", 1)
    assert dying(place, exported, "begun", 3), "at the removal of what was needed on the way"
    data = folder(place)
    assert arrived(data, "a") == records(folder(exported.parent / "from"), "a")
    list(examine_folder(data, repair=True))
    assert [info.name for info in data.store.sessions()] == ["a"]
    assert data.session_files("a").read("large_tool_results/m3") == "the whole result\n"


# --- files that are not exports ---------------------------------------------------------------------------------------


def changed(lines: Lines, place: int, change: Callable[[bytes], bytes]) -> Lines:
    return [*lines[:place], change(lines[place]), *lines[place + 1 :]]


def header(lines: Lines, **new: object) -> Lines:
    return changed(lines, 0, lambda line: json.dumps({**json.loads(line), **new}).encode() + b"\n")


def file_line(name: str, text: str = "x") -> bytes:
    return json.dumps({"file": name, "text": text}).encode() + b"\n"


def with_file(lines: Lines, *names: str, text: str = "x") -> Lines:
    files = [file_line(name, text) for name in names]
    end = json.loads(lines[-1])
    end["files"] = end["files"] + len(files)
    return [*lines[:-1], *files, json.dumps(end).encode() + b"\n"]


def event(lines: Lines, place: int, value: object) -> Lines:
    return changed(lines, place, lambda _: json.dumps(value).encode() + b"\n")


HOSTILE: dict[str, Callable[[Lines], bytes]] = {
    "not gzip": b"".join,
    "empty": lambda lines: b"",
    "gzip of nothing": lambda lines: gzip.compress(b""),
    "no end": lambda lines: gzip.compress(b"".join(lines[:-1])),
    "half a line": lambda lines: gzip.compress(b"".join(lines)[:-40]),
    "sum of something else": lambda lines: gzip.compress(b"".join(changed(lines, 5, lambda line: line[:-2] + b" ]\n"))),
    "behind the end": lambda lines: gzip.compress(b"".join([*lines, lines[-1]])),
    "a second member": lambda lines: gzip.compress(b"".join(lines)) + gzip.compress(b"x\n"),
    "garbage behind it": lambda lines: gzip.compress(b"".join(lines)) + b"garbage",
    "newer": lambda lines: sealed(header(lines, version=2)),
    "older than the first": lambda lines: sealed(header(lines, version=0)),
    "another format": lambda lines: sealed(header(lines, format="tar")),
    "head too small": lambda lines: sealed(header(lines, head=3)),
    "no header": lambda lines: sealed(lines[1:]),
    "two in the wrong order": lambda lines: sealed([*lines[:3], lines[4], lines[3], *lines[5:]]),
    "an event twice": lambda lines: sealed([*lines[:3], lines[3], *lines[3:]]),
    "one missing": lambda lines: sealed([*lines[:3], *lines[4:]]),
    "file before events": lambda lines: sealed([lines[0], lines[-2], *lines[1:-2], lines[-1]]),
    "not an event": lambda lines: sealed(event(lines, 3, [3, 1.0, ["sung", "x"]])),
    "event of wrong types": lambda lines: sealed(event(lines, 3, [3, 1.0, ["said", ["user", 5], 3]])),
    "an id of elsewhere": lambda lines: sealed(event(lines, 3, [3, 1.0, ["said", ["user", [["text", "x"]], "m9"], 3]])),
    "an id that is none": lambda lines: sealed(event(lines, 3, [3, 1.0, ["said", ["user", [["text", "x"]], "mm"], 3]])),
    "undoes the future": lambda lines: sealed(event(lines, 3, [3, 1.0, ["noted", "undo", "999"]])),
    "undoes words": lambda lines: sealed(event(lines, 3, [3, 1.0, ["noted", "undo", "that"]])),
    "undoes a very long number": lambda lines: sealed(event(lines, 3, [3, 1.0, ["noted", "redo", "9" * 5000]])),
    "tools that are none": lambda lines: sealed(event(lines, 3, [3, 1.0, ["noted", "tools", "{"]])),
    "half a surrogate pair": lambda lines: sealed(
        changed(lines, 3, lambda _: b'[3,1.0,["noted","t","\\ud800"]]\n'),
    ),
    "a number too large": lambda lines: sealed(changed(lines, 3, lambda _: b'[3,1e999,["noted","t"]]\n')),
    "nested deep": lambda lines: sealed(changed(lines, 3, lambda _: b"[" * 200_000 + b"\n")),
    "out of the folder": lambda lines: sealed(with_file(lines, "../../../evil")),
    "absolute": lambda lines: sealed(with_file(lines, "/evil")),
    "hidden": lambda lines: sealed(with_file(lines, ".lock")),
    "backslash": lambda lines: sealed(with_file(lines, "a\\..\\b")),
    "a NUL": lambda lines: sealed(with_file(lines, "a\0b")),
    "very deep": lambda lines: sealed(with_file(lines, "a/b/c/d/e/f")),
    "half a surrogate pair in a file": lambda lines: sealed(with_file(lines, "x", text="a\ud800")),
    "half a surrogate pair in a name": lambda lines: sealed(with_file(lines, "a\ud800")),
    "a file twice": lambda lines: sealed(with_file(lines, "x", "x")),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_not_a_whole_export_is_refused_and_nothing_is_kept(case: str, exported: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(HOSTILE[case](lines_of(exported)))
    data = folder(tmp_path / "to")
    before = all_files(data.root)
    with pytest.raises(BadInput) as refused:
        import_session(data, bad)
    assert refused.value.remedy
    assert data.store.sessions() == []
    assert all_files(data.root) == before


def test_the_cases_fail_for_what_they_say(exported: Path, tmp_path: Path) -> None:
    """Sealed anew without a change it is taken: so the sum is not what refuses the others."""
    again = tmp_path / "again"
    again.write_bytes(sealed(with_file(lines_of(exported), "notes/x.md")))
    assert import_session(folder(tmp_path / "to"), again) == "a"


def test_cut_off_or_flipped_anywhere_it_is_refused(exported: Path, tmp_path: Path) -> None:
    whole = exported.read_bytes()
    data = folder(tmp_path / "to")
    bad = tmp_path / "bad"
    for place in range(0, len(whole), len(whole) // 60):
        bad.write_bytes(whole[:place])
        with pytest.raises(BadInput):
            import_session(data, bad)
        if not 4 <= place < 10:  # the time, flags and system in gzip's own header say nothing of the content
            bad.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
            with pytest.raises(BadInput):
                import_session(data, bad)
    assert data.store.sessions() == []


def test_no_more_is_unpacked_than_is_allowed(exported: Path, tmp_path: Path) -> None:
    data = folder(tmp_path / "to")
    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(b" " * 50_000_000))
    with pytest.raises(BadInput, match="a line is larger than 1,000,000"):
        import_session(data, bomb, limits=ArchiveLimits(line=1_000_000))
    many = [*lines_of(exported)[:1], *([b"[]" + b" " * 1000 + b"\n"] * 1000)]
    bomb.write_bytes(gzip.compress(b"".join(many)))
    with pytest.raises(BadInput):
        import_session(data, bomb)
    with pytest.raises(BadInput, match="all of it is larger than 20,000"):
        import_session(data, exported, limits=ArchiveLimits(total=20_000))
    for odd in (tmp_path, tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(BadInput):
            import_session(data, odd)
    assert data.store.sessions() == []
