"""After an overflow error the agent does what the document of its preset says, and asks again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.seeds.agent_talk import Json, Talk, call, run_agent
from tests.fake.server import Step
from tests.fake.words import too_long
from tidegate import DataFolder, GiveUp
from tidegate.agent.loop import RequestRefused
from tidegate.models.errors.classification import ProviderError

SMALL = "execution: {context: {summary_brain: {provider: small, model: gpt-4o-mini}}}\n"
SUMMARY = "The user asked about many valves. Valve four opens at nine bar."
NEWEST = "And which valve is the last one? It must be closed by hand."
TURNS = 8


def refusing(times: int) -> Callable[[Json], Step]:
    """A model that refuses the request with the newest question so many times for its length."""
    left = [times]

    def answer(body: Json) -> Step:
        if NEWEST in str(body["messages"][-1]) and left[0]:
            left[0] -= 1
            return too_long("openai_chat", 200_000, 128_000)
        last = body["messages"][-1]
        if last["role"] == "user" and "read it" in str(last["content"])[-40:]:
            return call("read", '{"path": "log.txt"}', f"c{len(body['messages'])}")
        return f"Answer to: {str(last['content'])[:12]}. " + "It opens at nine bar. " * 20

    return answer


def talk_until_refused(folder: Path, config: str, times: int) -> Talk:
    """Eight turns, each with a tool call, and then a question that the provider refuses for its length."""
    (folder / "log.txt").write_text("pressure is nine bar, valve four is open\n" * 400)
    asks = [f"Question {number}: " + "what about the valve? " * 20 + "read it" for number in range(TURNS)]
    return run_agent(folder, config, refusing(times), *asks, NEWEST, small=lambda _: SUMMARY)


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def user_texts(body: Json) -> list[str]:
    return [str(message["content"]) for message in body["messages"] if message["role"] == "user"]


@pytest.mark.seed("COW-09")
def test_cowagent_saves_all_trims_hard_and_at_last_clears(tmp_path: Path) -> None:
    talk = talk_until_refused(tmp_path, "policy: cowagent\n" + SMALL, 2)
    assert len(talk.events(RequestRefused)) == 2
    first, trimmed, cleared = talk.bodies[-3:]
    assert all(f"Question {number}" in str(first) for number in range(TURNS))
    saved = str(talk.small_bodies)
    assert all(f"Question {number}" in saved for number in range(TURNS)), "everything is summarized into memory"
    assert len(user_texts(trimmed)) <= 5
    assert all(len(each["content"]) <= 10_000 for each in trimmed["messages"] if each["role"] == "tool")
    assert [text for text in user_texts(cleared) if "Question" in text] == []
    assert NEWEST in user_texts(cleared)[-1]
    data = DataFolder(tmp_path / "data", secrets=[])
    notes = "".join(path.read_text() for path in (tmp_path / "data" / "memory").rglob("*.md"))
    logged = "".join(str(event.payload) for event in data.open_log("build").read())
    data.close()
    assert SUMMARY in notes, "in the daily memory file"
    assert all(f"Question {number}" in logged for number in range(TURNS)), "the record keeps all"


@pytest.mark.seed("PIC-04")
def test_picoclaw_drops_the_oldest_half_and_asks_once_more(tmp_path: Path) -> None:
    talk = talk_until_refused(tmp_path, "policy: picoclaw\n" + SMALL, 1)
    assert len(talk.events(RequestRefused)) == 1
    assert talk.small_bodies == [], "no summary: the model refuses"
    first, again = talk.bodies[-2:]
    assert 0.3 * len(first["messages"]) < len(again["messages"]) < 0.7 * len(first["messages"])
    assert "oldest half of the conversation was left out" in str(again)
    assert again["messages"][0] == first["messages"][0], "the system prompt is not touched"
    assert NEWEST in user_texts(again)[-1]
    with pytest.raises((ProviderError, GiveUp)):
        talk_until_refused(make_folder(tmp_path / "again"), "policy: picoclaw\n" + SMALL, 2)


@pytest.mark.seed("DIG-10")
def test_digitorn_truncates_to_half_clips_and_reminds(tmp_path: Path) -> None:
    talk = talk_until_refused(tmp_path, "policy: {name: digitorn, settings: {keep_recent: 6}}\n" + SMALL, 1)
    assert len(talk.events(RequestRefused)) == 1
    assert talk.small_bodies == [], "truncate only"
    first, again = talk.bodies[-2:]
    assert "[Earlier messages truncated]" in str(again)
    assert "[Context reminder" in str(again)
    assert "* read" in str(again)
    said = [each for each in again["messages"] if each["role"] in ("assistant", "tool")]
    assert len(said) <= 4, "keep_recent // 2, and a group is not cut for it"
    assert NEWEST in user_texts(again)[-1]
    assert len(str(again)) < len(str(first)) / 2


@pytest.mark.seed("AI-09")
def test_ai_compacts_and_asks_once_more(tmp_path: Path) -> None:
    config = "policy: {name: ai, settings: {keep_recent_tokens: 1000, tool_summary_strategy: off}}\n" + SMALL
    talk = talk_until_refused(tmp_path, config, 1)
    assert len(talk.events(RequestRefused)) == 1
    again = talk.bodies[-1]
    assert "[Previous conversation summary]" in str(again)
    assert SUMMARY in str(again)
    assert "Question 0" not in str(again["messages"])
    assert NEWEST in user_texts(again)[-1]
    notes = [event.payload for event in talk.session.log.read() if hasattr(event.payload, "topic")]
    topics = [getattr(note, "topic", "") for note in notes]
    assert topics.count("compaction_start") == topics.count("compaction_end") == 1
    with pytest.raises((ProviderError, GiveUp)):
        talk_until_refused(make_folder(tmp_path / "again"), config, 2)
