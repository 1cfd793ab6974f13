"""A real model, small as it is, chats in a small window: nothing it is sent is refused, every message is answered."""

import asyncio
from pathlib import Path

import pytest

from tests.models.embedded_model import WINDOW, model_closed_after_file, needs_model, shared_model
from tests.scale import scaled
from tidegate import DataFolder, Session
from tidegate.agent.config.files import parse_config
from tidegate.agent.loop import Agent, AgentEvent, RequestRefused, RequestSent, TurnEnded
from tidegate.agent.runtime import open_agent
from tidegate.agent.system_prompt import SHORT_AGENT_RULES, PromptSources, assemble_prompt
from tidegate.agent.tools.tool import ToolContext
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.messages import text_of
from tidegate.models.provider import Reply
from tidegate.presets import preset_names
from tidegate.wire.answers import parse_reply, read_usage

__all__ = ["model_closed_after_file"]

pytestmark = needs_model
SIZE = WINDOW // 256
LEDGER = ", ".join(f"{number * 7919 % 100_000:05d}" for number in range(7 * SIZE))
TURNS = [
    "My name is Ada, and I keep bees. " + "Every week I write down how much each hive weighs. " * SIZE + "Say hello.",
    f"These are the weights in grams: {LEDGER}. What could I do with them?",
    "Мой сосед тоже держит пчёл, и мы часто говорим о погоде. " * SIZE + "What do bees do in winter?",
    "昨天我在图书馆读了一本关于蜜蜂的书，非常有意思。" * SIZE + "Write one sentence about honey.",
    "Now something else: " + "def weigh(hive):\n    return hive.grams / 1000\n\n" * SIZE + "What does this code do?",
    f"Thank you. These are the weights of last year: {LEDGER}. Which of all these things should I remember?",
]


def chat(*texts: str, max_tokens: int) -> list[list[AgentEvent]]:
    """Send the texts to a new session; return what happened in each turn."""
    model = shared_model()
    system = assemble_prompt(PromptSources(rules=SHORT_AGENT_RULES), max_tokens=WINDOW // 8).text
    session = Session(
        model.model, wire=model.wire, window=model.window, count=model.counter, system=system, max_tokens=max_tokens
    )
    agent = Agent(session, model, Toolbox(), ToolContext(Path("."), session))

    async def run() -> list[list[AgentEvent]]:
        return [[each async for each in agent.run_turn(text)] for text in texts]

    return asyncio.run(run())


@pytest.mark.exhaustive
def test_turns_in_a_small_window() -> None:
    """More is said than the window holds, in scripts and digits whose tokens an estimate takes for half as many."""
    turns = chat(*TURNS[: scaled(3)], max_tokens=4)
    assert [turn[-1] for turn in turns if turn[-1] not in (TurnEnded("end"), TurnEnded("length"))] == []
    assert not [each for turn in turns for each in turn if isinstance(each, RequestRefused)]
    asked = [each for turn in turns for each in turn if isinstance(each, RequestSent)]
    acted = [decision.stage for each in asked for decision in each.decisions if decision.acted]
    assert {"sweep", "summarize", "guard"} & set(acted), "more was said than fits: something had to give way"
    replies = [each for turn in turns for each in turn if isinstance(each, Reply)]
    assert all(text_of(parse_reply("openai_chat", reply)[0]).strip() for reply in replies)
    for each, reply in zip(asked, replies, strict=True):
        told = read_usage(reply.usage).input_tokens
        assert told <= WINDOW
        assert abs(told - each.request.tokens) <= max(16, 0.05 * told), "the count is not the model's own"


@pytest.mark.exhaustive
def test_what_is_said_at_once_may_be_larger_than_the_window() -> None:
    (happened,) = chat(f"What are these? {LEDGER * 10}", max_tokens=8)
    assert happened[-1] in (TurnEnded("end"), TurnEnded("length"))
    assert not [each for each in happened if isinstance(each, RequestRefused)]
    (reply,) = [each for each in happened if isinstance(each, Reply)]
    assert WINDOW // 4 < read_usage(reply.usage).input_tokens < WINDOW


@pytest.mark.parametrize(
    "preset",
    [
        pytest.param(name, marks=() if name in ("default", "digitorn") else pytest.mark.exhaustive)
        for name in preset_names()
    ],
)
def test_it_opens_with_every_policy_also_one_that_leaves_the_window_to_the_model(preset: str, tmp_path: Path) -> None:
    async def open_one() -> int | None:
        config = parse_config(f"policy: {preset}", {})
        with DataFolder(tmp_path / "data") as data:
            async with open_agent(config, data=data, name="bees", workspace=tmp_path) as agent:
                return agent.window.tokens

    window = asyncio.run(open_one())
    assert window is not None
    assert window > 0
