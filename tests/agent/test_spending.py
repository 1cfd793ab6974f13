"""Spending is counted and held, whoever asked: the conversation, a summary, a subagent, an answer that was stopped."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from tidegate import Session
from tidegate.agent.config.settings import SpendCap, SpendSettings
from tidegate.agent.loop import Agent, TurnEnded
from tidegate.agent.spending import (
    DailySpending,
    MeteredProvider,
    SessionSpending,
    SpendTotal,
    TokenAllowance,
)
from tidegate.agent.tools.tool import ToolContext
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.errors import GiveUp, NotKept
from tidegate.core.events import ViewEdited
from tidegate.core.messages import user_message
from tidegate.core.notes import SideCost
from tidegate.core.usage import Usage
from tidegate.datafolder.data_folder import DataFolder
from tidegate.disk.folder import Folder
from tidegate.models.catalog import ModelInfo
from tidegate.models.errors.classification import classify_response
from tidegate.models.pricing import TokenRates
from tidegate.models.provider import Delta, Provider, Reply, collect_reply
from tidegate.models.scripted_provider import BrokenAnswer, ScriptedAnswer, ScriptedProvider, ScriptStep
from tidegate.session.summarizer import create_summarizer

NOON = 1_794_744_000.0
PRICES = {"scripted": ModelInfo(prices=(TokenRates(2.0, 10.0, 0.2),))}
"""Two dollars for a million tokens of input, ten for output, a fifth for what was cached."""


def spending_folder(data: Path) -> Folder:
    return Folder(data / "spend", max_file=10_000)


def used(text: str, read: int, written: int, cached: int = 0) -> ScriptedAnswer:
    return ScriptedAnswer(text=text, usage=Usage(read, written, cached, 0))


def an_agent(session: Session, spending: SessionSpending, steps: list[ScriptStep]) -> Agent:
    provider = MeteredProvider(
        ScriptedProvider("openai_chat", steps),
        [spending],
        purpose="turn",
        estimate_tokens=lambda _: session.tokens,
    )
    return Agent(session, provider, Toolbox(), ToolContext(Path("."), session))


def turn(agent: Agent, text: str = "Go on.") -> str:
    async def read() -> str:
        async with aclosing(agent.run_turn(text)) as stream:
            *_, last = [each async for each in stream]
        assert isinstance(last, TurnEnded)
        return last.reason

    return asyncio.run(read())


def talk(system: str = "") -> Session:
    return Session("scripted", wire="openai_chat", window=4000, system=system)


def test_a_cap_in_tokens_ends_the_turn_before_the_call_and_the_session_goes_on() -> None:
    session = talk()
    spending = SessionSpending(session, SpendSettings(session=SpendCap(tokens=1000)), model_overrides=PRICES)
    agent = an_agent(session, spending, [used("One.", 600, 50), used("Two.", 300, 50)])
    assert turn(agent) == "end"
    assert turn(agent) == "end"
    with pytest.raises(GiveUp, match=r"1,000 tokens; the cap is 1,000.*spend.session.tokens.*nothing was lost"):
        turn(agent, "Once more.")
    assert spending.session_total.tokens == 1000
    spending.caps = SpendSettings()
    agent.provider = ScriptedProvider("openai_chat", ["Three."])
    assert turn(agent) == "end"


def test_a_cap_in_dollars_counts_what_was_cached_at_its_price() -> None:
    session = talk()
    spending = SessionSpending(session, SpendSettings(session=SpendCap(dollars=0.01)), model_overrides=PRICES)
    agent = an_agent(session, spending, [used("One.", 2000, 100, 1000), used("Two.", 3000, 100)])
    turn(agent)
    assert spending.session_total.tokens == 2100
    assert spending.session_total.dollars == pytest.approx(0.002 + 0.0002 + 0.001)
    turn(agent)
    with pytest.raises(GiveUp, match=r"\$0\.0102; the cap is \$0\.0100"):
        turn(agent)


def test_the_sum_of_a_session_survives_its_process(tmp_path: Path) -> None:
    """It is told from the log, with what summaries cost."""
    for number in range(1, 4):
        data = DataFolder(tmp_path, secrets=[])
        with data.open("build", "scripted", wire="openai_chat", window=4000) as session:
            spending = SessionSpending(session, model_overrides=PRICES)
            turn(an_agent(session, spending, [used("Yes.", 100, 10)]))
            asyncio.run(
                collect_reply(
                    MeteredProvider(ScriptedProvider("openai_chat", [used("A summary.", 50, 5)]), [spending]), b"{}"
                )
            )
            assert spending.session_total.tokens == 165 * number
        data.close()


def test_a_price_nobody_knows_counts_tokens_and_is_said() -> None:
    session = talk()
    spending = SessionSpending(session, SpendSettings(session=SpendCap(dollars=0.000001)))
    agent = an_agent(session, spending, [used("One.", 5000, 50), used("Two.", 5000, 50)])
    turn(agent)
    turn(agent)
    assert spending.session_total == SpendTotal(10_100, 0.0, 10_100)
    assert "price of scripted is not known" in spending.unpriced_notice("scripted")
    assert (
        SessionSpending(session, SpendSettings(session=SpendCap(dollars=1)), model_overrides=PRICES).unpriced_notice(
            "scripted"
        )
        == ""
    )
    assert SessionSpending(session, SpendSettings(session=SpendCap(tokens=1))).unpriced_notice("scripted") == ""


def test_a_server_that_reports_nothing_is_not_free() -> None:
    session = talk(system="Be brief. " * 100)
    spending = SessionSpending(session, SpendSettings(session=SpendCap(tokens=200)))
    agent = an_agent(session, spending, ["One.", "Two."])
    turn(agent)
    assert spending.session_total.tokens > 200
    with pytest.raises(GiveUp):
        turn(agent)


@pytest.mark.parametrize("cancelled", [True, False])
def test_an_answer_that_was_stopped_is_paid_for(cancelled: bool) -> None:
    session = talk()
    spending = SessionSpending(session)
    steps: list[ScriptStep] = [ScriptedAnswer(text="It is the linker. " * 20)]
    metered = MeteredProvider(ScriptedProvider("openai_chat", steps), [spending], purpose="turn")

    async def stopped() -> None:
        stream = metered.stream(b"x" * 400)
        async with aclosing(stream):
            await anext(stream)
            if cancelled:
                with pytest.raises(asyncio.CancelledError):
                    await stream.athrow(asyncio.CancelledError())

    asyncio.run(stopped())
    assert 100 <= spending.session_total.tokens <= 200
    assert sum(getattr(event.payload, "topic", "") == SideCost.topic for event in session.log.read(1)) == 1


def test_a_refusal_costs_nothing_and_an_answer_that_broke_off_does() -> None:
    session = talk()
    spending = SessionSpending(session)
    broken = BrokenAnswer(ScriptedAnswer(text="It is the linker."), 1, classify_response(529))
    metered = MeteredProvider(ScriptedProvider("openai_chat", [classify_response(529), broken]), [spending])
    for tokens in (0, 100):
        with pytest.raises(Exception, match="failed"):
            asyncio.run(collect_reply(metered, b"x" * 400))
        assert spending.session_total.tokens >= tokens
        assert (spending.session_total.tokens > 0) == (tokens > 0)


def test_over_the_cap_a_compaction_is_made_without_the_model() -> None:
    """It is what keeps the session usable, so it must not fail for money."""
    session = talk()
    spending = SessionSpending(session, SpendSettings(session=SpendCap(tokens=1)))
    spending.record_usage("scripted", Usage(5, 5, 0, 0), purpose="summary")
    scripted = ScriptedProvider("openai_chat", [])
    summarize = create_summarizer(
        MeteredProvider(scripted, [spending]), window=4000, counter=session.counter, timeout=20
    )
    for number in range(12):
        session.add({"role": "user", "content": f"Question {number}. " * 60})
        session.add({"role": "assistant", "content": f"Answer {number}. " * 60})
    session.add({"role": "user", "content": "And now?"})
    request = asyncio.run(session.prepare_async(summarize))
    assert request.tokens <= 4000
    assert scripted.requests == []
    assert any(isinstance(event.payload, ViewEdited) for event in session.log.read(1))


# --- days ---------------------------------------------------------------------------------------------------------


def test_a_day_is_counted_over_sessions_and_processes_and_ends_at_midnight(tmp_path: Path) -> None:
    now = NOON
    caps = SpendSettings(day=SpendCap(tokens=1000))

    def spending() -> SessionSpending:
        return SessionSpending(
            talk(), caps, days=DailySpending(spending_folder(tmp_path), lambda: now), model_overrides=PRICES
        )

    for _ in range(4):  # each as a process of its own would
        spending().record_usage("scripted", Usage(240, 10, 0, 0), purpose="turn")
    with pytest.raises(GiveUp, match=r"The day so far has used 1,000 tokens.*tomorrow"):
        spending().check_limit()
    now = NOON + 86_400
    spending().check_limit()
    assert spending().day_total == SpendTotal()
    now = NOON  # a clock that is set back does not make it a new day
    with pytest.raises(GiveUp):
        spending().check_limit()


def test_writers_of_a_day_lose_nothing_to_each_other(tmp_path: Path) -> None:
    async def add() -> None:
        days = [DailySpending(spending_folder(tmp_path), lambda: NOON) for _ in range(40)]
        await asyncio.gather(*(asyncio.to_thread(each.add, SpendTotal(1, 0.5)) for each in days))

    asyncio.run(add())
    assert DailySpending(spending_folder(tmp_path), lambda: NOON).read_today() == SpendTotal(40, 20.0)


def test_a_day_that_cannot_be_read_is_not_nothing(tmp_path: Path) -> None:
    days = DailySpending(spending_folder(tmp_path), lambda: NOON)
    days.add(SpendTotal(10))
    (file,) = (tmp_path / "spend").glob("*.json")
    kept = file.read_bytes()
    file.write_bytes(kept[:-2])
    capped = SessionSpending(talk(), SpendSettings(day=SpendCap(tokens=1000)), days=days)
    with pytest.raises(NotKept, match="cannot be read"):
        capped.check_limit()
    uncapped = SessionSpending(talk(), days=days)
    uncapped.check_limit()
    uncapped.record_usage("scripted", Usage(5, 0, 0, 0), purpose="turn")
    assert "cannot be read" in uncapped.problem
    file.write_bytes(kept)
    assert days.read_today() == SpendTotal(15, 0.0, 5), "what could not be written is written later"


def test_an_allowance_ends_a_piece_of_work() -> None:
    allowance = TokenAllowance(100)
    metered = MeteredProvider(ScriptedProvider("openai_chat", [used("One.", 90, 20), used("Two.", 1, 1)]), [allowance])
    asyncio.run(collect_reply(metered, b"{}"))
    with pytest.raises(GiveUp, match="110 of its 100 tokens"):
        asyncio.run(collect_reply(metered, b"{}"))


def test_what_is_metered_is_what_the_provider_says() -> None:
    scripted = ScriptedProvider("anthropic", ["Good morning."])
    metered: Provider = MeteredProvider(scripted, [])

    async def read() -> list[Delta | Reply]:
        stream = metered.stream(b"{}")
        assert isinstance(stream, AsyncGenerator)
        return [each async for each in stream]

    told = asyncio.run(read())
    assert (metered.model, metered.wire) == ("scripted", "anthropic")
    assert isinstance(told[-1], Reply)
    assert sum(isinstance(each, Reply) for each in told) == 1
    asyncio.run(metered.close())
    assert scripted.closed


def test_a_note_of_somebody_else_is_no_money() -> None:
    session = talk()
    session.add(user_message("Hello."))
    session.history.add_note(SideCost.topic, "all of it")
    assert SessionSpending(session).session_total == SpendTotal()
