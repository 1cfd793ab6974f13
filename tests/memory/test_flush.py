"""From a session's view into the day's note, and found again."""

from datetime import UTC
from pathlib import Path

import pytest

from tidegate import Flush, Session, SessionStorage, Spill, SummaryRequest
from tidegate.core.messages import calls_of, text_of, user_message
from tidegate.memory.log_lines import extract_log_lines
from tidegate.memory.notes import NoteEffects, Notes, make_note_title
from tidegate.memory.search import Search

NOON = 1_763_208_000.0
DAY = "2025-11-15.md"


def opened(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "memory", zone=UTC, clock=lambda: NOON)


def talked(notes: Notes, turns: int = 21) -> Session:
    session = Session(policy="cowagent", window=128_000, log=SessionStorage(effects=NoteEffects(notes, "talk-1")))
    for number in range(1, turns + 1):
        session.add({"role": "user", "content": f"question {number} about the pump"})
        session.prepare(lambda _: "The pump in hall 7 runs at four bar; 阀门已更换.")
        session.add({"role": "assistant", "content": f"answer {number}"})
    return session


def test_what_left_is_in_the_note_and_is_found_after_a_clear(tmp_path: Path) -> None:
    notes = opened(tmp_path)
    session = talked(notes)
    (entry,) = notes.read_entries(DAY)
    assert entry.text == "The pump in hall 7 runs at four bar; 阀门已更换."
    assert (entry.time, entry.source, entry.title) == ("12:00:00", "talk-1", "question 1 about the pump")
    session.history.clear()
    session.add({"role": "user", "content": "which pressure?"})
    assert "four bar" not in str(session.prepare().messages)
    search = Search(notes, path=tmp_path / "search.db")
    for query in ("pump pressure bar", "hall 7", "阀门"):
        hit = search.search(query)[0]
        assert (hit.kind, hit.name) == ("note", DAY)
        assert "four bar" in hit.snippet


def test_the_log_itself_is_searched_after_a_clear(tmp_path: Path) -> None:
    session = talked(opened(tmp_path), turns=3)
    call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "etc/pump.toml"}'}}
    session.add({"role": "assistant", "content": None, "tool_calls": [call]})
    session.add({"role": "tool", "tool_call_id": "c1", "content": "pressure_limit = 4"})
    session.history.clear()
    search = Search(logs=lambda head: extract_log_lines("talk-1", session.log.read(head("talk-1") + 1)))
    (first, *_) = search.search("question 2")
    assert text_of(session.recall(f"m{first.place}")) == "question 2 about the pump"
    assert calls_of(session.recall(f"m{search.search('pump.toml')[0].place}"))[0].name == "read_file"
    assert "= 4" in search.search("pressureLimit")[0].snippet
    session.add({"role": "user", "content": "question 99"})
    assert search.search("99")[0].snippet == "question 99"
    assert search.refresh().line_count == 0


def test_a_flush_twice_is_one_entry(tmp_path: Path) -> None:
    notes = opened(tmp_path)
    carry = NoteEffects(notes, "s")
    flush = Flush(SummaryRequest((user_message("hello\nthere"),), "", 100), "they said hello")
    carry(flush)
    carry(flush)
    carry(Flush(flush.request, "  "))
    assert [(entry.title, entry.text) for entry in notes.read_entries(DAY)] == [("hello", "they said hello")]


def test_nothing_leaves_when_the_note_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("no folder")
    session = talked(opened(tmp_path))
    assert session.edit_counts == {}
    assert "question 1 about" in str(session.prepare(lambda _: "summary").messages)


def test_other_effects_go_to_others(tmp_path: Path) -> None:
    seen: list[object] = []
    spill = Spill("a", "b", "c")
    NoteEffects(opened(tmp_path), others=seen.append)(spill)
    assert seen == [spill]
    with pytest.raises(TypeError, match="Spill"):
        NoteEffects(opened(tmp_path))(spill)


def test_a_title_without_a_request() -> None:
    assert make_note_title([user_message("a note", "note")]) == "1 message"


def test_the_prompt_holds_the_index_and_a_note_only_once_it_is_read(tmp_path: Path) -> None:
    notes = opened(tmp_path)
    notes.write("pumps.md", "Hall 7 runs at four bar.", about="pressures of the pumps")
    session = Session("gpt-4o", system=f"You help.\n\n{notes.render_index()}")
    session.add({"role": "user", "content": "go"})
    sent = str(session.prepare().messages)
    assert "- [pumps.md](pumps.md): pressures of the pumps" in sent
    assert "four bar" not in sent
    session.add({"role": "user", "content": notes.read("pumps.md")})
    assert "four bar" in str(session.prepare().messages)
