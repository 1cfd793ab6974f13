"""A real model, small as it is, chats in a small window: nothing it is sent is refused, every message is answered."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

from tidegate import DataFolder, Session
from tidegate.agent.config.files import parse_config
from tidegate.agent.loop import Agent, AgentEvent, RequestRefused, RequestSent, TurnEnded
from tidegate.agent.runtime import open_agent
from tidegate.agent.system_prompt import SHORT_AGENT_RULES, PromptSources, assemble_prompt
from tidegate.agent.tools.tool import ToolContext
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.messages import text_of
from tidegate.models.embedded.provider import EmbeddedProvider
from tidegate.models.embedded.weights import SMOLLM2
from tidegate.models.provider import Reply
from tidegate.presets import preset_names
from tidegate.wire.usage import read_usage

ABSENT = [name for name in ("xllamacpp", SMOLLM2.module) if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)} (`make setup` installs them)")
WINDOW = 2048
LEDGER = ", ".join(f"{number * 7919 % 100_000:05d}" for number in range(40))
TURNS = [
    "My name is Ada, and I keep bees. " + "Every week I write down how much each hive weighs. " * 14 + "Say hello.",
    f"These are the weights in grams: {LEDGER}. What could I do with them?",
    "Мой сосед тоже держит пчёл, и мы часто говорим о погоде. " * 5 + "What do bees do in winter?",
    "昨天我在图书馆读了一本关于蜜蜂的书，非常有意思。" * 7 + "Write one sentence about honey.",
    "Now something else: " + "def weigh(hive):\n    return hive.grams / 1000\n\n" * 12 + "What does this code do?",
    f"Thank you. These are the weights of last year: {LEDGER}. Which of all these things should I remember?",
]


def an_agent(model: EmbeddedProvider) -> Agent:
    system = assemble_prompt(PromptSources(rules=SHORT_AGENT_RULES), max_tokens=WINDOW // 8).text
    session = Session(model.model, wire=model.wire, window=model.window, count=model.counter, system=system)
    return Agent(session, model, Toolbox(), ToolContext(Path("."), session))


async def chat(agent: Agent) -> list[list[AgentEvent]]:
    try:
        return [[each async for each in agent.run_turn(text)] for text in TURNS]
    finally:
        await agent.provider.close()


def test_six_turns_in_a_window_of_two_thousand_tokens() -> None:
    """More is said than the window holds, in scripts and digits whose tokens an estimate takes for half as many."""
    agent = an_agent(EmbeddedProvider(window=WINDOW, max_output=16, seed=1))
    turns = asyncio.run(chat(agent))
    assert [turn[-1] for turn in turns if turn[-1] not in (TurnEnded("end"), TurnEnded("length"))] == []
    assert not [each for turn in turns for each in turn if isinstance(each, RequestRefused)]
    asked = [each for turn in turns for each in turn if isinstance(each, RequestSent)]
    acted = [decision.stage for each in asked for decision in each.decisions if decision.acted]
    assert {"sweep", "summarise", "guard"} & set(acted), "more was said than fits: something had to give way"
    replies = [each for turn in turns for each in turn if isinstance(each, Reply)]
    assert all(text_of(reply.to_messages("openai_chat")[0]).strip() for reply in replies)
    for each, reply in zip(asked, replies, strict=True):
        told = read_usage(reply.usage).input_tokens
        assert told <= WINDOW
        assert abs(told - each.request.tokens) <= 0.05 * told, "the count is not the model's own"


def test_what_is_said_at_once_may_be_larger_than_the_window() -> None:
    agent = an_agent(EmbeddedProvider(window=256, max_output=8, seed=1))

    async def act() -> list[AgentEvent]:
        try:
            return [each async for each in agent.run_turn(f"What are these? {LEDGER * 10}")]
        finally:
            await agent.provider.close()

    happened = asyncio.run(act())
    assert happened[-1] in (TurnEnded("end"), TurnEnded("length"))
    assert not [each for each in happened if isinstance(each, RequestRefused)]
    (reply,) = [each for each in happened if isinstance(each, Reply)]
    assert 64 < read_usage(reply.usage).input_tokens < 256


@pytest.mark.parametrize("preset", preset_names())
def test_it_opens_with_every_policy_also_one_that_leaves_the_window_to_the_model(preset: str, tmp_path: Path) -> None:
    async def open_one() -> int | None:
        config = parse_config(f"policy: {preset}", {})
        with DataFolder(tmp_path / "data") as data:
            async with open_agent(config, data=data, name="bees", workspace=tmp_path) as agent:
                return agent.window.tokens

    window = asyncio.run(open_one())
    assert window is not None
    assert window > 0
