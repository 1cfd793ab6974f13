"""A prepared text is thrown away when the log moved beneath it."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.session.ahead import Slow, below_its_mark, beyond_its_mark, running, settled, summary
from tests.session.settling import GOOD, POLICY, opened, talk
from tidegate.session.session import Session
from tidegate.session.summaries.background import BackgroundSummarizer


def moved_by_clear(session: Session) -> None:
    session.history.clear()


def moved_by_undo(session: Session) -> None:
    assert session.history.undo() is not None


def moved_by_compaction(session: Session) -> None:
    assert any(decision.acted for decision in session.compact())


@pytest.mark.parametrize("move", [moved_by_clear, moved_by_undo, moved_by_compaction])
def test_a_text_is_thrown_away_when_the_log_moved_beneath_it(move: Callable[[Session], None]) -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow("stale", f"new: {GOOD}")
        talk(session, 1, 3)
        session.compact()  # an edit that can be undone
        slow.go.set()
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session, 3)
        assert ahead.start_if_due()
        await settled()
        assert [held.text for held in ahead.prepared] == ["stale"]
        move(session)
        beyond_its_mark(session, number)
        await session.prepare_async(ahead)
        assert len(slow.asked) == 2
        assert "stale" not in summary(session)
        assert "new: " in summary(session)
        await ahead.close()

    running(test)


def test_a_text_is_thrown_away_when_what_it_tells_of_was_restored() -> None:
    """The messages are the same, what they say is not."""

    async def test() -> None:
        policy = POLICY.replace("{stage: summarize, keep_turns: 1, max_tokens: 600}", "{stage: clear_results, keep: 0}")
        session, slow = opened(window=8_000, policy=policy), Slow("stale", f"new: {GOOD}")
        talk(session, 1, 6)
        assert any(decision.acted for decision in session.compact())
        slow.go.set()
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session, 6)
        ahead.start_if_due()
        await settled()
        asked = {message.id for message in slow.asked[0].messages}
        session.history.undo()
        beyond_its_mark(session, number)
        await session.prepare_async(ahead)
        assert asked <= {message.id for message in slow.asked[1].messages}
        assert "stale" not in summary(session)
        assert "new: " in summary(session)
        await ahead.close()

    running(test)


def test_what_is_being_written_for_another_time_is_stopped() -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow(f"new: {GOOD}")
        ahead = BackgroundSummarizer(session, slow)
        number = below_its_mark(session)
        ahead.start_if_due()
        await settled()
        session.history.clear()
        beyond_its_mark(session, number)
        preparing = asyncio.create_task(session.prepare_async(ahead))
        while len(slow.happened) < 2:
            await asyncio.sleep(0.01)
        slow.go.set()
        await preparing
        await settled()
        assert slow.happened == ["asked", "asked", "written"]
        assert "new: " in summary(session)
        assert ahead.prepared == []
        await ahead.close()

    running(test)


@pytest.mark.parametrize(
    "other", [{"instructions": "Say it in French."}, {"previous": "another"}, {"kind": "note"}, {"max_chars": 9}]
)
def test_a_text_serves_only_what_was_asked_for(other: dict[str, Any]) -> None:
    async def test() -> None:
        session, slow = opened(window=8_000), Slow("prepared", "asked anew")
        slow.go.set()
        ahead = BackgroundSummarizer(session, slow)
        below_its_mark(session)
        ahead.start_if_due()
        await settled()
        [held] = ahead.prepared
        assert await ahead(msgspec.structs.replace(held.request, **other)) == "asked anew"
        assert await ahead(held.request) == "prepared"
        await ahead.close()

    running(test)
