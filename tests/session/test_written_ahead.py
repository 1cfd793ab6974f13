"""Summaries of a policy by the writer of `chat` and `run`: beside the calls, by a function that may ask in pieces."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.session.ahead import running, settled, summary
from tests.session.settling import COUNTER, GOOD, opened, scribe, talk
from tests.session.test_note_writer import failures_of
from tidegate.core.events import NoteAdded
from tidegate.core.notes import PreparedSummary
from tidegate.core.outcome import SummaryRequest
from tidegate.presets import load
from tidegate.session.note_writer import NoteRefused, NoteWriter
from tidegate.session.session import Session
from tidegate.session.summaries.model_question import ModelQuestion
from tidegate.session.summarizer import create_summarizer

QUICK = 60  # seconds: a call that waits for the model would wait for ever


class SlowSummary:
    """Writes when it is let."""

    def __init__(self, *texts: str | Exception) -> None:
        self.texts = list(texts)
        self.asked: list[SummaryRequest] = []
        self.go = asyncio.Event()

    async def __call__(self, request: SummaryRequest) -> str:
        self.asked.append(request)
        await self.go.wait()
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return text


def never_ask(question: ModelQuestion) -> str:
    raise AssertionError("the summary is not asked for as a request")


def write_ahead(session: Session, write: Callable[[SummaryRequest], Awaitable[str]]) -> NoteWriter:
    return NoteWriter(session, session.state_notes, never_ask, write_summary=write)


async def wait_for_writing(writer: NoteWriter) -> None:
    while writer.is_busy:
        await asyncio.sleep(0)
    await settled()


def picoclaw(**settings: Any) -> Session:
    policy = load("picoclaw", {"background": True, "max_tokens": 8_000} | settings)
    return Session("main", policy=policy, window=40_000, wire="openai_chat", count="chars/4")


async def talk_until_asked(session: Session, slow: SlowSummary, first: int = 1) -> int:
    """Talk until a summary is being written. Return the number of the next turn."""
    writer = session.state_notes.writer
    while writer is not None and not writer.is_busy:
        talk(session, first, first + 1)
        await settled()
        first += 1
    while not slow.asked:
        await asyncio.sleep(0)
    return first


def prepared_in(session: Session) -> list[str]:
    noted = (event.payload for event in session.log.read())
    return [what.text for what in noted if isinstance(what, NoteAdded) and what.topic == PreparedSummary.topic]


def test_the_summary_is_there_when_the_policy_asks_for_it() -> None:
    """It has room for lines about newer messages."""

    async def test() -> None:
        session, slow = picoclaw(), SlowSummary(f"ahead: {GOOD}")
        writer = write_ahead(session, slow)
        number = await talk_until_asked(session, slow)
        assert slow.asked[0].max_tokens < 1_024
        slow.go.set()
        await wait_for_writing(writer)
        talk(session, number, number + 1)
        session.add({"role": "user", "content": "and now?"})
        request = await session.prepare_async()
        assert "ahead: " in request.to_bytes().decode()
        assert len(prepared_in(session)) == 1
        await writer.close()

    running(test)


@pytest.mark.seed("PIC-11", fixed="the summarizer decides, whatever the preset says")
def test_a_quick_next_message_does_not_wait() -> None:
    """The request is sent as it is; the summary that was written meanwhile is used after the next turn."""

    async def test() -> None:
        session, slow = picoclaw(), SlowSummary(f"ahead: {GOOD}")
        writer = write_ahead(session, slow)
        number = await talk_until_asked(session, slow)
        talk(session, number, number + 1)
        session.add({"role": "user", "content": "quick!"})
        async with asyncio.timeout(QUICK):
            request = await session.prepare_async(slow.__call__)
        assert summary(session) == ""
        assert "ask-1:" in request.to_bytes().decode()
        slow.go.set()
        await wait_for_writing(writer)
        session.add({"role": "assistant", "content": "yes"}, {"role": "user", "content": "and now?"})
        assert "ahead: " in (await session.prepare_async()).to_bytes().decode()
        assert len(slow.asked) == 1
        await writer.close()

    running(test)


@pytest.mark.parametrize("policy", ["default", "jutul"])
def test_no_call_asks_the_summarizer_that_it_is_given(policy: str) -> None:
    """Neither if nothing was written ahead: a new message leaves no room even after a sweep."""

    async def test() -> None:
        async def ask(request: SummaryRequest) -> str:
            raise AssertionError("a call waited for a summary")

        async def fail(request: SummaryRequest) -> str:
            raise NoteRefused("the model refused")

        session = Session("main", policy=policy, window=4_000, wire="openai_chat", count="chars/4", reserve=500)
        writer = NoteWriter(session, session.state_notes, lambda _: "", write_summary=fail)
        for number in range(40):
            session.add({"role": "user", "content": f"ask-{number}: " + "tell me more of the table " * 6})
            await session.prepare_async(ask)
            session.add({"role": "assistant", "content": f"answer-{number}: " + "the table has rows " * 20})
            await wait_for_writing(writer)
        session.add({"role": "user", "content": "Read this: " + "every word of it matters. " * 420})
        await session.prepare_async(ask)
        assert failures_of(session)
        assert session.edit_counts["summarize"] > 0
        await writer.close()

    running(test)


def test_no_turn_of_a_long_conversation_waits() -> None:
    """Sixty turns in a small window: every summary was there before the turn that needed it."""

    async def test() -> None:
        written = 0

        async def write(request: SummaryRequest) -> str:
            nonlocal written
            written += 1
            return f"written {written}: {GOOD}"

        session = Session("main", policy="jutul", window=4_000, wire="openai_chat", count="chars/4", reserve=500)
        writer = write_ahead(session, write)
        for number in range(60):
            session.add({"role": "user", "content": f"ask-{number}: " + "tell me more of the table " * 6})
            request = await session.prepare_async()
            assert request.tokens <= session.budget.capacity
            session.add({"role": "assistant", "content": f"answer-{number}: " + "the table has rows " * 20})
            await wait_for_writing(writer)
        assert session.edit_counts["summarize"] >= 2
        assert written <= 2 * session.edit_counts["summarize"] + 1
        assert ": written " in summary(session)
        await writer.close()

    running(test)


def test_a_failure_is_noted_and_asked_once_more() -> None:
    async def test() -> None:
        session, slow = picoclaw(), SlowSummary(NoteRefused("the model refused"), f"ahead: {GOOD}")
        slow.go.set()
        writer = write_ahead(session, slow)
        talk(session, 1, 8)
        await wait_for_writing(writer)
        session.add({"role": "user", "content": "and now?"})
        await session.prepare_async()
        assert failures_of(session) == ["the model refused"]
        assert "ahead" not in summary(session)
        await writer.close()

    running(test)


def clear(session: Session) -> None:
    session.history.clear()


def undo(session: Session) -> None:
    assert session.history.undo() is not None


@pytest.mark.parametrize("move", [clear, undo])
def test_a_text_is_not_used_when_the_log_moved_beneath_it(move: Callable[[Session], None]) -> None:
    async def test() -> None:
        session, slow = picoclaw(), SlowSummary(f"stale: {GOOD}")
        talk(session, 1, 3)
        session.compact()  # an edit that can be undone
        writer = write_ahead(session, slow)
        await talk_until_asked(session, slow, 3)
        move(session)
        slow.go.set()
        await wait_for_writing(writer)
        session.add({"role": "user", "content": "and now?"})
        await session.prepare_async()
        talk(session, 9, 20)
        session.add({"role": "user", "content": "and then?"})
        await session.prepare_async()
        assert "stale: " not in summary(session)
        await writer.close()

    running(test)


def test_a_model_writes_it_from_the_cached_conversation() -> None:
    async def test() -> None:
        session, provider = opened(window=8_000), scribe([GOOD], model="main")
        summarize = create_summarizer(provider, window=16_000, counter=COUNTER, timeout=600, conversation=session)

        async def write(request: SummaryRequest) -> str:
            return await summarize(request) or ""

        writer = write_ahead(session, write)
        number = 1
        while not provider.requests:
            talk(session, number, number + 1)
            await wait_for_writing(writer)
            number += 1
        body = provider.bodies[0]["messages"]
        assert isinstance(body, list)
        assert body[:-1] == session.render_request().messages[: len(body) - 1]
        while not session.edit_counts["summarize"]:
            talk(session, number, number + 1)
            await session.prepare_async()
            number += 1
        assert len(provider.requests) == 1
        assert "TCK-4411" in summary(session)
        await writer.close()

    running(test)
