"""Saying something and seeing the answer: streaming, queueing, steering, interrupting, going on."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

from tests.tui.stage import DEADLINE, on_stage, played
from tidegate.core.messages import Call, text_of
from tidegate.models.errors.classification import classify_response
from tidegate.models.provider import Delta, Reply
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider, ScriptStep


def test_an_answer_is_shown_in_shape(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["# Title\n\nIt **is** `so`:\n\n- one\n- two\n"]) as stage:
            await stage.type("Why?")
            await stage.press("enter")
            await stage.sees("two")
            await stage.idle()
            lines = [line.strip() for line in stage.lines()]
            assert "▌ Why?" in lines
            assert "Title" in lines
            assert "It is so:" in lines
            assert "• one" in lines

    played(play)


class Gate:
    """A step of a script that holds until it is let go; `waits` tells that the model was asked."""

    def __init__(self, said: str | ScriptedAnswer) -> None:
        self._said = said
        self.waits = threading.Event()
        self.go = threading.Event()

    async def __call__(self, request: bytes) -> str | ScriptedAnswer:
        self.waits.set()
        while not self.go.is_set():
            await asyncio.sleep(0.002)
        return self._said


def test_it_streams(tmp_path: Path) -> None:
    """The first words stand on the screen while the last are not said yet."""
    seen = threading.Event()

    class Slow(ScriptedProvider):
        async def stream(self, request: bytes) -> AsyncGenerator[Delta | Reply, None]:
            async for each in super().stream(request):
                yield each
                while not seen.is_set():
                    await asyncio.sleep(0.002)

    async def play() -> None:
        words = "Beginning of a long answer. " + "More of it. " * 40
        async with on_stage(tmp_path, Slow("openai_chat", [words])) as stage:
            await stage.say("Go on.")
            await stage.sees("Beginning")
            assert stage.app.turn_state.is_busy
            assert [block.kind for block in stage.app.turn_state.live_blocks] == ["said"]
            seen.set()
            await stage.idle()
            assert stage.app.turn_state.live_blocks == []
            assert stage.text().count("Beginning") == 1

    played(play)


def test_typing_goes_on_while_the_model_holds_its_thread(tmp_path: Path) -> None:
    """By the order of what happens: the model's thread does nothing at all until the typed words are on the screen."""
    order: list[str] = []
    typed = threading.Event()

    def blocks(request: bytes) -> str:
        order.append("asked")
        assert typed.wait(DEADLINE)
        order.append("answered")
        return "Done."

    async def play() -> None:
        async with on_stage(tmp_path, [blocks]) as stage:
            await stage.say("Think.")
            await stage.until(lambda: order == ["asked"])
            await stage.type("next")
            await stage.sees("› next")
            order.append("typed")
            typed.set()
            await stage.idle()

    played(play)
    assert order == ["asked", "typed", "answered"]


def test_typing_goes_on_while_a_summary_is_written(tmp_path: Path) -> None:
    order: list[str] = []
    typed = threading.Event()
    summary = "## Goal\nKeep the port 8443.\n"

    def blocks(request: bytes) -> str:
        order.append("summary asked")
        assert typed.wait(DEADLINE)
        order.append("summary written")
        return summary

    async def play() -> None:
        steps: list[ScriptStep] = ["word " * 900, "word " * 900, blocks, summary, summary]
        async with on_stage(tmp_path, steps) as stage:
            for text in ("The port is 8443.", "And the host is db7."):
                await stage.say(text + " " + "detail " * 900)
                await stage.idle()
            await stage.say("/compact")
            await stage.until(lambda: "summary asked" in order)
            await stage.sees("summarizing…")
            await stage.type("next")
            await stage.sees("› next")
            order.append("typed")
            typed.set()
            await stage.until(lambda: "/undo takes it back" in stage.text())
            assert "summarizing…" not in stage.text()

    played(play)
    assert order == ["summary asked", "typed", "summary written"]


def test_what_is_said_meanwhile_waits_and_is_sent(tmp_path: Path) -> None:
    gate = Gate("First.")

    async def play() -> None:
        provider = ScriptedProvider("openai_chat", [gate, "Second.", "Third."])
        async with on_stage(tmp_path, provider) as stage:
            await stage.say("One?")
            await stage.until(gate.waits.is_set)
            await stage.say("Two?")
            await stage.say("Three?")
            await stage.sees("queued: Two?")
            await stage.sees("queued: Three?")
            assert len(provider.requests) == 1
            gate.go.set()
            await stage.sees("Third.")
            await stage.idle()
            assert "queued" not in stage.text()
            said = [text_of(item.message) for item in stage.agent.session.view.items]
            assert said == ["One?", "First.", "Two?", "Second.", "Three?", "Third."]

    played(play)


def test_what_waits_can_be_taken_back(tmp_path: Path) -> None:
    gate = Gate("First.")

    async def play() -> None:
        provider = ScriptedProvider("openai_chat", [gate])
        async with on_stage(tmp_path, provider) as stage:
            await stage.say("One?")
            await stage.until(gate.waits.is_set)
            await stage.say("Two?")
            await stage.sees("queued: Two?")
            await stage.press("up")
            await stage.sees("› Two?")
            assert stage.app.turn_state.queue == []
            gate.go.set()
            await stage.idle()
            assert len(provider.requests) == 1

    played(play)


def test_enter_says_what_waits_in_the_middle_of_the_turn(tmp_path: Path) -> None:
    gate = Gate(ScriptedAnswer(calls=(Call("c1", "list"),)))

    async def play() -> None:
        provider = ScriptedProvider("openai_chat", [gate, "I look at two."])
        async with on_stage(tmp_path, provider) as stage:
            await stage.say("One?")
            await stage.until(gate.waits.is_set)
            await stage.say("Two instead.")
            await stage.sees("queued: Two instead.")
            await stage.press("enter")
            await stage.until(lambda: not stage.app.turn_state.queue)
            await stage.until(lambda: stage.agent.agent.has_steering)
            gate.go.set()
            await stage.sees("I look at two.")
            await stage.idle()
            assert b"Two instead." in provider.requests[1]

    played(play)


def test_escape_interrupts_and_the_session_goes_on(tmp_path: Path) -> None:
    hang = threading.Event()

    class Hanging(ScriptedProvider):
        async def stream(self, request: bytes) -> AsyncGenerator[Delta | Reply, None]:
            async for each in super().stream(request):
                yield each
                if len(self.requests) == 1:
                    hang.set()
                    await asyncio.Event().wait()

    async def play() -> None:
        provider = Hanging("openai_chat", ["Half an answer.", "Whole."])
        async with on_stage(tmp_path, provider) as stage:
            await stage.say("One?")
            await stage.until(hang.is_set)
            await stage.say("Later.")
            await stage.press("escape")
            await stage.sees("Interrupted.")
            await stage.sees("queued: Later.")  # what waits is not sent behind an interruption by itself
            await stage.press("enter")
            await stage.sees("Whole.")
            await stage.idle()
            assert b"[interrupted]" in provider.requests[1]

    played(play)


def test_a_problem_is_told_and_nothing_ends(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(
            tmp_path, [classify_response(401, '{"error": {"message": "bad key"}}'), "Better."]
        ) as stage:
            await stage.say("One?")
            await stage.sees("bad key")
            await stage.idle()
            await stage.say("Two?")
            await stage.sees("Better.")

    played(play)


def test_a_new_app_finds_everything(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["The port is 8443."]) as stage:
            await stage.say("Which port?")
            await stage.sees("8443")
            await stage.idle()
        provider = ScriptedProvider("openai_chat", ["As I said."])
        async with on_stage(tmp_path, provider, open_now=False) as stage:
            await stage.sees("The port is 8443.")
            await stage.idle()
            await stage.say("Which?")
            await stage.sees("As I said.")
            assert b"The port is 8443." in provider.requests[0]

    played(play)
