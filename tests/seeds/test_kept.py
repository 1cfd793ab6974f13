"""Promises that need a disk and a restart: sessions are in a data folder, and a process ends by being killed."""

import hashlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.seeds.talk import (
    SYSTEM,
    Clock,
    Preset,
    Scribe,
    asks,
    batch,
    calls,
    edits,
    fate,
    names,
    numbers,
    only,
    paired,
    passage,
    replies,
    result,
    results,
    rules,
    said,
    stages,
    turn,
    turns,
)
from tidegate import Policy, Session, SummaryRequest
from tidegate.keep.data import DataFolder
from tidegate.keep.retention import DAY

WINDOW = 100_000


class Chronicle(Scribe):
    """A scribe that never says the same twice: memory keeps what it has already heard only once."""

    def __call__(self, request: SummaryRequest) -> str:
        super().__call__(request)
        return f"{self.text} {len(self.asked)}"


def kept(data: DataFolder, policy: Policy, name: str = "s", model: str = "", **more: Any) -> Session:
    return data.open(name, model, policy=policy, **{"window": 200_000, "system": SYSTEM, "count": "chars/4", **more})


def elsewhere(act: Callable[[], Any]) -> Any:
    """What `act` gives in another process, which is then killed: it closes nothing and says goodbye to nobody.

    What fails there fails here.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def child(answer: Connection) -> None:
        try:
            answer.send((act(), ""))
        except BaseException:  # noqa: BLE001 - it is passed on
            answer.send((None, traceback.format_exc()))
        os.kill(os.getpid(), signal.SIGKILL)

    process = context.Process(target=child, args=(there,))
    process.start()
    there.close()
    try:
        given, failure = here.recv()
    finally:
        process.join()
    assert not failure, failure
    return given


def memory(folder: Path) -> str:
    """The daily memory file, of which there must be one."""
    day = only(list((folder / "memory").glob("????-??-??.md")))
    return day.read_text()


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
@pytest.mark.seed("COW-08", without=("token_limit",))
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
        return DataFolder(tmp_path, clock=lambda: today + day * DAY)

    for name, policy in (("cow", preset("cowagent")), ("mine", preset("default"))):
        with kept(on_day(0), policy, name) as session:
            session.add(asks(f"ask-{name}"))
            session.prepare()
    for day, left in ((29.5, {"cow", "mine", "new"}), (31.0, {"mine", "new"}), (10_000.0, {"mine", "new"})):
        data = on_day(day)
        kept(data, preset("default"), "new").close()
        assert {info.name for info in data.store.sessions()} == left
        assert [removed.session for removed in data.removed] == (["cow"] if day == 31.0 else [])
    assert '"session":"cow"' in (tmp_path / "removed.jsonl").read_text()
    assert not (tmp_path / "traces" / "cow.jsonl").exists()
    with kept(on_day(0), preset("default"), "mine") as session:
        assert said(session) == [passage("ask-mine")]


@pytest.mark.seed("COW-12", change={"retention_days": 0})
def test_a_session_that_is_open_is_not_cleaned_up(preset: Preset, tmp_path: Path) -> None:
    later = time.time() + 60 * DAY
    session = kept(DataFolder(tmp_path), preset("cowagent"), "cow")
    session.add(asks("ask-1"))
    data = DataFolder(tmp_path, clock=lambda: later)
    kept(data, preset("default"), "other").close()
    assert data.removed == []
    session.add(replies("reply-1"))
    session.close()
    later += DAY
    kept(data, preset("default"), "other").close()
    assert [removed.session for removed in data.removed] == ["cow"]


@pytest.mark.seed("COW-13", without=("restore/text_only_turns",))
def test_a_cleared_context_stays_cleared_after_a_restart(preset: Preset, tmp_path: Path) -> None:
    """What was said before the clear does not come back with the restore; what was said after it does, as text."""

    def first() -> None:
        session = kept(DataFolder(tmp_path), preset("cowagent"))
        session.add(*turns(1, 3, (300,)))
        session.prepare()
        session.clear()

    def second() -> list[str]:
        session = kept(DataFolder(tmp_path), preset("cowagent"))
        assert session.view.messages == 0
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
        session.clear()

    elsewhere(first)
    for words in ("relief valve", "pump_7", "opens at 4.5 bar"):
        hit = only(DataFolder(tmp_path).search().search(words, kind="note"))
        assert "pump_7 opens at 4.5 bar" in hit.snippet
        assert hit.name.endswith(".md")


# --- jutul ------------------------------------------------------------------------------------------------------------


@pytest.mark.seed("JUT-06", change={"evict_tokens": 10**6})
def test_sessions_keep_their_state_and_carry_it_to_another_model(preset: Preset, tmp_path: Path) -> None:
    """Two sessions side by side in one process; then each goes on in another, with a model of another wire format."""
    policy = preset("jutul")

    def first() -> None:
        data = DataFolder(tmp_path)
        for name in ("a", "b"):
            session = kept(data, policy, name, "gpt-4o", window=WINDOW)
            session.add(asks(f"ask-{name}"), *batch(f"huge-{name}", 120_000))
            assert names(session.prepare())[0] == f"ask-{name}"
            session.add(replies(f"reply-{name}"))

    def second(name: str, model: str, wire: str) -> tuple[str, dict[str, Any]]:
        session = kept(DataFolder(tmp_path), policy, name, model, window=WINDOW)
        assert session.dialect.name == wire
        session.add(asks(f"next-{name}"))
        return name, dict(session.prepare().body)

    elsewhere(first)
    _, claude = elsewhere(lambda: second("a", "claude-sonnet-4-5", "anthropic"))
    assert [message["role"] for message in claude["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert SYSTEM in str(claude["system"])
    call = claude["messages"][1]["content"][0]
    answer = claude["messages"][2]["content"][0]
    assert (call["type"], call["id"]) == ("tool_use", answer["tool_use_id"])
    assert "Saved to large_tool_results/" in str(answer["content"])
    _, gemini = elsewhere(lambda: second("b", "gemini-2.5-pro", "gemini"))
    assert "<ask-b>" in str(gemini["contents"])
    assert "<reply-b>" in str(gemini["contents"])
    assert "-a>" not in str(gemini), "nothing of the other session"
    _, chat = elsewhere(lambda: second("a", "gpt-4o", "openai_chat"))
    assert names(chat["messages"], "ask-") == ["ask-a"]
    assert names(chat["messages"], "next-") == ["next-a", "next-a"]


@pytest.mark.seed("JUT-09", change={"evict_tokens": 10**6})
def test_a_huge_result_is_a_file_of_the_session(preset: Preset, tmp_path: Path) -> None:
    whole = passage("huge", 80_004, lines=2_000)

    def first() -> str:
        session = kept(DataFolder(tmp_path), preset("jutul"), "a job/7", window=WINDOW)
        session.add(asks("ask-1"), calls("huge"), result("huge", whole))
        return results(session.prepare())["huge"]

    shown = elsewhere(first)
    files = DataFolder(tmp_path).files("a job/7")
    name = only(files.names())
    assert name.startswith("large_tool_results/")
    assert name in shown
    assert "\n".join(whole.splitlines()[:4]) in shown
    path = files.root / name
    assert path.read_text() == whole
    assert path.is_relative_to(tmp_path / "sessions")
    assert path.stat().st_mode & 0o777 == 0o600
    session = kept(DataFolder(tmp_path), preset("jutul"), "a job/7", window=WINDOW)
    part = "\n".join(path.read_text().splitlines()[1_000:1_050])
    session.add(calls("read", arguments=f'{{"path": "{name}"}}'), result("read", part))
    found = results(session.prepare())
    assert found["read"] == part
    assert found["huge"] == shown, "the preview is the same after a restart"


@pytest.mark.seed("JUT-11", change={"history_file": ""})
@pytest.mark.seed("JUT-11", change={"summarise_at": 0.94})
def test_the_turns_are_in_the_history_file_before_they_are_summarised(preset: Preset, tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    policy = preset("jutul", history_file="conversation_history/thread-7.md")
    saved: list[str | None] = []

    def summarise(request: SummaryRequest) -> str:
        saved.append(data.files("s").read("conversation_history/thread-7.md"))
        return "## Session intent\n- four bar"

    session = kept(data, policy, window=WINDOW)
    session.add(*turns(1, 12, reply=29_000), asks("ask-13"))
    request = session.prepare(summarise)
    text = only(saved) or ""
    assert passage("ask-1") in text
    assert passage("reply-1", 29_000) in text
    assert text == data.files("s").read("conversation_history/thread-7.md")
    summary = request.messages[1]["content"]
    assert "- four bar" in summary
    assert "conversation_history/thread-7.md" in summary
    assert numbers(request, "ask-")[0] > 1


# --- ai, digitorn -----------------------------------------------------------------------------------------------------


@pytest.mark.seed("AI-05", change={"large_output_threshold": 10**6})
def test_huge_output_is_a_file_of_the_session_with_its_hash(preset: Preset, tmp_path: Path) -> None:
    whole = passage("out", 204_801, lines=50)
    data = DataFolder(tmp_path)
    session = kept(data, preset("ai"))
    session.add(asks("ask-1"), calls("out"), result("out", whole))
    shown = results(session.prepare())["out"]
    name = only(data.files("s").names())
    content = (data.files("s").root / name).read_bytes()
    assert content == whole.encode()
    assert name in shown
    assert hashlib.sha256(content).hexdigest() in shown
    assert paired(session.request()) == [("out",)]


@pytest.mark.seed("DIG-08", change={"cooldown_turns": 0})
@pytest.mark.seed("DIG-08", change={"cooldown_turns": 3})
def test_the_cooldown_outlives_a_restart(preset: Preset, tmp_path: Path) -> None:
    """Each turn is a process of its own."""
    clock = Clock()
    policy = preset("digitorn", keep_recent=4, output_reserved=4_000, reminder_tokens=0)

    def opened() -> Session:
        return kept(DataFolder(tmp_path, clock=clock), policy, window=20_000, system="")

    def first() -> list[str]:
        session = opened()
        session.add(asks("ask-1", 8_000), replies("reply-1", 16_400), asks("ask-2", 16_400), replies("reply-2", 16_400))
        session.add(asks("ask-3"))
        session.prepare(Scribe())
        return rules(session)

    def later(number: int) -> tuple[list[str], str]:
        session = opened()
        session.add(replies(f"reply-{number - 1}"), asks(f"ask-{number}"))
        session.prepare(Scribe())
        return rules(session), fate(session, "_auto_compact")

    assert elsewhere(first) == ["_auto_compact"]
    for number in (4, 5):
        clock.now += 60
        acted, why = elsewhere(lambda number=number: later(number))  # type: ignore[misc] # bound now
        assert acted == ["_auto_compact"]
        assert "cooling down" in why
    clock.now += 60
    assert elsewhere(lambda: later(6))[0] == ["_auto_compact", "_auto_compact"]


def test_a_process_that_fails_is_seen_here() -> None:
    """What is asserted in another process would else pass whatever happened there."""
    with pytest.raises(AssertionError, match="AttributeError"):
        elsewhere(lambda: stages(None))  # type: ignore[arg-type]
