"""The same for the other presets: files of a session, another model, cooldowns over a restart."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.seeds.restarts import WINDOW, elsewhere, kept
from tests.seeds.talk import (
    SYSTEM,
    Clock,
    Preset,
    Scribe,
    asks,
    batch,
    calls,
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
    turns,
)
from tidegate import Session, SummaryRequest
from tidegate.datafolder.data_folder import DataFolder

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
    files = DataFolder(tmp_path).session_files("a job/7")
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
@pytest.mark.seed("JUT-11", change={"summarize_at": 0.94})
def test_the_turns_are_in_the_history_file_before_they_are_summarized(preset: Preset, tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    policy = preset("jutul", history_file="conversation_history/thread-7.md")
    saved: list[str | None] = []

    def summarize(request: SummaryRequest) -> str:
        saved.append(data.session_files("s").read("conversation_history/thread-7.md"))
        return "## Session intent\n- four bar"

    session = kept(data, policy, window=WINDOW)
    session.add(*turns(1, 12, reply=29_000), asks("ask-13"))
    request = session.prepare(summarize)
    text = only(saved) or ""
    assert passage("ask-1") in text
    assert passage("reply-1", 29_000) in text
    assert text == data.session_files("s").read("conversation_history/thread-7.md")
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
    name = only(data.session_files("s").names())
    content = (data.session_files("s").root / name).read_bytes()
    assert content == whole.encode()
    assert name in shown
    assert hashlib.sha256(content).hexdigest() in shown
    assert paired(session.render_request()) == [("out",)]


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
