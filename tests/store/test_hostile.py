"""Hostile data at rest, in the whole data folder: a clear error or a repair, and everything else is still there."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.datafolder.kept import filled, folder, opened
from tests.scale import scaled
from tidegate import BadInput, Message, Text
from tidegate.core.events import MessageAdded
from tidegate.core.messages import text_of
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.doctor.database_rescue import needs_rescue, rescue_database
from tidegate.datafolder.doctor.examination import Finding, examine_folder
from tidegate.store.errors import DamagedData, SessionNotFound

NAMES = ("one", "two", "three")
BIG = "a large result, line by line\n" * 20_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sessions with compactions, one of them with a large message; notes, index, snapshots, traces."""
    place = tmp_path_factory.mktemp("made") / "data"
    data = folder(place)
    filled(data, *NAMES, turns=4)
    with opened(data, "three") as session:
        session.add({"role": "user", "content": BIG})
        session.add({"role": "assistant", "content": "seen"})
    data.session_files("one").update("large_tool_results/m5", lambda _: "a result\n")
    data.notes.add_entry("the port is 8080", source="one")
    data.open_search().search("port")
    data.close()
    return place


@pytest.fixture
def at_rest(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture(scope="module")
def said(made: Path) -> dict[str, list[str]]:
    data = folder(made)
    wanted = {name: texts(data, name) for name in NAMES}
    data.close()
    return wanted


def texts(data: DataFolder, name: str) -> list[str]:
    return [
        text_of(event.payload.message)
        for event in data.open_log(name).read()
        if isinstance(event.payload, MessageAdded)
    ]


def readable(data: DataFolder) -> dict[str, list[str]]:
    found = {}
    for name in NAMES:
        with suppress(DamagedData, SessionNotFound):  # any other error is none of ours
            found[name] = texts(data, name)
    return found


def faults(data: DataFolder, *, repair: bool = False) -> list[Finding]:
    return [finding for finding in examine_folder(data, repair=repair) if finding.severity != "fine"]


def goes_on(data: DataFolder, name: str) -> None:
    with opened(data, name) as session:
        session.add({"role": "user", "content": "go on with this"})
        assert b"go on with this" in session.prepare().to_bytes()


# --- the database -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "count"), [(11, 8), pytest.param(12, scaled(16), marks=pytest.mark.exhaustive)])
def test_flipped_bytes_hurt_what_they_hit_and_nothing_else(
    seed: int, count: int, at_rest: Path, said: dict[str, list[str]]
) -> None:
    """Some places, each alone. What is read is what was said; the doctor ends, and makes nothing worse."""
    path = at_rest / "tidegate.db"
    whole = path.read_bytes()
    rng = random.Random(seed)
    closed = hurt = healed = 0
    for _ in range(count):
        place, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        try:
            data = folder(at_rest)
        except DamagedData:
            closed += 1
            continue
        before = readable(data)
        assert all(said[name] == found for name, found in before.items())
        assert len(before) >= 2
        hurt += len(before) < 3
        first = faults(data, repair=True)
        again = faults(data, repair=True)
        assert {finding.severity for finding in again} <= {"broken"}
        assert len(again) <= len(first)
        after = readable(data)
        assert before.items() <= after.items()
        for name in after.keys() - before.keys():
            healed += 1
            assert set(after[name]) <= set(said[name])
            goes_on(data, name)
        data.close()
        shutil.rmtree(at_rest / "damaged", ignore_errors=True)
    assert closed <= 1 + count // 20
    assert hurt >= count * 0.3, "many flips hit records, or this shows nothing"
    assert healed >= hurt - 1 - count // 20


@pytest.mark.parametrize(
    ("part", "left_over"),
    [
        (0.0, 0.0),
        pytest.param(0.33, 0.005, marks=pytest.mark.exhaustive),
        (0.6, 0.08),
        pytest.param(0.9, 0.4, marks=pytest.mark.exhaustive),
    ],
)
def test_a_truncated_database_is_a_clear_error_and_what_is_left_can_be_had(
    part: float, left_over: float, at_rest: Path, said: dict[str, list[str]]
) -> None:
    """Of the first third little is whole: a pack of 64 records is had only if all of its pages are left."""
    path = at_rest / "tidegate.db"
    os.truncate(path, int(path.stat().st_size * part))
    left = path.read_bytes()
    with pytest.raises(DamagedData, match=r"tidegate\.db") as damage:
        folder(at_rest)
    assert damage.value.remedy
    assert path.read_bytes() == left
    assert needs_rescue(at_rest) == bool(part)
    if not part:
        return
    findings = rescue_database(at_rest)
    assert findings[0].severity == "mended"
    assert {finding.severity for finding in findings[1:]} == {"lost"}
    assert (at_rest / "damaged" / "tidegate.db.1").read_bytes()[: len(left)] == left
    data = folder(at_rest)
    faults(data, repair=True)
    assert faults(data) == []
    kept = readable(data)
    assert all(set(texts) <= set(said[name]) for name, texts in kept.items())
    assert sum(map(len, kept.values())) >= sum(map(len, said.values())) * left_over
    for name in kept:
        goes_on(data, name)
    assert data.open_search().search("8080")


def test_a_database_that_cannot_be_opened_is_not_left_open(at_rest: Path) -> None:
    path = at_rest / "tidegate.db"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"CREATE TRIGGER", b"CREATE TRIGGED"))
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(DamagedData, match="malformed database schema") as damage:
        folder(at_rest)
    assert len(os.listdir("/dev/fd")) == before, f"{damage.value} keeps it open"


@pytest.mark.exhaustive
def test_a_damaged_tree_is_made_anew_from_all_that_is_whole(at_rest: Path, said: dict[str, list[str]]) -> None:
    """Flips where SQLite keeps its pages together. Most cost nothing, the others what hangs on that page."""
    path = at_rest / "tidegate.db"
    whole = path.read_bytes()
    rng = random.Random(23)
    rescued = lost = 0
    for _ in range(scaled(25)):
        place = rng.randrange(1, len(whole) // 4096) * 4096 + rng.randrange(12)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << rng.randrange(8))]) + whole[place + 1 :])
        if not needs_rescue(at_rest):
            continue
        findings = rescue_database(at_rest)
        if findings[0].severity == "broken":
            assert len(findings) == 1
            continue
        rescued += 1
        assert not needs_rescue(at_rest)
        data = folder(at_rest)
        kept = readable(data)
        hurt = {finding.session for finding in findings[1:]}
        lost += len(hurt)
        assert len(hurt) <= 2, "a page of the upper levels of the tree may have records of two sessions"
        assert {name: texts for name, texts in kept.items() if name not in hurt} == {
            name: texts for name, texts in said.items() if name not in hurt
        }
        for name in hurt:
            assert set(kept[name]) <= set(said[name])
            goes_on(data, name)
        data.close()
        (at_rest / "damaged" / "tidegate.db.1").unlink()
    assert rescued >= 8
    assert 1 <= lost < rescued


def with_a_word_beside_it(root: Path) -> None:
    """A process died: its last append is in the file beside the database, whose index over the names is damaged."""
    data = folder(root)
    with opened(data, "one") as session:
        session.add({"role": "user", "content": "the newest word"})
        for file in ("tidegate.db", "tidegate.db-wal"):
            shutil.copyfile(root / file, root.parent / file)
    data.close()
    for file in ("tidegate.db", "tidegate.db-wal"):
        os.replace(root.parent / file, root / file)
    path = root / "tidegate.db"
    whole = path.read_bytes()
    path.write_bytes(whole[: 4 * 4096 + 4] + b"\xff" + whole[4 * 4096 + 5 :])


def test_what_was_not_yet_written_back_is_rescued_too(at_rest: Path, said: dict[str, list[str]]) -> None:
    with_a_word_beside_it(at_rest)
    assert needs_rescue(at_rest)
    assert [finding.severity for finding in rescue_database(at_rest)] == ["mended"]
    data = folder(at_rest)
    assert readable(data) == {**said, "one": [*said["one"], "the newest word"]}
    assert faults(data) == []


STEPS = ["copied", "saved", "kept aside", "in one piece", "alone", "in place"]


@pytest.mark.parametrize("last", STEPS)
def test_a_rescue_that_was_killed_can_be_made_again(last: str, at_rest: Path, said: dict[str, list[str]]) -> None:
    with_a_word_beside_it(at_rest)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            rescue_database(at_rest, step=lambda name: os._exit(9) if name == last else None)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert needs_rescue(at_rest) == (last != "in place")
    if last != "in place":
        assert rescue_database(at_rest)[0].severity == "mended"
    assert readable(folder(at_rest)) == {**said, "one": [*said["one"], "the newest word"]}


def test_a_database_that_another_has_open_is_not_taken_away(at_rest: Path) -> None:
    code = (
        "import sys, tidegate; s = tidegate.open_store(sys.argv[1]); s.sessions(); print('open', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(at_rest)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(BadInput, match="another process"):
            rescue_database(at_rest)
        other.communicate(b"\n")
    assert [finding.severity for finding in rescue_database(at_rest)] == ["mended"]
    assert len(readable(folder(at_rest))) == 3


def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(at_rest: Path) -> None:
    db = sqlite3.connect(at_rest / "tidegate.db")
    db.execute("INSERT INTO migrations VALUES ('of the future', 1.0)")
    db.commit()
    db.close()
    with pytest.raises(DamagedData, match="newer tidegate"):
        folder(at_rest)
    db = sqlite3.connect(at_rest / "tidegate.db")
    db.execute("DELETE FROM migrations WHERE name = 'of the future'")
    db.commit()
    db.close()
    assert faults(folder(at_rest)) == []


def test_a_database_of_something_else_is_refused(at_rest: Path) -> None:
    (at_rest / "tidegate.db").unlink()
    db = sqlite3.connect(at_rest / "tidegate.db")
    db.execute("CREATE TABLE recipes (name TEXT)")
    db.commit()
    db.close()
    with pytest.raises(DamagedData, match="not a store of tidegate"):
        folder(at_rest)


# --- odd content ------------------------------------------------------------------------------------------------------


def test_nul_and_lone_surrogates_go_in_and_come_out_as_valid_text(at_rest: Path) -> None:
    data = folder(at_rest)
    with opened(data, "odd") as session:
        session.add({"role": "user", "content": "a\0b\ud800c\udfffd"})
        session.add(Message("assistant", (Text("x\0\udc80y"),)))
        request = session.prepare().to_bytes()
    data.close()
    data = folder(at_rest)
    first, second = texts(data, "odd")
    assert first.startswith("a\0b")
    assert second.startswith("x\0")
    (first + second).encode()
    with opened(data, "odd") as session:
        assert session.prepare().to_bytes() == request
    assert faults(data) == []
    for name in ("a\0b", "\ud800", ""):
        with pytest.raises(BadInput):
            data.open(name, "gpt-4o", count="estimate")
    assert faults(data) == []


@pytest.mark.exhaustive
def test_a_message_of_megabytes_is_kept_and_checked(at_rest: Path, said: dict[str, list[str]]) -> None:
    data = folder(at_rest)
    huge, large = "0123456789abcdef\n" * 100_000, "0123456789abcdef\n" * 30_000
    with opened(data, "huge") as session:
        session.add({"role": "user", "content": "read it"})
        session.add({"role": "user", "content": huge})
        assert len(session.prepare().to_bytes()) < 200_000
        before = set((data.root / "blobs").rglob("*"))
        session.add({"role": "user", "content": large})
        blob = max(
            set((data.root / "blobs").rglob("*")) - before, key=lambda path: path.stat().st_size * path.is_file()
        )
    data.close()
    data = folder(at_rest)
    assert texts(data, "huge")[1:] == [huge, large]
    assert faults(data) == []
    os.truncate(blob, 1000)
    with pytest.raises(DamagedData, match=blob.name):
        texts(data, "huge")
    assert readable(data) == said
    assert [finding.session for finding in faults(data, repair=True)] == ["huge", ""]
    assert texts(data, "huge") == ["read it", huge]
    goes_on(data, "huge")


# --- everything beside the database -----------------------------------------------------------------------------------


def _flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(
        content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 255]) + content[len(content) // 2 + 1 :]
    )


def _instead(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink()
    make(path)


def _first(folder: Path, pattern: str) -> Path:
    return min(path for path in folder.glob(pattern) if path.is_file())


PLACES: dict[str, Callable[[Path], Path]] = {
    "snapshot": lambda root: root / "views" / "one",
    "trace": lambda root: root / "traces" / "one.jsonl",
    "index": lambda root: root / "search.db",
    "note": lambda root: _first(root / "memory", "2*.md"),
    "file": lambda root: root / "sessions" / "one" / "large_tool_results" / "m5",
}
DAMAGES: dict[str, Callable[[Path], None]] = {
    "flipped": _flip,
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "rubbish": lambda path: os.truncate(path, path.write_bytes(random.Random(1).randbytes(5_000))),
    "a folder": lambda path: _instead(path, Path.mkdir),
    "a link": lambda path: _instead(path, lambda place: place.symlink_to("/dev/null")),
    "a pipe": lambda path: _instead(path, os.mkfifo),
}


EVERY_DAMAGE = [(place, damage) for place in PLACES for damage in DAMAGES]
SOME_DAMAGES = {
    *(("snapshot", "flipped"), ("snapshot", "a folder"), ("trace", "cut"), ("index", "rubbish")),
    *(("note", "emptied"), ("note", "a pipe"), ("file", "a link")),
}
"""Each place and each damage."""


@pytest.mark.parametrize(
    ("place", "damage"),
    [each if each in SOME_DAMAGES else pytest.param(*each, marks=pytest.mark.exhaustive) for each in EVERY_DAMAGE],
)
def test_damage_beside_the_logs_costs_no_message(
    place: str, damage: str, at_rest: Path, said: dict[str, list[str]]
) -> None:
    DAMAGES[damage](PLACES[place](at_rest))
    data = folder(at_rest)
    assert readable(data) == said
    goes_on(data, "one")
    if place != "index" or damage not in ("a folder", "a link", "a pipe"):
        assert data.open_search().search("seen", kind="session")
    again = [faults(data, repair=True), faults(data, repair=True)][1]
    assert {finding.severity for finding in again} <= {"broken"}
    assert readable(data) | {"one": said["one"]} == said
    goes_on(data, "one")
    data.close()


def test_foreign_files_in_every_folder_harm_nobody(at_rest: Path, said: dict[str, list[str]]) -> None:
    folders = [at_rest, *(path for path in at_rest.rglob("*") if path.is_dir())]
    for place in folders:
        for name in ("foreign", "foreign.jsonl", "foreign.md", ".foreign", "with blank.txt"):
            (place / name).write_bytes(b"\x00\xff not of tidegate")
        (place / "pipe").symlink_to("/dev/zero")
        os.mkfifo(place / "fifo")
    data = folder(at_rest)
    assert readable(data) == said
    for name in NAMES:
        goes_on(data, name)
    assert data.open_search().search("8080")
    faults(data, repair=True)
    assert {finding.severity for finding in faults(data, repair=True)} <= {"broken"}
    for name in NAMES:
        goes_on(data, name)
    kept = [place / "foreign" for place in folders if place.exists()]
    gone = [path.relative_to(at_rest).as_posix() for path in kept if not path.exists()]
    assert gone == ["blobs/claims/foreign"], "what stood among the claims kept blobs from being collected: set aside"
