"""Providers that lie, repeat themselves, break off or never agree: the loop asks a bounded number of times, runs no
call that came in pieces, and the next turn is answered."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.fake.server import KEY, CutAt, Fake, Json, Step
from tests.fake.words import Refusal, refusal, too_long
from tests.scale import mark_all_but, parametrize_pairs, scaled
from tidegate import Session
from tidegate.agent.loop import Agent, AgentEvent, RequestRefused, RequestSent, ToolFinished, TurnEnded
from tidegate.agent.tools.approval import ApprovalRules
from tidegate.agent.tools.tool import FunctionTool, ToolContext, ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.errors import GiveUp, TooSmall
from tidegate.core.messages import Call
from tidegate.core.usage import Usage
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.provider import HttpProvider, RetrySettings
from tidegate.wire.answers import encode_response_frames, encode_sse
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

NAMES = {
    "openai_chat": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "openai_responses": "gpt-4o",
    "gemini": "gemini-3-pro-preview",
}
WIRES = pytest.mark.parametrize("wire", NAMES)
SEAL = "c2lnbmF0dXJl"
PASTE = "high tide " * 3_850
"""7,700 tokens: nearly all of a window of 8,000."""
Steps = Iterable[Step] | Callable[[Json], Step]


class Named(msgspec.Struct):
    path: str


class Turn(NamedTuple):
    happened: list[AgentEvent]
    error: Exception | None
    requests: int

    @property
    def why(self) -> str:
        last = self.happened[-1]
        return last.reason if isinstance(last, TurnEnded) else ""

    @property
    def ended(self) -> list[ToolFinished]:
        return [each for each in self.happened if isinstance(each, ToolFinished)]

    @property
    def sizes(self) -> list[int]:
        return [each.request.tokens for each in self.happened if isinstance(each, RequestSent)]


class World:
    """An agent before a strict server; `script` may be changed between turns."""

    def __init__(self, wire: str, script: Steps, *, window: int = 8_000, lines: int = 40, **more: Any) -> None:
        self.wire = wire
        self.slept: list[float] = []
        self.ran: list[str] = []
        self.lines = lines
        self.most = more.pop("retried", 0)
        keys = ("window", "truncates", "binding", "usage")
        fake = {key: more.pop(f"server_{key}") for key in keys if f"server_{key}" in more}
        options = {key: more.pop(key) for key in ("max_steps", "summarizer") if key in more}
        self.server = Fake(wire, self._next, **{"window": window, **fake})
        self.play(script)
        toolbox = Toolbox(
            [FunctionTool("read", "Read a file.", Named, self._read)], approval=ApprovalRules(default_verdict="allow")
        )
        tools = toolbox.definitions()
        system = more.pop("system", "Be brief.")
        self.session = Session(NAMES[wire], wire=wire, window=window, tools=tools, system=system, **more)
        self._agent: Callable[[HttpProvider], Agent] = lambda provider: Agent(
            self.session, provider, toolbox, ToolContext(Path("."), self.session), **options
        )

    def play(self, script: Steps) -> None:
        self._script = script if callable(script) else None
        self._left = iter(()) if callable(script) else iter(script)

    def _next(self, body: Json) -> Step:
        return self._script(body) if self._script else next(self._left)

    async def _read(self, arguments: Named, context: ToolContext) -> ToolResult:
        self.ran.append(arguments.path)
        return ToolResult(f"what stands in {arguments.path}, a line of it\n" * self.lines)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def turns(self, *texts: str | Callable[[], str]) -> list[Turn]:
        """A text is said; of a function it is asked for when the turns before are over."""
        return asyncio.run(self._turns(texts))

    async def _turns(self, texts: Iterable[str | Callable[[], str]]) -> list[Turn]:
        found = []
        async with self.server as server:
            retries = RetrySettings(max_retries=self.most, jitter=lambda: 0.0, sleep=self._sleep)
            provider = HttpProvider(self.wire, NAMES[self.wire], base_url=server.url, key=KEY, retries=retries)
            agent = self._agent(provider)
            for text in texts:
                found.append(await self._turn(agent, text() if callable(text) else text))
            await provider.close()
        return found

    async def _turn(self, agent: Agent, text: str) -> Turn:
        before = len(self.server.seen)
        happened: list[AgentEvent] = []
        error: Exception | None = None
        try:
            async for each in agent.run_turn(text):
                happened.append(each)
        except (ProviderError, GiveUp, TooSmall) as raised:
            error = raised
        return Turn(happened, error, len(self.server.seen) - before)


def called(*calls: tuple[str, str], **more: Any) -> ScriptedAnswer:
    made = tuple(Call(ident, "read", f'{{"path": "{path}"}}') for ident, path in calls)
    return ScriptedAnswer(calls=made, signature=SEAL, thinking="I should look.", **more)


def reading(calls: int) -> Callable[[Json], Step]:
    """A model that reads so many files before each answer."""
    count = iter(range(10_000))

    def step(_: Json) -> Step:
        number = next(count)
        return called((f"c{number}", f"f{number}")) if number % (calls + 1) < calls else "So far."

    return step


def mending(world: World) -> Callable[[], str]:
    """The server comes to its senses."""

    def mend() -> str:
        world.play(lambda _: "All is well.")
        return "And now?"

    return mend


def goes_on(turn: Turn) -> None:
    assert turn.error is None
    assert turn.why == "end"


# --- it never agrees ----------------------------------------------------------------------------------------------

ALWAYS: dict[str, Callable[[str], Step]] = {
    "overflow": lambda wire: too_long(wire, 9_000, 8_000),
    "bytes": lambda wire: Refusal(413, b"<html><h1>413 Request Entity Too Large</h1></html>", "text/html"),
    "bucket": lambda wire: refusal(wire, 429, "Request too large (TPM): Limit 6000, Requested 7900."),
    "silent": lambda wire: ScriptedAnswer(stop="length", usage=Usage(8_000, 0, 0, 0)),
}


@parametrize_pairs(("kind", "wire"), ALWAYS, NAMES)
def test_a_provider_that_always_says_too_long_is_asked_three_times(kind: str, wire: str) -> None:
    steps = iter([called((f"c{n}", f"f{n}")) for n in range(4)])
    world = World(wire, lambda _: next(steps, None) or ALWAYS[kind](wire))
    refused, after = world.turns("Look.", mending(world))
    assert isinstance(refused.error, GiveUp)
    assert refused.requests == 4 + 3
    assert sum(isinstance(each, RequestRefused) for each in refused.happened) == 3
    assert world.ran == [f"f{n}" for n in range(4)]
    goes_on(after)


@parametrize_pairs(("share", "wire"), [0.94, 0.6], NAMES)
def test_a_window_smaller_than_advertised(share: float, wire: str) -> None:
    """With nothing kept back for the answer, and a first message that fits what was advertised."""
    world = World(wire, reading(3), server_window=int(8_000 * share), reserve=0, lines=70)
    for turn in world.turns(PASTE, *(f"Go on, {n}." for n in range(6))):
        goes_on(turn)
    refused = len(world.server.refused)
    assert refused or share > 0.9, "of some models we count so carefully that a little less is no matter"
    if refused and wire != "openai_responses":  # which never says how much it holds
        assert refused <= 2, "learned from the first; a second may come of a count that is a hair too low"
        assert world.session.window == int(8_000 * share)


@pytest.mark.parametrize("wire", mark_all_but(NAMES, "anthropic"))
def test_what_was_cut_in_silence_teaches_nothing(wire: str) -> None:
    world = World(wire, reading(4), window=16_000, server_window=4_000, server_truncates=True, lines=90)
    found = world.turns(*(f"Go on, {n}." for n in range(6)))
    for turn in found:
        goes_on(turn)
    assert max(size for turn in found for size in turn.sizes) > 6_000, "there was something to cut"
    ratio = world.session.view.scale_by_model.get(world.session.model, 1.0)
    assert ratio > 0.75, "a cut prompt is no reason to count less"
    assert world.session.window == 16_000


@pytest.mark.parametrize("wire", ["anthropic", "gemini", "openai_responses"])
def test_reasoning_that_is_no_longer_taken_back_does_not_end_the_session(wire: str) -> None:
    """Once the provider refuses what it signed it does so for ever: it is asked again without, once."""
    world = World(wire, ())

    def script(body: Json) -> Step:
        if world.ran and SEAL in msgspec.json.encode(body).decode():
            return refusal(wire, 400, "messages.1.content.0: Invalid `signature` in `thinking` block")
        return "Done." if world.ran else called(("c1", "a"))

    world.play(script)
    turn, after = world.turns("Look.", "And now?")
    goes_on(turn)
    goes_on(after)
    assert len(world.server.refused) == 1


def test_a_refusal_without_words_near_the_window_may_be_its_length() -> None:
    def script(body: Json) -> Step:
        return Refusal(400, b"") if len(msgspec.json.encode(body)) > len(PASTE) else "Done."

    world = World("openai_chat", script, reserve=0)
    turn, after = world.turns(PASTE, mending(world))
    assert len(world.server.refused) == 1
    goes_on(turn)
    goes_on(after)


def test_a_refusal_without_words_of_a_short_request_is_not_its_length() -> None:
    world = World("openai_chat", lambda _: Refusal(400, b""))
    turn, after = world.turns("Look.", mending(world))
    assert isinstance(turn.error, ProviderError)
    assert turn.requests == 1
    goes_on(after)


# --- it does not speak as it should -------------------------------------------------------------------------------

BODIES = {
    "page": b"<html><body>denied</body></html>",
    "list": b'[{"error": {"message": "no", "code": 1}}, []]',
    "string": b'"no"',
    "nothing": b"",
    "null": b"null",
    "bytes": b"\x1f\x8b\x08\x00\xff\xfe",
    "nested": b'{"error": "{\\"error\\": {\\"message\\": [\\"no\\"]}}"}',
    "deep": b"[" * 3_000,
}


@parametrize_pairs(("body", "wire"), BODIES, NAMES)
def test_any_refusal_is_one_error_and_the_session_goes_on(body: str, wire: str) -> None:
    world = World(wire, [called(("c1", "a")), Refusal(400, BODIES[body])], retried=3)
    refused, after = world.turns("Look.", mending(world))
    assert isinstance(refused.error, ProviderError)
    assert (refused.requests, world.slept) == (2, [])
    goes_on(after)


def test_odd_times_to_wait_are_not_waited() -> None:
    for wait in ("-5", "nan", "inf", "1e400", "soon", "", "99999999999999999999", "0"):
        refused = refusal("openai_chat", 429, "Rate limit reached.")._replace(headers=(("retry-after", wait),))
        world = World("openai_chat", [refused] * 9, retried=3)
        (turn,) = world.turns("Look.")
        assert isinstance(turn.error, ProviderError), wait
        assert turn.requests <= 4, wait
        assert all(0 <= seconds <= 60 for seconds in world.slept), wait


@WIRES
def test_a_stream_cut_anywhere_runs_nothing_and_leaves_nothing(wire: str) -> None:
    spoken = called(("c1", "a"), ("c2", "b"), text="I look.")
    size = len(encode_sse(wire, encode_response_frames(wire, spoken)))
    world = World(wire, ())

    def cut(at: int) -> Callable[[], str]:
        def say() -> str:
            world.play([CutAt(spoken, at, clean=at % 2 == 0), "Yes."])
            return f"Cut at {at}."

        return say

    places = range(0, size, size // scaled(12, size))
    for at, turn in zip(places, world.turns(*map(cut, places)), strict=True):
        if isinstance(turn.error, ProviderError):
            assert turn.error.kind == "transport"
            assert turn.ended == []
        else:
            assert at > size * 0.6, "nothing but the end of it may be missing"
            assert [each.call.id for each in turn.ended] == ["c1", "c2"]
    (after,) = world.turns(mending(world))
    goes_on(after)


LIES: dict[str, Callable[[Usage], Usage]] = {
    "nothing": lambda _: Usage(0, 0, 0, 0),
    "one": lambda _: Usage(1, 1, 0, 0),
    "tenfold": lambda true: true._replace(input_tokens=10 * true.input_tokens),
    "a third": lambda true: true._replace(input_tokens=true.input_tokens // 3),
    "half as much again": lambda true: true._replace(input_tokens=true.input_tokens * 3 // 2),
    "absurd": lambda _: Usage(10**15, 10**15, 0, 0),
    "negative": lambda _: Usage(-5_000, -1, 0, 0),
    "more cached than read": lambda true: true._replace(cache_read=9 * true.input_tokens),
}


@parametrize_pairs(("lie", "wire"), LIES, ["openai_chat", "anthropic"])
def test_lies_about_usage_never_make_a_request_too_large_nor_end_the_session(lie: str, wire: str) -> None:
    world = World(wire, reading(3), server_usage=LIES[lie], lines=100)
    for turn in world.turns(*(f"Go on, {n}." for n in range(5))):
        goes_on(turn)
    assert world.server.refused == []


@parametrize_pairs(("ident", "wire"), ["call_0", ""], NAMES)
def test_ids_that_come_again_and_again(ident: str, wire: str) -> None:
    """The server finds a result without its call, and a call without its result."""
    count = iter(range(10_000))

    def script(_: Json) -> Step:
        number = next(count)
        return called((ident, f"a{number}"), (ident, f"b{number}")) if number % 3 else "So far."

    world = World(wire, script, server_binding="block", lines=20)
    for turn in world.turns(*(f"Go on, {n}." for n in range(8))):
        goes_on(turn)
        assert all(each.call.arguments.split('"')[3] in each.result.text for each in turn.ended)
    assert world.server.refused == []
    assert len(world.ran) == len(set(world.ran)) == 2 * 14


@parametrize_pairs(("stop", "wire"), ["calls", "length"], [wire for wire in NAMES if wire != "gemini"])
def test_a_model_whose_calls_are_always_cut_ends_and_runs_none(stop: Any, wire: str) -> None:
    """Not with Gemini, which does not send JSON as text."""
    broken = ScriptedAnswer(calls=(Call("c1", "read", '{"path": "a'), Call("c2", "read", '{"path": ')), stop=stop)
    world = World(wire, lambda _: broken, max_steps=12)
    turn, after = world.turns("Look.", mending(world))
    assert (turn.why, turn.requests, world.ran) == ("steps", 6, [])
    assert all(each.result.is_error for each in turn.ended)
    assert world.server.refused == []
    goes_on(after)
