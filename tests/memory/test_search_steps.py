"""The index keeps step with notes and logs, forgets what is forgotten, and stays small."""

import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from tests.memory.tape import DOCS, Tape, places
from tidegate.core.events import Event, MessageAdded, NoteAdded, encode_event
from tidegate.core.messages import Call, Message, Text
from tidegate.memory.log_lines import LogLine, extract_log_lines
from tidegate.memory.notes import Notes
from tidegate.memory.passages import unpack_text
from tidegate.memory.search import Search, SearchUnavailable
from tidegate.proof.session_generator import generate_session
from tidegate.store.memory import MemoryStore
from tidegate.store.session_log import KeptLog
from tidegate.wire.registry import parse_any_message


def test_notes_are_followed(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "memory")
    search = Search(notes, path=tmp_path / "search.db")
    notes.write("a.md", "apple")
    notes.write("b.md", "banana")
    assert search.refresh().changed == ("a.md", "b.md")
    assert search.refresh().changed == ()
    (tmp_path / "memory" / "a.md").write_text("cherry\n")
    assert [hit.name for hit in search.search("cherry")] == ["a.md"]
    assert search.search("apple") == []
    (tmp_path / "memory" / "b.md").unlink()
    assert search.search("banana") == []
    (tmp_path / "memory" / "a.md").write_bytes(b"x" * 3_000_000)
    done = search.refresh()
    assert done.removed == ("a.md",)
    assert "a.md has 3,000,000 bytes" in done.skipped[0]
    assert stat.S_IMODE((tmp_path / "search.db").stat().st_mode) == 0o600


def test_logs_are_read_once_over_restarts(tmp_path: Path) -> None:
    tape = Tape(dict(DOCS))
    search = Search(logs=tape, path=tmp_path / "search.db")
    assert places(search, "nginx") == [1]
    search.close()
    tape.docs[13] = "nginx once more"
    search = Search(logs=tape, path=tmp_path / "search.db")
    assert sorted(places(search, "nginx")) == [1, 13]
    assert tape.read == list(range(1, 14))


def test_what_is_known_is_not_taken_twice() -> None:
    search = Search(logs=lambda _: Tape()(lambda _: 0))
    assert search.refresh().line_count == len(DOCS)
    assert search.refresh().line_count == 0


def test_a_log_that_grows_line_by_line_packs_as_well(tmp_path: Path) -> None:
    lines = {seq: f"step {seq}: read src/module_{seq % 7}.py and found nothing wrong with it" for seq in range(1, 151)}
    sizes: list[int] = []
    for step in (150, 1):
        tape, path = Tape({}), tmp_path / f"{step}.db"
        search = Search(logs=tape, path=path)
        for seq, text in lines.items():
            tape.docs[seq] = text
            if seq % step == 0:
                search.refresh()
        assert [places(search, f"step {seq}")[0] for seq in (1, 64, 65, 150)] == [1, 64, 65, 150]
        search.close()
        with closing(sqlite3.connect(path)) as db:
            sizes.append(db.execute("SELECT sum(length(data)) FROM blocks").fetchone()[0])
    assert sizes[1] == sizes[0]


def test_an_error_of_the_log_is_the_log_s(tmp_path: Path) -> None:
    def logs(_: Callable[[str], int]) -> Iterator[LogLine]:
        yield LogLine("s", 1, "one")
        raise sqlite3.DatabaseError("the store is broken")

    search = Search(logs=logs, path=tmp_path / "search.db")
    with pytest.raises(sqlite3.DatabaseError, match="the store is broken"):
        search.search("one")
    assert search.rebuild_count == 0


def test_kinds_and_names_narrow(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    notes.write("a.md", "port")
    search = Search(notes, Tape())
    assert {hit.kind for hit in search.search("port")} == {"note", "session"}
    assert [hit.name for hit in search.search("port", kind="note")] == ["a.md"]
    assert {hit.name for hit in search.search("port", name="s")} == {"s"}
    assert search.search("rt", kind="note")[0].name == "a.md"


def test_what_is_forgotten_is_in_no_byte(tmp_path: Path) -> None:
    secret = "hunter2swordfish"
    noise = " ".join(str(number**5) for number in range(20_000))
    tape = Tape({1: f"my password is {secret}", 2: "and more", 3: noise})
    search = Search(logs=tape, path=tmp_path / "search.db")
    assert places(search, secret) == [1]
    files = list(tmp_path.iterdir())
    assert any(secret.encode() in path.read_bytes() for path in files), "it was there to be seen"
    tape.docs = {1: "[forgotten]", 2: "and more"}
    search.forget_session("s")
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 150_000, "the room is given back"
    assert search.search(secret) == []
    assert places(search, "forgotten") == [1]


def test_two_share_one_file(tmp_path: Path) -> None:
    tape, path = Tape(), tmp_path / "search.db"
    searches = [Search(logs=tape, path=path) for _ in range(2)]
    found: list[list[int]] = []

    def look(search: Search) -> None:
        found.extend(places(search, word) for word in ("nginx", "8443", "gateway") * 5)

    threads = [threading.Thread(target=look, args=(search,)) for search in (*searches, *searches)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[1]] * 60


class Counted(Notes):
    """Notes that say how often they were read."""

    reads = 0

    def read(self, name: str) -> str:
        self.reads += 1
        return super().read(name)


def later() -> float:
    return time.time() + 60


def test_a_note_that_looks_the_same_is_not_read_again(tmp_path: Path) -> None:
    notes, path = Counted(tmp_path / "memory"), tmp_path / "search.db"
    notes.write("a.md", "apple")
    notes.write("b.md", "banana")
    search = Search(notes, path=path, clock=later)
    assert [hit.name for hit in search.search("apple")] == ["a.md"]
    assert notes.reads == 2
    search.refresh()
    search.close()
    search = Search(notes, path=path, clock=later)
    assert [hit.name for hit in search.search("banana")] == ["b.md"]
    assert notes.reads == 2, "nor after a restart"
    (tmp_path / "memory" / "a.md").write_text("grape\n")
    assert [hit.name for hit in search.search("grape")] == ["a.md"]
    assert notes.reads == 3


def test_an_edit_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    notes, file = Notes(tmp_path), tmp_path / "a.md"
    notes.write("a.md", "apple")
    search = Search(notes, clock=later)
    search.refresh()
    before = file.stat()
    file.write_text("grape\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # until the clock of the file system has ticked
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns, file.stat().st_ino) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_ino,
    )
    assert search.refresh().changed == ("a.md",)


def test_a_note_that_has_just_changed_is_read_until_it_has_settled(tmp_path: Path) -> None:
    """Within one tick of the clock two texts of one length look the same, so the look is not believed."""
    notes = Counted(tmp_path / "memory")
    notes.write("a.md", "apple")
    search = Search(notes)
    for _ in range(3):
        search.refresh()
    assert notes.reads == 3
    search = Search(notes, path=tmp_path / "search.db")
    search.refresh()
    search.close()
    search = Search(notes, path=tmp_path / "search.db", clock=later)
    for _ in range(3):
        assert search.refresh().changed == ()
    assert notes.reads == 5, "once more when it has settled, and then no more"


def said(seq: int, text: str) -> Event:
    return Event(seq, 0.0, MessageAdded(Message("user", (Text(text),)), 1))


def of_store(store: MemoryStore) -> Callable[[Callable[[str], int]], Iterator[LogLine]]:
    def logs(head: Callable[[str], int]) -> Iterator[LogLine]:
        for info in store.sessions():
            yield from extract_log_lines(info.name, KeptLog(store, info.name).read(head(info.name) + 1))

    return logs


def in_the_file(word: str, folder: Path) -> bool:
    """In its bytes as they are, or in a text that is packed in them."""
    with closing(sqlite3.connect(folder / "search.db")) as db:
        texts = [unpack_text(data) for (data,) in db.execute("SELECT data FROM blocks")]
    return any(word in text for text in texts) or any(word.encode() in path.read_bytes() for path in folder.iterdir())


def test_a_log_in_which_something_was_forgotten_is_read_again_by_itself(tmp_path: Path) -> None:
    secret, store = "hunter2swordfish", MemoryStore()
    for name in ("s", "t"):
        log = KeptLog(store, name)
        for seq, text in enumerate(("one", f"the password is {secret}" if name == "s" else "two", "three"), 1):
            log.append(said(seq, text))
    search = Search(logs=of_store(store), path=tmp_path / "search.db")
    assert [(hit.name, hit.place) for hit in search.search(secret)] == [("s", 2)]
    assert in_the_file(secret, tmp_path)
    store.rewrite("s", {2: encode_event(said(2, "[forgotten]"))})
    log = KeptLog(store, "s")
    log.append(Event(4, 0.0, NoteAdded("forgotten", "m2")))
    log.append(said(5, "five"))
    assert search.search(secret) == []
    assert not in_the_file(secret, tmp_path)
    for word, place in (("one", ("s", 1)), ("[forgotten]", ("s", 2)), ("five", ("s", 5)), ("two", ("t", 2))):
        assert place in [(hit.name, hit.place) for hit in search.search(word)]
    assert search.refresh().line_count == 0, "it is read again once"


def test_what_is_removed_is_gone_or_said_to_be_there(tmp_path: Path) -> None:
    tape, path = Tape(), tmp_path / "search.db"
    search = Search(logs=tape, path=path, lock_timeout=0.05)  # the reader of this test does not go away
    search.refresh()
    assert [*search.indexed_heads()] == ["s"]
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sources").fetchall()
        with pytest.raises(SearchUnavailable, match="still in the file"):
            search.forget_session("s")
    tape.docs = {}
    search.forget_session("s")
    assert search.indexed_heads() == {}
    assert not in_the_file("nginx", tmp_path)


def test_events_that_are_no_messages_are_read_once_too() -> None:
    events = [said(1, "one"), Event(2, 0.0, NoteAdded("turn")), Event(3, 0.0, NoteAdded("turn"))]
    asked: list[int] = []

    def logs(head: Callable[[str], int]) -> Iterator[LogLine]:
        asked.append(head("s"))
        return extract_log_lines("s", events[asked[-1] :])

    search = Search(logs=logs)
    assert [search.refresh().line_count, search.refresh().line_count] == [1, 0]
    assert asked == [0, 3]
    assert places(search, "turn") == []


ARGUMENTS = [
    (json.dumps({"path": "src/a.py", "new": "first\nsecondLine\n\tthird"}), "secondLine"),
    (json.dumps({"path": "src/a.py", "new": "first\nsecondLine\n\tthird"}), "third"),
    (json.dumps({"deep": [{"text": "\u6570\u636e\u5e93"}, 17, None]}), "数据库"),
    (json.dumps({"deep": [{"text": "\nx"}, 4711, None, True]}), "4711"),
    ('{"cut": "off\\n here', "here"),
    ("[" * 100_000 + "\\n needle", "needle"),
    ("[" * 400 + '"\\nneedle"' + "]" * 400, "needle"),
]


@pytest.mark.parametrize(("arguments", "word"), ARGUMENTS)
def test_arguments_are_found_as_they_read(arguments: str, word: str) -> None:
    message = Message("assistant", (Call("c", "edit", arguments),))
    lines = list(extract_log_lines("s", [Event(1, 0.0, MessageAdded(message, 1)), said(2, "else")]))
    search = Search(logs=lambda head: lines[head("s") :])
    hit = search.search(word)[0]
    assert (hit.place, hit.step) == (1, 1)


@pytest.mark.parametrize("step", [500, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_the_index_stays_below_three_fifths_of_the_json(tmp_path: Path, step: int) -> None:
    lines: list[LogLine] = []
    size = 0
    for message in islice(generate_session(1000), 500):
        size += len(json.dumps(message, ensure_ascii=False).encode())
        for parsed in parse_any_message(message):
            seq = len(lines) + 1
            lines += extract_log_lines("s", [Event(seq, 0.0, MessageAdded(parsed, 1))])
    upto = 0
    search = Search(logs=lambda head: lines[head("s") : upto], path=tmp_path / "search.db")
    while upto < len(lines):
        upto += step
        search.refresh()
    search.close()
    assert (tmp_path / "search.db").stat().st_size < 0.6 * size
