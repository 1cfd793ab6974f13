"""A long session in a small window: loop, HTTP provider and a strict server, with every failure the table knows.

The server refuses what does not fit or breaks a rule of the provider, so a request it was not told to refuse and does
is a defect. After each failure the session goes on. And models that never end: their turns do.
"""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.agent.test_hostile_provider import NAMES, WIRES, World, called, goes_on, mending
from tests.fake.server import KEY, CutAt, Fake, Json, Step
from tests.fake.words import PAGE, Refusal, busy, refusal, too_long
from tests.scale import parametrize_pairs, scaled
from tidegate import Session
from tidegate.agent.loop import Agent, RequestRefused, RequestSent, ToolFinished, TurnEnded
from tidegate.agent.tools.approval import ApprovalRules
from tidegate.agent.tools.tool import FunctionTool, ToolContext, ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.errors import TooSmall
from tidegate.core.events import MessageAdded
from tidegate.core.messages import Call, result_of, text_of
from tidegate.core.outcome import SummaryRequest
from tidegate.core.usage import Usage
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.provider import HttpProvider, RetrySettings
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

WINDOW = 16_000
MODELS = {"anthropic": "claude-sonnet-4-5", "gemini": "gemini-3-pro-preview"}
LIMIT = 15_000
BUCKET = (
    f"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit {LIMIT}, Requested 15900."
    " The input or output tokens must be reduced in order to run successfully."
)
ASKED, MOST = 3_001, 1_024  # below what any estimate of the window leaves for the answer
OUTPUT = f"max_tokens: {ASKED} > {MOST}, which is the maximum allowed number of output tokens for this model"
KEYLESS = "Incorrect API key provided"
ANSWER = ScriptedAnswer(text="The tide table of that day is complete, and the harbour master has signed it.")
OVERFLOWS = f"The input token count ({WINDOW + 5}) exceeds the maximum number of tokens allowed ({WINDOW})."
BLOCKED = Refusal(400, b"<!doctype html><h1>Sorry</h1><p unclosed <b>", "text/html")
LONG = msgspec.structs.replace(ANSWER, text=ANSWER.text * 40)
BREAKS = 2_000
"""Bytes of an answer after which something of it has been shown in every dialect, and its end not."""


class Forced(NamedTuple):
    """A failure the script forces, and how its turn ends: shrunk, lowered (asking for less output), retried, or raised
    as a fault of this kind."""

    name: str
    step: Callable[[str], Step]
    ends: str
    kind: str = ""
    waits: tuple[float, ...] = ()


def listed(wire: str, status: int, text: str) -> Refusal:
    """The provider's own error, inside a list."""
    found = refusal(wire, status, text)
    return found._replace(body=b"[" + found.body + b"]")


FORCED = (
    Forced("overflow", lambda wire: too_long(wire, WINDOW + 900, WINDOW), "shrunk", "overflow"),
    Forced("429", lambda wire: busy(wire, 429, "7"), "retried", waits=(7.0,)),
    Forced("529", lambda wire: busy(wire, 529, "3"), "retried", waits=(3.0,)),
    Forced("401", lambda wire: refusal(wire, 401, KEYLESS), "raised", "auth"),
    Forced("page", lambda wire: PAGE, "retried", waits=(0.25,)),
    Forced("page with 400", lambda wire: BLOCKED, "raised", "unknown"),
    Forced("list, overflow", lambda wire: listed(wire, 400, OVERFLOWS), "shrunk", "overflow"),
    Forced("list, server", lambda wire: Refusal(500, b'[{"oops": []}, 7]'), "retried", waits=(0.25,)),
    Forced("output cap", lambda wire: refusal(wire, 400, OUTPUT), "lowered", "output_cap"),
    Forced("output cap, again", lambda wire: refusal(wire, 400, OUTPUT), "raised", "output_cap"),
    Forced("cut at once", lambda wire: CutAt(ANSWER, 30), "retried", waits=(0.25,)),
    Forced("cut later", lambda wire: CutAt(LONG, BREAKS), "raised", "transport"),
    Forced("cut later, cleanly", lambda wire: CutAt(LONG, BREAKS, clean=True), "raised", "transport"),
    Forced("silent", lambda wire: ScriptedAnswer(stop="length", usage=Usage(WINDOW, 0, 0, 0)), "shrunk", "overflow"),
    Forced("rate bucket", lambda wire: refusal(wire, 429, BUCKET), "shrunk", "rate_bucket"),
)


class Asks(msgspec.Struct):
    day: int


class Run:
    """One session of many turns. Each turn makes `calls` calls and answers; some meet a failure in their middle."""

    def __init__(self, wire: str, turns: int, calls: int) -> None:
        self.wire = wire
        self.turns = turns
        self.calls = calls
        self.asked = 0  # calls the model made
        self.ran: list[int] = []
        self.slept: list[float] = []
        self.force: Forced | None = None
        self.told = 0  # refusals the script forced
        self.left = 0  # calls to make before this turn's answer
        self.largest = 0

    def answer(self, body: Json) -> Step:
        if self.force is not None and self.left <= self.calls // 2:
            step, self.force = self.force.step(self.wire), None
            self.told += isinstance(step, Refusal)
            return step
        if self.left <= 0:
            return ANSWER
        count = 2 if self.left % 4 == 2 else 1
        self.left -= count
        self.asked += count
        days = range(self.asked - count, self.asked)
        calls = tuple(Call(f"call_{day}", "tides", f'{{"day": {day}}}') for day in days)
        text = f"I look at day {days[0]}." if days[0] % 3 else ""
        return ScriptedAnswer(text=text, calls=calls, thinking=f"Day {days[0]} is next.", signature=f"c2ln{days[0]:08}")

    async def tides(self, arguments: Asks, context: ToolContext) -> ToolResult:
        """Results of many sizes; now and then one larger than the window."""
        self.ran.append(arguments.day)
        lines = 2_500 if arguments.day % 97 == 50 else 3 + arguments.day * 37 % 90
        return ToolResult("".join(f"day {arguments.day}, {n:04}: {n * 37 % 911} cm\n" for n in range(lines)))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def play(self) -> "Run":
        toolbox = Toolbox(
            [FunctionTool("tides", "The tides of a day.", Asks, self.tides)],
            approval=ApprovalRules(default_verdict="allow"),
        )
        model = MODELS.get(self.wire, "gpt-4o")
        tools, system = toolbox.definitions(), "You read tides."
        session = Session(model, wire=self.wire, window=WINDOW, tools=tools, system=system, max_tokens=ASKED)
        async with Fake(self.wire, self.answer, window=WINDOW, binding="block") as server:
            retries = RetrySettings(jitter=lambda: 0.0, sleep=self.sleep)
            provider = HttpProvider(self.wire, model, base_url=server.url, key=KEY, retries=retries)
            agent = Agent(session, provider, toolbox, ToolContext(Path("."), session))
            every = max(1, self.turns // (len(FORCED) + 1))
            for turn in range(self.turns):
                number, rest = divmod(turn, every)
                forced = FORCED[number] if rest == every - 1 and number < len(FORCED) else None
                await self.turn(agent, turn, forced)
                assert len(server.refused) == self.told, server.refused[-1]
                server.seen.clear()
            await provider.close()
        self.whole(session)
        return self

    async def turn(self, agent: Agent, number: int, forced: Forced | None) -> None:
        self.force, self.left = forced, self.calls
        self.slept.clear()
        happened: list[Any] = []
        fault: ProviderError | None = None
        try:
            async for each in agent.run_turn(f"Question {number}: how high was the water?"):
                happened.append(each)
        except ProviderError as raised:
            fault = raised
        sizes = [each.request.tokens for each in happened if isinstance(each, RequestSent)]
        self.largest = max(self.largest, *sizes)
        assert self.force is None, "the failure was met"
        if forced is not None and forced.ends == "raised":
            assert fault is not None, forced.name
            assert fault.kind == forced.kind, forced.name
            assert self.slept == [], forced.name
            return
        assert fault is None, forced
        assert happened[-1] == TurnEnded("end")
        assert sum(isinstance(each, ToolFinished) and not each.result.is_error for each in happened) == self.calls
        assert self.slept == list(forced.waits if forced else ()), forced
        self.cured(happened, forced)

    def cured(self, happened: list[Any], forced: Forced | None) -> None:
        """What is refused for its size is followed by a smaller request, or by one that asks for less; no other is."""
        refused = [place for place, each in enumerate(happened) if isinstance(each, RequestRefused)]
        assert len(refused) == int(forced is not None and forced.ends in ("shrunk", "lowered")), forced
        for place in refused:
            assert forced is not None
            assert happened[place].error.kind == forced.kind
            before = [each for each in happened[:place] if isinstance(each, RequestSent)][-1].request.to_bytes()
            after = next(each for each in happened[place:] if isinstance(each, RequestSent)).request.to_bytes()
            if forced.ends == "lowered":
                assert after != before
                assert after == re.sub(rb'(?<="max)([A-Za-z_]+":)\d+', rb"\g<1>%d" % MOST, before, count=1), forced.name
            else:
                assert len(after) < len(before), forced.name

    def whole(self, session: Session) -> None:
        """Every question, call and result is in the log once; every call was run once."""
        said = [event.payload.message for event in session.log.read() if isinstance(event.payload, MessageAdded)]
        questions = [text_of(message) for message in said if message.role == "user"]
        assert [text for text in questions if text.startswith("Question")] == [
            f"Question {number}: how high was the water?" for number in range(self.turns)
        ]
        assert self.ran == list(range(self.asked))
        results = [found.call_id for message in said if (found := result_of(message)) is not None]
        assert results == [f"call_{day}" for day in range(self.asked)]
        assert self.largest <= WINDOW
        assert session.edit_counts.total() >= self.turns // 2, "the window was filled again and again"
        if self.wire == "openai_responses":  # its overflow names no number: the window is below the refused request
            assert session.window is not None
            assert session.window < LIMIT
        else:
            assert session.window == LIMIT, "learned from the rate bucket, which came last, and from nothing else"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "wire",
    [
        "anthropic",
        pytest.param("openai_responses", marks=pytest.mark.exhaustive),
        pytest.param("openai_chat", marks=pytest.mark.exhaustive),
        pytest.param("gemini", marks=pytest.mark.exhaustive),
    ],
)
def test_every_failure_in_a_small_window(wire: str) -> None:
    """The first two have rules of their own: Anthropic binds signed thinking to the messages before it, and the
    overflow of OpenAI's Responses API names no window."""
    turns = scaled(2 * len(FORCED) + 2, 200)
    done = asyncio.run(Run(wire, turns, calls=6).play())
    assert done.asked >= 5 * turns
    assert done.told == 11


# --- it never ends ------------------------------------------------------------------------------------------------


@parametrize_pairs(("script", "wire"), ["same file", "no such tool", "empty now and then"], NAMES)
def test_a_model_that_never_answers_is_stopped(script: str, wire: str) -> None:
    count = iter(range(10_000))

    def step(_: Json) -> Step:
        number = next(count)
        if script == "no such tool":
            return ScriptedAnswer(calls=(Call(f"c{number}", "raed", "{}"),), signature="c2ln")
        return "" if script == "empty now and then" and number % 3 == 2 else called((f"c{number}", "same"))

    world = World(wire, step, max_steps=9)
    turn, after = world.turns("Look.", mending(world))
    assert turn.why in ("steps", "empty")
    assert turn.requests <= 10
    assert world.server.refused == []
    goes_on(after)


@pytest.mark.parametrize("text", ["", "I am not done."])
def test_a_provider_that_pauses_for_ever_is_left(text: str) -> None:
    pauses = iter([ScriptedAnswer(text=text, stop="paused")] * 50)

    def step(_: Json) -> Step:
        return next(pauses, "That was the last pause.")

    world = World("anthropic", step, max_steps=10)
    turn, after = world.turns("Look.", mending(world))
    assert turn.requests <= 10
    goes_on(after)


@WIRES
def test_results_that_refill_the_window_cost_a_bounded_number_of_summaries(wire: str) -> None:
    asked: list[int] = []

    async def summarize(request: SummaryRequest) -> str:
        asked.append(len(asked))
        return "The files were read; each says what stands in it. Nothing else was found out so far."

    count = iter(range(10_000))
    world = World(wire, lambda _: called((f"c{next(count)}", "same")), max_steps=16, lines=400, summarizer=summarize)
    (turn,) = world.turns("Read it for ever.")
    assert turn.why == "steps"
    assert turn.requests == 16
    assert max(turn.sizes) <= 8_000
    assert len(asked) <= 8, "at most one for two requests, however fast it fills"
    assert world.server.refused == []


@WIRES
def test_a_message_larger_than_the_window_is_answered(wire: str) -> None:
    world = World(wire, lambda _: "I see.")
    turn, after = world.turns("high tide and low tide, " * 12_000, "And now?")
    goes_on(turn)
    goes_on(after)
    assert world.server.refused == []


@WIRES
def test_calls_made_together_whose_results_are_all_too_large(wire: str) -> None:
    many = called(*((f"c{n}", f"f{n}") for n in range(6)))
    world = World(wire, [many, "I see."], lines=3_000)
    (turn,) = world.turns("Read all.")
    goes_on(turn)
    assert len(turn.ended) == 6
    assert world.server.refused == []


@WIRES
def test_a_system_prompt_that_fills_the_window_is_one_clear_error_and_asks_nobody(wire: str) -> None:
    world = World(wire, lambda _: "I see.", system="Mind the tide. " * 6_000)

    def shorten() -> str:
        world.session.set_system("Be brief.")
        return "And now?"

    turn, after = world.turns("Look.", shorten)
    assert isinstance(turn.error, TooSmall)
    assert "system prompt" in str(turn.error)
    assert turn.requests == 0
    goes_on(after)
