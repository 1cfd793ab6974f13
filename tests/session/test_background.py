"""A summary is prepared ahead of its time and swapped in when its time comes, unless the log moved beneath it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.session.ahead import Slow, below_its_mark, beyond_its_mark, running, settled, size, summary
from tests.session.settling import COUNTER, GOOD, noted, opened, scribe, talk
from tidegate.core.messages import text_of
from tidegate.core.outcome import SummaryRequest
from tidegate.core.policy.policy import Policy
from tidegate.models.scripted_provider import ScriptedProvider
from tidegate.presets import load
from tidegate.session.session import Session
from tidegate.session.summaries.background import BackgroundSummarizer, lower_triggers
from tidegate.session.summaries.prepared import MAX_NEW_SHARE
from tidegate.session.summaries.summarizer import create_summarizer


def test_the_turn_does_not_wait_and_the_text_is_there_when_it_is_needed() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(f"prepared: {GOOD}")
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session)
        assert ahead.start_if_due()
        await settled()
        await session.prepare_async(ahead)
        slow.happened.append("turn went on")
        slow.go.set()
        await settled()
        assert slow.happened == ["asked", "turn went on", "written"]
        assert summary(session) == ""  # not yet: the cached prefix stands as long as it may
        beyond_its_mark(session, number)
        request = await session.prepare_async(ahead)
        assert slow.happened == ["asked", "turn went on", "written"]  # nobody was asked again
        assert f"prepared: {GOOD}" in summary(session)
        assert "prepared: " in request.to_bytes().decode()
        await ahead.close()

    running(test)


def test_nothing_is_written_to_the_log_ahead_of_time() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(GOOD)
        below_its_mark(session)
        before, head = session.render_request().to_bytes(), session.log.head
        ahead = BackgroundSummarizer(session, slow)
        ahead.start_if_due()
        slow.go.set()
        await settled()
        assert len(ahead.prepared) == 1
        assert session.log.head == head
        assert session.render_request().to_bytes() == before
        await ahead.close()

    running(test)


def test_what_was_said_since_is_told_by_the_digest() -> None:
    """The compaction covers more than the prepared text: all of it is accounted for, in the order it came."""

    async def test() -> None:
        session, slow = opened(window=8_000), Slow(f"prepared: {GOOD}")
        slow.go.set()
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session)
        ahead.start_if_due()
        await settled()
        told = {message.id for message in slow.asked[0].messages}
        beyond_its_mark(session, number)
        visible = {item.message.id: text_of(item.message) for item in session.view.items}
        await session.prepare_async(ahead)
        gone = set(visible) - {item.message.id for item in session.view.items}
        assert told < gone
        text = summary(session)
        assert "prepared: " in text
        asks = [words for ident, words in visible.items() if ident in gone - told and words.startswith("ask-")]
        assert asks
        assert all(ask.split(":")[0] in text.split("prepared: ")[1] for ask in asks)
        assert len(slow.asked) == 1
        assert COUNTER.count_text(text) <= 620
        await ahead.close()

    running(test)


def test_a_text_that_fell_far_behind_is_continued() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(f"prepared: {GOOD}", "continued: all of it")
        slow.go.set()
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session)
        ahead.start_if_due()
        await settled()
        first = slow.asked[0]
        talk(session, number, number + 12)
        await session.prepare_async(ahead)
        assert len(slow.asked) == 2
        assert slow.asked[1].previous == f"prepared: {GOOD}"
        assert not {m.id for m in slow.asked[1].messages} & {m.id for m in first.messages}
        assert "continued: all of it" in summary(session)
        await ahead.close()

    running(test)


def test_a_text_that_cannot_be_continued_is_still_better_than_none() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(f"prepared: {GOOD}", None)
        slow.go.set()
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session)
        ahead.start_if_due()
        await settled()
        talk(session, number, number + 12)
        await session.prepare_async(ahead)
        assert len(slow.asked) == 2
        assert "prepared: " in summary(session)
        last = [text_of(m) for m in slow.asked[1].messages if text_of(m).startswith("ask-")][-1]
        assert last in summary(session)
        await ahead.close()

    running(test)


def test_a_compaction_that_comes_too_early_waits_for_what_is_being_written() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(f"prepared: {GOOD}")
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session)
        ahead.start_if_due()
        beyond_its_mark(session, number)
        preparing = asyncio.create_task(session.prepare_async(ahead))
        await settled()
        assert not preparing.done()
        slow.go.set()
        await preparing
        assert slow.happened == ["asked", "written"]
        assert "prepared: " in summary(session)
        await ahead.close()

    running(test)


# --- failing and ending -------------------------------------------------------------------------------------------


def test_a_failure_is_noted_when_the_session_is_at_work() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(ValueError("no"), f"new: {GOOD}")
        slow.go.set()
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session)
        ahead.start_if_due()
        await settled()
        assert noted(session, "ahead_failed") == []
        assert not ahead.start_if_due()  # not again at the same place
        beyond_its_mark(session, number)
        await session.prepare_async(ahead)
        assert noted(session, "ahead_failed") == ["ValueError"]
        assert "new: " in summary(session)
        await ahead.close()

    running(test)


@pytest.mark.parametrize(("failure", "notes"), [(ValueError("no"), ["ValueError"]), (None, [])])
def test_a_compaction_that_waited_in_vain_does_not_wait_again(failure: Exception | None, notes: list[str]) -> None:
    """The same question would fail as slowly a second time. The digest takes the place of the summary."""

    async def test() -> None:
        session, slow = opened(window=8_000), Slow(failure, "asked again")
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session)
        ahead.start_if_due()
        beyond_its_mark(session, number)
        needed = asyncio.Event()

        async def ask(request: SummaryRequest) -> str | None:
            needed.set()
            return await ahead(request)

        preparing = asyncio.create_task(session.prepare_async(ask))
        await needed.wait()
        await settled()
        slow.go.set()
        await preparing
        assert slow.happened == ["asked", "written"]
        assert "ask-1" in summary(session)
        assert noted(session, "ahead_failed") == notes
        await ahead.close()

    running(test)


def test_a_rejected_answer_is_not_held() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(None)
        slow.go.set()
        ahead = BackgroundSummarizer(session, slow)
        below_its_mark(session)
        ahead.start_if_due()
        await settled()
        assert ahead.prepared == []
        assert not ahead.is_busy
        await ahead.close()

    running(test)


@pytest.mark.parametrize("by_session", [False, True])
def test_closing_stops_it(by_session: bool) -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(GOOD)
        ahead = BackgroundSummarizer(session, slow)
        below_its_mark(session)
        ahead.start_if_due()
        await settled()
        assert slow.happened == ["asked"]
        if by_session:
            session.close()
            await settled()
        else:
            await ahead.close()
        assert not ahead.is_busy
        assert slow.happened == ["asked"]
        assert len(asyncio.all_tasks()) == 1

    running(test)


def test_it_looks_only_when_something_can_come_of_it() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(GOOD)
        ahead = BackgroundSummarizer(session, slow)
        talk(session, 1, 3)
        assert not ahead.start_if_due()
        below_its_mark(session, 3)
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        session.add({"role": "user", "content": "once more"})
        session.add({"role": "assistant", "content": None, "tool_calls": [call]})
        assert not ahead.start_if_due()  # a call is open: the view is not what it will be
        session.add({"role": "tool", "tool_call_id": "c1", "content": "done"})
        assert ahead.start_if_due()
        assert not ahead.start_if_due()  # one at a time
        await ahead.close()

    running(test)


def test_the_mark_can_be_set() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(GOOD)
        talk(session, 1, 16)
        assert 0.3 < size(session) < 0.7
        assert not BackgroundSummarizer(session, slow).start_if_due()
        ahead = BackgroundSummarizer(session, slow, mark=0.3)
        assert ahead.start_if_due()
        await ahead.close()

    running(test)


def test_only_sizes_are_lowered() -> None:
    policy = load("jutul")
    rules = lower_triggers(policy, None, 0.1, ("before_call",)).moments["before_call"]
    assert [str(rule.when[0][0]) for rule in rules] == ["window_share > 0.54", "window_share >= 0.765"]
    older = picoclaw()
    [rule] = lower_triggers(older, 0.5, 0.1, ("turn_end",)).moments["turn_end"]
    assert [str(condition[0]) for condition in rule.when] == ["messages > 20", "pressure > 0.5"]
    assert MAX_NEW_SHARE < 0.5


# --- with a model, and with the older way of picoclaw -------------------------------------------------------------


def scripted(session: Session, provider: ScriptedProvider) -> Callable[[SummaryRequest], Awaitable[str | None]]:
    return create_summarizer(provider, window=16_000, counter=COUNTER, timeout=600, conversation=session)


def test_a_model_writes_it_ahead_from_the_cached_conversation() -> None:
    async def test() -> None:
        session = opened(window=8_000)
        provider = scribe([GOOD], model="main")
        ahead = BackgroundSummarizer(session, scripted(session, provider))
        number = below_its_mark(session)
        sent = session.render_request().to_bytes()
        assert ahead.start_if_due()
        while ahead.is_busy:
            await asyncio.sleep(0)
        body = provider.bodies[0]["messages"]
        assert isinstance(body, list)
        assert body[:-1] == session.render_request().messages[: len(body) - 1]
        assert session.render_request().to_bytes() == sent
        beyond_its_mark(session, number)
        await session.prepare_async(ahead)
        assert len(provider.requests) == 1
        assert "TCK-4411" in summary(session)
        await ahead.close()

    running(test)


def picoclaw() -> Policy:
    return load("picoclaw", {"background": True, "max_tokens": 8_000})


def test_the_older_way_summarizes_after_a_turn_in_the_background() -> None:
    """More than 20 messages or 75% of the window after a turn start it; the next request has it and nobody waited."""

    async def test() -> None:
        session = Session("main", policy=picoclaw(), window=40_000, wire="openai_chat", count="chars/4")
        slow = Slow(f"older way: {GOOD}")
        ahead = BackgroundSummarizer(session, slow, margin=0.0, moments=("turn_end",))
        talk(session, 1, 6)
        assert session.view.message_count == 20
        assert not ahead.start_if_due()
        talk(session, 6, 7)
        assert ahead.start_if_due()
        await settled()
        assert slow.happened == ["asked"]
        slow.go.set()
        await settled()
        session.add({"role": "user", "content": "and now?"})
        request = await session.prepare_async(ahead)
        assert slow.happened == ["asked", "written"]
        assert "older way: " in request.to_bytes().decode()
        assert session.edit_counts["summarize"] == 1
        await ahead.close()

    running(test)


@pytest.mark.seed("PIC-11", fixed="the summarizer decides, whatever the preset says")
def test_a_quick_next_message_does_not_wait_for_it() -> None:
    """The request is sent as it is; the summary that was written meanwhile is used after the next turn."""

    async def test() -> None:
        session = Session("main", policy=picoclaw(), window=40_000, wire="openai_chat", count="chars/4")
        slow = Slow(f"older way: {GOOD}")
        ahead = BackgroundSummarizer(session, slow, margin=0.0, moments=("turn_end",))
        talk(session, 1, 8)
        assert ahead.start_if_due()
        await settled()
        session.add({"role": "user", "content": "quick!"})
        async with asyncio.timeout(60):  # it would wait for ever
            request = await session.prepare_async(ahead)
        assert "older way" not in request.to_bytes().decode()
        session.add({"role": "assistant", "content": "yes"})
        slow.go.set()
        await settled()
        session.add({"role": "user", "content": "and now?"})
        assert "older way: " in (await session.prepare_async(ahead)).to_bytes().decode()
        assert slow.happened == ["asked", "written"], "the model was asked once"
        await ahead.close()

    running(test)


def test_no_turn_of_a_long_conversation_waits() -> None:
    """Sixty turns in a small window: every summary was there before the turn that needed it."""

    async def test() -> None:
        turn, waited, ahead_of_time = asyncio.current_task(), 0, 0

        async def write(request: SummaryRequest) -> str:
            nonlocal waited, ahead_of_time
            waited += asyncio.current_task() is turn
            ahead_of_time += asyncio.current_task() is not turn
            return f"written {ahead_of_time}: {GOOD}"

        session = Session("main", policy="jutul", window=4_000, wire="openai_chat", count="chars/4", reserve=500)
        ahead = BackgroundSummarizer(session, write)
        for number in range(60):
            session.add({"role": "user", "content": f"ask-{number}: " + "tell me more of the table " * 6})
            request = await session.prepare_async(ahead)
            assert request.tokens <= session.budget.capacity
            session.add({"role": "assistant", "content": f"answer-{number}: " + "the table has rows " * 20})
            ahead.start_if_due()
            await settled()
        assert session.edit_counts["summarize"] >= 2
        assert waited == 0
        assert ahead_of_time <= 2 * session.edit_counts["summarize"] + 1
        assert "written" in summary(session)
        await ahead.close()

    running(test)
