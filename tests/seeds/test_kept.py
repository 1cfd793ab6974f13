"""Promises that need a disk and a restart: sessions are in a data folder, and a process ends by being killed."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.seeds.restarts import Chronicle, elsewhere, kept, memory
from tests.seeds.talk import (
    Preset,
    Scribe,
    asks,
    edits,
    names,
    numbers,
    only,
    passage,
    replies,
    said,
    stages,
    turn,
    turns,
)
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.retention import DAY_SECONDS

# --- cowagent ---------------------------------------------------------------------------------------------------------


@pytest.mark.seed("COW-06", change={"memory_tokens": 0})
@pytest.mark.seed("COW-06", without=("turn_limit",))
def test_what_a_trim_takes_stands_in_the_daily_memory_file(preset: Preset, tmp_path: Path) -> None:
    session = kept(DataFolder(tmp_path), preset("cowagent"))
    session.add(*turns(1, 20, (200,)))
    before = session.prepare(Scribe())
    assert not (tmp_path / "memory").exists()
    session.add(asks("ask-21"))
    after = session.prepare(Scribe("- the user wants four bar"))
    assert "- the user wants four bar\n" in memory(tmp_path)
    assert " · s · <ask-1>" in memory(tmp_path)
    assert numbers(after, "ask-") == list(range(11, 22))
    assert after.messages[1:-1] == before.messages[41:81], "what remains is untouched"


@pytest.mark.seed("COW-08", change={"memory_tokens": 0})
@pytest.mark.seed("COW-08", without=("token_limit", "token_limit_rest", "running_limit"))
def test_both_halves_stand_in_the_daily_memory_file(preset: Preset, tmp_path: Path) -> None:
    session = kept(DataFolder(tmp_path), preset("cowagent"))
    session.add(*turns(1, 20, (19_000, 9_000)), asks("ask-21"))
    request = session.prepare(Chronicle("- half"))
    assert numbers(request, "ask-") == list(range(16, 22))
    text = memory(tmp_path)
    assert text.index("- half 1\n") < text.index("- half 2\n")
    assert text.count("\n## ") == 2


@pytest.mark.seed("COW-09", without=("overflow/flush_memory",))
@pytest.mark.seed("COW-09", without=("overflow/clear_context",))
def test_an_overflow_saves_all_into_memory_and_clears_only_the_context(preset: Preset, tmp_path: Path) -> None:
    def overflow() -> list[str]:
        session = kept(DataFolder(tmp_path), preset("cowagent"))
        session.add(*turns(1, 7, (11_000,)), asks("ask-8"))
        session.prepare()
        second = session.overflowed(Scribe("- all that was worth keeping"))
        assert numbers(second, "ask-") == [4, 5, 6, 7, 8]
        return names(session.overflowed())

    assert elsewhere(overflow) == ["ask-8"]
    assert "- all that was worth keeping\n" in memory(tmp_path)
    data = DataFolder(tmp_path)
    session = kept(data, preset("cowagent"))
    assert passage("call-1.1.1", 11_000) in said(session), "the record on disk is not cleared"
    session.add(replies("reply-8"), asks("ask-9"))
    assert names(session.prepare()) == ["ask-8", "reply-8", "ask-9"]


@pytest.mark.seed("COW-10", without=("restore/text_only_turns",))
def test_a_conversation_is_in_a_local_database_and_comes_back(preset: Preset, tmp_path: Path) -> None:
    """Said in one process, which is killed; restored in a second one; gone on with in a third."""

    def first() -> list[str]:
        session = kept(DataFolder(tmp_path), preset("cowagent"))
        session.add(*turns(1, 2, (300,)))
        session.prepare()
        return said(session)

    def second() -> list[str]:
        session = kept(DataFolder(tmp_path), preset("cowagent"))
        assert said(session) == texts
        session.add(asks("ask-3"))
        return names(session.prepare())

    texts = elsewhere(first)
    assert (tmp_path / "tidegate.db").stat().st_size > 0
    assert elsewhere(second) == ["ask-1", "reply-1", "ask-2", "reply-2", "ask-3"]
    session = kept(DataFolder(tmp_path), preset("cowagent"))
    assert said(session) == [*texts, passage("ask-3")]


@pytest.mark.seed("COW-11", change={"max_context_turns": 60})
@pytest.mark.seed("COW-11", without=("restore/text_only_turns",))
def test_a_restart_restores_the_newest_turns_as_text_in_one_edit(preset: Preset, tmp_path: Path) -> None:
    policy = preset("cowagent", max_context_turns=30)

    def first() -> int:
        session = kept(DataFolder(tmp_path), policy)
        session.add(*turns(1, 8, (300, 300), (300,)))
        session.prepare()
        return len(edits(session))

    def second() -> list[dict[str, Any]]:
        session = kept(DataFolder(tmp_path), policy)
        assert len(edits(session)) == before + 1
        session.add(asks("ask-9"))
        return [dict(message) for message in session.prepare().messages]

    before = elsewhere(first)
    restored = elsewhere(second)
    texts = [text for number in range(4, 9) for text in (asks(f"ask-{number}"), replies(f"reply-{number}"))]
    assert restored[1:] == [*texts, asks("ask-9")]


@pytest.mark.seed("COW-12", change={"retention_days": 90})
@pytest.mark.seed("COW-12", change={"retention_days": 0})
def test_after_thirty_days_a_session_goes_by_itself(preset: Preset, tmp_path: Path) -> None:
    """Nobody asks for it: opening any session of the folder is enough. One of the default policy stays for ever."""
    today = time.time()

    def on_day(day: float) -> DataFolder:
        return DataFolder(tmp_path, clock=lambda: today + day * DAY_SECONDS)

    for name, policy in (("cow", preset("cowagent")), ("mine", preset("default"))):
        with kept(on_day(0), policy, name) as session:
            session.add(asks(f"ask-{name}"))
            session.prepare()
    for day, left in ((29.5, {"cow", "mine", "new"}), (31.0, {"mine", "new"}), (10_000.0, {"mine", "new"})):
        data = on_day(day)
        kept(data, preset("default"), "new").close()
        assert {info.name for info in data.store.sessions()} == left
        assert [removed.session for removed in data.removed_sessions] == (["cow"] if day == 31.0 else [])
    assert '"session":"cow"' in (tmp_path / "removed.jsonl").read_text()
    assert not (tmp_path / "traces" / "cow.jsonl").exists()
    with kept(on_day(0), preset("default"), "mine") as session:
        assert said(session) == [passage("ask-mine")]


@pytest.mark.seed("COW-12", change={"retention_days": 0})
def test_a_session_that_is_open_is_not_cleaned_up(preset: Preset, tmp_path: Path) -> None:
    later = time.time() + 60 * DAY_SECONDS
    session = kept(DataFolder(tmp_path), preset("cowagent"), "cow")
    session.add(asks("ask-1"))
    data = DataFolder(tmp_path, clock=lambda: later)
    kept(data, preset("default"), "other").close()
    assert data.removed_sessions == []
    session.add(replies("reply-1"))
    session.close()
    later += DAY_SECONDS
    kept(data, preset("default"), "other").close()
    assert [removed.session for removed in data.removed_sessions] == ["cow"]


@pytest.mark.seed("COW-13", without=("restore/text_only_turns",))
def test_a_cleared_context_stays_cleared_after_a_restart(preset: Preset, tmp_path: Path) -> None:
    """What was said before the clear does not come back with the restore; what was said after it does, as text."""

    def first() -> None:
        session = kept(DataFolder(tmp_path), preset("cowagent"))
        session.add(*turns(1, 3, (300,)))
        session.prepare()
        session.history.clear()

    def second() -> list[str]:
        session = kept(DataFolder(tmp_path), preset("cowagent"))
        assert session.view.message_count == 0
        session.add(*turn(4, (300,)))
        return names(session.prepare())

    elsewhere(first)
    assert elsewhere(second) == ["ask-4", "call-4.1.1", "reply-4"]
    session = kept(DataFolder(tmp_path), preset("cowagent"))
    session.add(asks("ask-5"))
    assert names(session.prepare()) == ["ask-4", "reply-4", "ask-5"]
    assert passage("ask-1") in said(session), "the record is not cleared"


@pytest.mark.seed("COW-14", change={"memory_tokens": 0})
@pytest.mark.seed("COW-14", without=("turn_limit",))
def test_memory_is_found_after_a_clear(preset: Preset, tmp_path: Path) -> None:
    def first() -> None:
        session = kept(DataFolder(tmp_path), preset("cowagent"))
        session.add(*turns(1, 20), asks("ask-21"))
        session.prepare(Scribe("- the relief valve of pump_7 opens at 4.5 bar"))
        session.history.clear()

    elsewhere(first)
    for words in ("relief valve", "pump_7", "opens at 4.5 bar"):
        hit = only(DataFolder(tmp_path).open_search().search(words, kind="note"))
        assert "pump_7 opens at 4.5 bar" in hit.snippet
        assert hit.name.endswith(".md")


def test_a_process_that_fails_is_seen_here() -> None:
    """What is asserted in another process would else pass whatever happened there."""
    with pytest.raises(AssertionError, match="AttributeError"):
        elsewhere(lambda: stages(None))  # type: ignore[arg-type]
