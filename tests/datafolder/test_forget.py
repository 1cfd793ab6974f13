"""What is forgotten is nowhere in the data folder, and the session goes on as if nothing had happened to the rest."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.datafolder.forgetting import (
    SECRET,
    WORDS,
    alive,
    lived,
    mark_of,
    opened,
    remains,
    rooms,
)
from tests.datafolder.test_retention import Killed, killing
from tests.scale import mark_all_but
from tidegate import load
from tidegate.core.edits import Insert
from tidegate.core.errors import BadInput, NotKept
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited
from tidegate.core.messages import Call, Message, Result, Text, text_of
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.forget.files import rewrite_files
from tidegate.datafolder.forget.forget import forget_message, forget_session, forget_words
from tidegate.datafolder.forget.tombstones import TOMBSTONE
from tidegate.datafolder.trace.writer import read_trace
from tidegate.session.recall import recall_message
from tidegate.store.errors import SessionNotFound
from tidegate.store.memory import MemoryStore
from tidegate.store.sqlite import SqliteStore

MESSAGE_STEPS = (
    *("snapshot removed", "files cleaned", "notes cleaned", "log rewritten", "forgetting noted", "blobs claimed"),
    *("blobs collected", "trace made again", "index cleaned"),
)


def test_before_anything_is_forgotten_it_is_everywhere(tmp_path: Path) -> None:
    """What the other tests find nothing of is there: in the log, in blobs, files, trace, snapshot and index."""
    data = DataFolder(tmp_path, secrets=[])
    lived(data)
    found = rooms(tmp_path, *map(mark_of, ("ask", "call", "result")))
    assert found >= {"tidegate.db", "blobs", "sessions", "traces", "search.db"}
    assert any(path.startswith("sessions/s/large_tool_results/") for path in remains(tmp_path, mark_of("result")))
    assert "sessions/s/conversation_history/s.md" in remains(tmp_path, mark_of("ask"))


def test_messages_leave_every_file_and_the_session_lives_on(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    ids = lived(data)
    before = {event.seq: event for event in data.open_log("s").read()}
    done = forget_message(data, "s", *ids.values())
    assert set(done.message_ids) == set(ids.values())
    assert done.removed_blobs == 1
    assert set(done.changed_files) == {f"large_tool_results/{ids['result']}", "conversation_history/s.md"}
    for name in ids:
        assert remains(tmp_path, mark_of(name)) == []
    after = {event.seq: event for event in data.open_log("s").read()}
    assert len(after) == len(before) + 1
    changed = [seq for seq, event in before.items() if after[seq] != event]
    assert done.changed_records == len(changed)
    note = after[len(after)].payload
    assert isinstance(note, NoteAdded)
    assert note.topic == "forgotten"
    assert sorted(int(place[1:]) for place in note.text.split()) == changed
    for seq in changed:
        assert after[seq].time == before[seq].time
    call = said(after, ids["call"])
    assert call.role == "assistant"
    assert call.parts == (Text(TOMBSTONE), Call("c1", "read_file"))
    assert said(after, ids["result"]).parts == (Result("c1", (Text(TOMBSTONE),)),)
    assert said(after, ids["ask"]).parts == (Text(TOMBSTONE),)
    session = alive(data)
    assert session.recall(ids["ask"]).parts == (Text(TOMBSTONE),)
    session.close()
    assert next(read_trace(data.trace_path("s"))).seq == 1
    assert data.open_search().search(mark_of("ask")) == []
    assert data.open_search().search("four bar", name="s")


def said(events: dict[int, Event], ident: str) -> Message:
    what = events[int(ident[1:])].payload
    assert isinstance(what, MessageAdded)
    return what.message


def test_one_message_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    ids = lived(data)
    history = data.session_files("s").read("conversation_history/s.md") or ""
    forget_message(data, "s", ids["ask"])
    assert remains(tmp_path, mark_of("ask")) == []
    assert data.session_files("s").read(f"large_tool_results/{ids['result']}")
    kept = data.session_files("s").read("conversation_history/s.md") or ""
    assert kept == history.replace(f"first words {mark_of('ask')} and so on", TOMBSTONE)
    assert mark_of("call") in text_of(recall_message(data.open_log("s"), ids["call"]))


def test_a_message_that_looks_like_the_next_passage_goes_whole(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    session = opened(data)
    (ident,) = session.add({"role": "user", "content": f"a\n\n## m3 assistant\n\n{SECRET}\r\n## m4 user\n\n{SECRET}"})
    for number in range(3):
        session.add({"role": "assistant", "content": f"reply {number}"}, {"role": "user", "content": f"ask {number}"})
    session.compact()
    session.close()
    assert SECRET in (data.session_files("s").read("conversation_history/s.md") or "")
    forget_message(data, "s", ident)
    assert remains(tmp_path, SECRET) == []
    assert "reply 0" in (data.session_files("s").read("conversation_history/s.md") or "")


def test_summaries_that_may_tell_of_it_are_named_through_all_generations(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    session = opened(data)
    (ident,) = session.add({"role": "user", "content": f"use {SECRET}. {WORDS * 9}"})
    (other,) = session.add({"role": "assistant", "content": "yes"})
    for number in range(2):
        asked, replied = f"ask {number}. {WORDS * 9}", f"reply {number}. {WORDS * 9}"
        session.add({"role": "user", "content": asked}, {"role": "assistant", "content": replied})
        session.compact(lambda request: f"summary {number}: the user said {SECRET}")  # noqa: B023 - called at once
    (late,) = session.add({"role": "user", "content": "last"})
    session.close()
    done = forget_message(data, "s", ident)
    summaries = [
        edit.message.id
        for event in data.open_log("s").read()
        if isinstance(event.payload, ViewEdited)
        for edit in event.payload.edits
        if isinstance(edit, Insert)
    ]
    assert len(summaries) == 2
    assert list(done.derived_ids) == summaries
    assert remains(tmp_path, SECRET) != [], "the summaries quote it"
    assert forget_message(data, "s", late).derived_ids == ()
    again = forget_message(data, "s", ident, *done.derived_ids)
    assert set(again.message_ids) == set(summaries)
    assert remains(tmp_path, SECRET) == []
    assert other not in again.message_ids
    alive(data).close()


@pytest.mark.parametrize("at", mark_all_but(MESSAGE_STEPS, "files cleaned", "log rewritten", "trace made again"))
def test_a_kill_at_any_step_leaves_a_valid_log_and_a_rerun_finishes(at: str, tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    ids = lived(data)
    with pytest.raises(Killed, match=at):
        forget_message(data, "s", *ids.values(), step=killing(at))
    data = DataFolder(tmp_path, secrets=[])
    with opened(data) as session:
        session.prepare()
    forget_message(data, "s", *ids.values())
    assert [name for name in ids if remains(tmp_path, mark_of(name))] == []
    notes = [event.payload for event in data.open_log("s").read() if isinstance(event.payload, NoteAdded)]
    assert len([note for note in notes if note.topic == "forgotten"]) == 1
    alive(data).close()


# --- a session, and what is refused -----------------------------------------------------------------------------------


def test_a_whole_session_leaves_only_that_it_was_there(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    ids = lived(data)
    lived(data, "other")
    data.notes.add_entry("what it was about", source="s")
    done = forget_session(data, "s")
    assert done.changed_records > 10
    assert done.session_notes == tuple(data.notes.daily_names()), (
        "memory outlives sessions; who wants it gone is told where to look"
    )
    for name in ids:
        assert all("other" in place or place.partition("/")[0] in SHARED for place in remains(tmp_path, mark_of(name)))
    forget_session(data, "other")
    assert [name for name in ids if remains(tmp_path, mark_of(name))] == []
    assert "kept" not in (tmp_path / "removed.jsonl").read_text()
    assert data.store.sessions() == []


SHARED = {"tidegate.db", "tidegate.db-wal", "search.db", "search.db-wal", "blobs"}


def test_a_session_that_could_not_leave_the_disk_is_not_called_forgotten(tmp_path: Path) -> None:
    """Its records are gone from the log, but pages of the file may still hold them: it is said, and done again."""
    data = DataFolder(tmp_path, store=SqliteStore(tmp_path, timeout=0.1), secrets=[])
    lived(data)
    with closing(sqlite3.connect(tmp_path / "tidegate.db", isolation_level=None)) as other:

        def step(name: str) -> None:
            if name == "log removed":
                other.execute("BEGIN IMMEDIATE")

        with pytest.raises(NotKept):
            forget_session(data, "s", step=step)
        other.execute("ROLLBACK")
    assert "tidegate.db" in rooms(tmp_path, *map(mark_of, ("ask", "call", "result")))
    forget_session(data, "s")
    assert not rooms(tmp_path, *map(mark_of, ("ask", "call", "result")))


def test_a_request_that_named_a_note_is_forgotten_there(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    policy = load("cowagent", {"max_context_turns": 2})
    ids: list[str] = []
    with data.open("s", "gpt-4o", policy=policy) as session:
        for number in range(4):
            ids += session.add({"role": "user", "content": f"{mark_of(str(number))} please"})
            session.prepare(lambda request: "- what it was about")
            session.add({"role": "assistant", "content": f"reply {number}"})
    assert remains(tmp_path / "memory", mark_of("0")) != []
    done = forget_message(data, "s", ids[0])
    assert done.changed_notes == tuple(data.notes.daily_names())
    assert done.session_notes == done.changed_notes
    assert remains(tmp_path, mark_of("0")) == []
    assert "- what it was about" in data.notes.read(data.notes.daily_names()[0])


def test_a_note_that_is_written_meanwhile_is_not_lost(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    day = data.notes.add_entry(f"one {SECRET}", source="s")
    others = ["two"]

    def change(name: str, text: str) -> str:
        while others:
            data.notes.add_entry(others.pop(), source="another session")
        return text.replace(SECRET, TOMBSTONE)

    assert rewrite_files(data.notes.folder, change) == (day,)
    assert [entry.text for entry in data.notes.read_entries(day)] == [f"one {TOMBSTONE}", "two"]


def test_a_file_whose_name_tells_is_given_another(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    opened(data).close()
    data.session_files("s").update(f"large_tool_results/{SECRET}.txt", lambda _: f"of {SECRET}")
    done = forget_words(data, "s", SECRET)
    assert done.changed_files == (f"large_tool_results/{TOMBSTONE}.txt",)
    assert data.session_files("s").read(done.changed_files[0]) == f"of {TOMBSTONE}"
    assert [path for path in tmp_path.rglob("*") if SECRET in path.name] == []
    assert remains(tmp_path, SECRET) == []


def test_what_cannot_be_done_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    ids = lived(data)
    head = data.store.head("s")
    for words in ("abc", "  abc  ", "forgotten", "gott", "[for"):
        with pytest.raises(BadInput):
            forget_words(data, "s", words)
    for ident in ("m999", "x1", "", "m", "e1.1", str(10**30)):
        with pytest.raises(BadInput):
            forget_message(data, "s", ident)
    with pytest.raises(BadInput):
        forget_message(data, "s")
    with pytest.raises(SessionNotFound):
        forget_words(data, "nobody", "some words")
    with pytest.raises(SessionNotFound):
        forget_session(data, "nobody")
    with opened(data, "s"), pytest.raises(BadInput, match="in use"):
        forget_words(data, "s", mark_of("ask"))
    assert data.store.head("s") == head
    assert mark_of("ask") in text_of(recall_message(data.open_log("s"), ids["ask"]))


def test_what_a_killed_writer_left_goes_and_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    ids = lived(data)
    (tmp_path / "sessions" / "s" / ".writing").write_text(mark_of("ask"))
    (tmp_path / "memory").mkdir(exist_ok=True)
    (tmp_path / "memory" / ".2026.md.x.writing").write_text(mark_of("ask"))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "rows").write_bytes(b"who knows")
    done = forget_message(data, "s", ids["ask"])
    assert remains(tmp_path, mark_of("ask")) == []
    assert done.damaged_pieces == ("damaged/rows",)
    assert "damaged/rows" in str(done)


def test_a_store_that_cannot_rewrite_says_so(tmp_path: Path) -> None:
    class Plain:
        """A store as a third party may have it: the protocol and nothing more."""

        def __init__(self) -> None:
            kept = MemoryStore()
            self.append, self.read, self.head = kept.append, kept.read, kept.head
            self.sessions, self.fork, self.delete, self.close = kept.sessions, kept.fork, kept.delete, kept.close

    data = DataFolder(tmp_path, store=Plain(), secrets=[])
    lived(data)
    with pytest.raises(BadInput, match="cannot change"):
        forget_words(data, "s", SECRET)
    forget_session(data, "s")
    assert data.store.sessions() == []
