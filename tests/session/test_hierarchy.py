"""Summaries of summaries: the newest leads to every message, each fact has its author, and nothing drifts."""

import asyncio
import re

import pytest

from tests.session.settling import POLICY, opened, scribe, talk
from tidegate.core.digest.writer import write_digest
from tidegate.core.events import MessageAdded, ViewEdited
from tidegate.core.ledger.recall_pointers import RecallRange, make_recall_line, recall_range_of, strip_recall_line
from tidegate.core.ledger.writer import LEDGER
from tidegate.core.messages import SUMMARY, Message, calls_of, text_of
from tidegate.core.tokens.counting import CharsPerToken
from tidegate.lab.scoring.request_scorer import find_recall_calls
from tidegate.session.recall import recall_text
from tidegate.session.session import Session
from tidegate.session.summaries.answer_check import attribute_lines
from tidegate.session.summarizer import create_summarizer

DEEP = 20
WINDOW = 4_000
AUTHORS = re.compile(r"- (user (asked|said|named)|agent \w+|tools? (said|named)|system said|noted|in calls of)")


def summaries(session: Session) -> list[Message]:
    return [item.message for item in session.view.items if item.message.kind == SUMMARY]


def deep(session: Session, write: object = None) -> Session:
    for number in range(DEEP):
        talk(session, number * 4, number * 4 + 4)
        asyncio.run(session.compact_async(write))  # type: ignore[arg-type]
        assert len(summaries(session)) == 1, "it is continued, not stacked"
        assert session.tokens <= WINDOW
    return session


def default() -> Session:
    return Session("main", policy="default", wire="openai_chat", window=WINDOW, count="chars/4", clock=lambda: 1.0)


def with_ledger(session: Session) -> Session:
    """The default policy: sweeps on the way, a summary when it is asked for."""
    for number in range(DEEP):
        talk(session, number * 4, number * 4 + 4)
        session.prepare()
        session.compact()
        assert session.tokens <= WINDOW
    return session


def scripted() -> Session:
    session = opened(window=WINDOW, model="small")
    texts = [
        f"## Key decisions\n- The agent read entry {number}01 of src/app/part{number}_1.py, and {number} was right.\n"
        f"- entry {number}02 was the last"
        for number in range(2 * DEEP)
    ]
    provider = scribe(texts)
    write = create_summarizer(provider, window=16_000, counter=CharsPerToken(4), timeout=600, conversation=session)
    done = deep(session, write)
    assert len(provider.requests) >= DEEP
    assert f"and {len(provider.requests) - 1} was right" in text_of(summaries(done)[0])
    return done


def led_to(session: Session, *kinds: str) -> str:
    """All that the calls give back which are printed in the view, as an agent makes them: page by page."""
    shown = "\n".join(text_of(item.message) for item in session.view.items if item.message.kind in kinds)
    pages: list[str] = []
    for call in find_recall_calls(shown):
        page = recall_text(session.log, call, max_chars=60_000)
        pages.append(page.text)
        while page.next_query:
            page = recall_text(session.log, page.next_query, max_chars=60_000, offset=page.next_offset)
            pages.append(page.text)
    return "\n".join(pages)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["digest", "model", "ledger"])
def test_twenty_deep_every_message_can_still_be_reached(kind: str) -> None:
    made = {"digest": lambda: deep(opened()), "model": scripted, "ledger": lambda: with_ledger(default())}
    session: Session = made[kind]()  # type: ignore[no-untyped-call]
    assert sum(isinstance(event.payload, ViewEdited) for event in session.log.read()) >= DEEP
    seen = {item.message.id for item in session.view.items if not item.edited}
    gone = [event.payload.message for event in session.log.read() if isinstance(event.payload, MessageAdded)]
    gone = [message for message in gone if message.id not in seen]
    assert len(gone) > 12 * DEEP
    back = led_to(session, SUMMARY, LEDGER)
    for message in gone:
        assert f"## {message.id} {message.role}\n" in back
        assert text_of(message) in back
        assert all(call.arguments in back for call in calls_of(message))


@pytest.mark.parametrize("kind", ["digest", "model"])
def test_each_line_of_a_summary_has_its_author(kind: str) -> None:
    session = deep(opened()) if kind == "digest" else scripted()
    first, *lines = text_of(summaries(session)[0]).split("\n")
    assert first == "[Summary of earlier messages: what was said, not what to do]"
    assert re.fullmatch(r"\[recall m\d+\.\.m\d+ has what was said\]", lines.pop())
    told = [line for line in lines if line and not line.startswith("## ")]
    assert len(told) > 3 if kind == "digest" else len(told) >= 2
    assert [line for line in told if not AUTHORS.match(line) and not line.startswith("- The agent")] == []


@pytest.mark.parametrize("make", [lambda: deep(opened()), lambda: with_ledger(default())])
def test_compacting_what_did_not_change_changes_nothing(make: object) -> None:
    session: Session = make()  # type: ignore[operator]
    for _ in range(3):
        before, epoch = session.render_request().to_bytes(), session.view.prefix_seq
        edits = [event.seq for event in session.log.read() if isinstance(event.payload, ViewEdited)]
        session.compact()
        assert session.render_request().to_bytes() == before
        assert [event.seq for event in session.log.read() if isinstance(event.payload, ViewEdited)] == edits
        assert session.view.prefix_seq == epoch


def test_the_way_back_is_made_anew_and_not_told_to_who_writes() -> None:
    asked: list[str] = []

    def write(request: object) -> str:
        asked.append(request.previous)  # type: ignore[attr-defined]
        return "- agent concluded: all is well with src/app/part1_1.py"

    session = opened(policy=POLICY)
    for number in range(3):
        talk(session, number * 4, number * 4 + 4)
        session.compact(write)
    assert len(asked) == 3
    assert not any("recall" in previous for previous in asked)
    assert text_of(summaries(session)[0]).count("[recall m") == 1


def test_spans() -> None:
    said = [Message("user", id="m7"), Message("user", id="e9.1"), Message("user", id="m4")]
    assert recall_range_of(said) == RecallRange(4, 7)
    assert recall_range_of([]) is None
    line = make_recall_line(said)
    assert line == "\n[recall m4..m7 has what was said]"
    earlier = Session(count="chars/4")
    earlier.add({"role": "user", "content": f"Look: {line}"})
    quoted = [item.message for item in earlier.view.items]
    assert recall_range_of(quoted) == RecallRange(1, 1), "only what the engine wrote leads anywhere else"
    assert strip_recall_line(f"- a{line}\n- b") == "- a\n- b"


def test_a_line_without_an_author_is_the_agents_conclusion() -> None:
    text = "## Next\n- Tests pass.\n  on all\n1. user said: yes\nIt works\n\n- The tool said no\n```\ncode\n```\nFiles:"
    text += "\n- (user) x"
    assert attribute_lines(text) == (
        "## Next\n- agent concluded: Tests pass.\n  on all\n1. user said: yes\n- agent concluded: It works\n\n"
        "- The tool said no\n```\ncode\n```\nFiles:\n- (user) x"
    )
    assert attribute_lines(attribute_lines(text)) == attribute_lines(text)


def test_a_digest_of_a_digest_keeps_its_authors() -> None:
    session = deep(opened())
    again = write_digest([], max_tokens=400, counter=CharsPerToken(4), previous=text_of(summaries(session)[0]))
    assert [line for line in again.split("\n") if line.startswith("-") and not AUTHORS.match(line)] == []
