"""What a provider says of a refused request's length corrects our count at once, and is kept with the session."""

import asyncio
from pathlib import Path

import pytest

from tests.agent.test_loop import an_agent, run
from tests.fake.asking import provider_of
from tests.fake.server import Fake
from tests.session.settling import noted
from tidegate import DataFolder, Session
from tidegate.agent.loop import Agent
from tidegate.agent.spending import SessionSpending
from tidegate.agent.tools.tool import ToolContext
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES
from tidegate.core.tokens.counting import CharsPerToken
from tidegate.models.errors.classification import classify_response

LONG = "Which of these words are long ones? "


def test_one_refusal_is_enough_to_know_how_the_model_counts() -> None:
    """We count a fifth too little. The policy has no mark of its own, so that every request is as long as it may be."""
    policy = parse_policy("moments: {before_call: []}", source="none.yaml", stages=STAGES)

    async def talk() -> tuple[Fake, Session]:
        async with Fake("openai_chat", ["Some."] * 8, window=4000) as server:
            session = Session("m", wire="openai_chat", window=4000, count=CharsPerToken(5.6), reserve=0, policy=policy)
            provider = provider_of(server)
            agent = Agent(session, provider, Toolbox(), ToolContext(Path("."), session))
            for number in range(60):
                session.add({"role": "user", "content": f"{number}: {LONG * 12}"})
                session.add({"role": "assistant", "content": "Some."})
            for number in range(4):
                async for _ in agent.run_turn(f"{number}. {LONG * 40}"):
                    pass
            await provider.close()
            return server, session

    server, session = asyncio.run(talk())
    assert len(server.refused) == 1
    assert [text.split()[2] for text in noted(session, "weighed")] == ["m"]
    assert 1.1 < session.view.scale_by_model["m"] < 1.4


def test_it_is_kept_and_nothing_is_paid_for_it(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=[])
    session = data.open("s", "gpt-4o", window=8000)
    session.add({"role": "user", "content": LONG * 200})
    session.prepare()
    counted = session.view.fixed_tokens + 16 + session.view.tokens
    session.recovery.learn_limits(None, counted * 3 // 2)
    assert session.view.scale_by_model["gpt-4o"] == pytest.approx(1.5, abs=0.01)
    assert session.tokens == counted * 3 // 2
    assert SessionSpending(session).session_total.tokens == 0
    session.close()
    again = data.open("s", "gpt-4o", window=8000)
    assert again.view.scale_by_model == {"gpt-4o": pytest.approx(1.5, abs=0.01)}
    again.close()


@pytest.mark.parametrize("share", [0.3, 5.0])
def test_a_number_that_cannot_be_of_this_request_is_not_believed(share: float) -> None:
    session = Session("gpt-4o", window=8000)
    session.add({"role": "user", "content": LONG * 200})
    session.prepare()
    session.recovery.learn_limits(None, int(session.tokens * share))
    assert session.view.scale_by_model == {}


def test_a_fault_of_another_kind_teaches_nothing() -> None:
    limit = "Request too large for gpt-4o on tokens per min (TPM): Limit 3000, Requested 9000."
    agent = an_agent([classify_response(429, limit), "Done."], window=8000)
    run(agent)
    assert agent.session.view.scale_by_model == {}
    assert agent.session.window == 3000
