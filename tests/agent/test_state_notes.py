"""State notes of an agent: written beside its next call, by its own model, counted and capped."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fake.server import KEY, Fake
from tests.session.compacting import list_block_places
from tests.session.noted import note_message, write_answer
from tidegate import Session
from tidegate.agent.config.files import parse_config
from tidegate.agent.loop import RequestSent
from tidegate.agent.runtime import OpenAgent, open_agent
from tidegate.agent.spending import MeteredProvider, SessionSpending, SpendMeter
from tidegate.agent.subagents import SubagentKind, SubagentSession, SubagentTool
from tidegate.agent.tools.approval import ALLOW_ALL
from tidegate.agent.tools.tool import FunctionTool, ToolContext, ToolResult
from tidegate.core.messages import Call, text_of
from tidegate.models.provider import Delta, Reply
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.session.costs import CostReport
from tidegate.session.note_writer import NoteWriter, ask_provider
from tidegate.wire.anthropic import models

CONFIG = "agents: [{id: main, model: {provider: openai, model: scripted}}]\nwindow: 16000\n"
QUESTION = "The tide comes in. " * 100
NOTE = write_answer(state="- the tide comes in", goal="- user: asks about tides")


class Scripted:
    """A model that answers questions, and writes a note when it is asked for one."""

    def __init__(self) -> None:
        self.notes: list[dict[str, Any]] = []

    def __call__(self, request: bytes) -> ScriptedAnswer:
        body = json.loads(request)
        if "[tidegate: the state note]" in str(body["messages"][-1]["content"]):
            self.notes.append(body)
            return ScriptedAnswer(text=NOTE)
        return ScriptedAnswer(text="And out again. " * 100)


def converse(more: str, turns: int = 40) -> tuple[Scripted, OpenAgent, CostReport]:
    model = Scripted()

    async def run() -> tuple[OpenAgent, CostReport]:
        provider = ScriptedProvider("openai_chat", [model] * 200)
        async with open_agent(
            parse_config(CONFIG + more, {}), data=None, name="t", workspace=Path("."), provider=provider, environment={}
        ) as agent:
            for _ in range(turns):
                async for each in agent.run_turn(QUESTION):
                    assert not isinstance(each, RequestSent) or "[tidegate: the state note]" not in str(
                        each.request.messages
                    )
                writer = agent.session.state_notes.writer
                while writer is not None and writer.is_busy:
                    await asyncio.sleep(0.01)
                if agent.session.edit_counts["note_sweep"] + agent.session.edit_counts["sweep"]:
                    break
            costs = CostReport(agent.session.log)
            while costs.read_more():
                pass
            return agent, costs

    agent, costs = asyncio.run(run())
    return model, agent, costs


def test_an_agent_sweeps_to_the_note_that_its_model_wrote() -> None:
    model, agent, costs = converse("")
    shown = note_message(agent.session)
    assert shown is not None
    assert "- the tide comes in" in text_of(shown)
    assert costs.by_purpose["state_note"].tokens > 0
    asked, sent = model.notes[0], agent.session
    assert asked["messages"][0]["content"] == sent.view.system
    assert len(asked.get("tools", ())) == len(sent.view.tools)


def test_notes_can_be_turned_off() -> None:
    model, agent, _ = converse("execution: {state_notes: false}")
    assert model.notes == []
    assert agent.session.edit_counts["sweep"] == 1


def test_every_note_is_counted() -> None:
    model, agent, _ = converse("")
    spent = [event.payload for event in agent.session.log.read() if getattr(event.payload, "topic", "") == "spent"]
    assert len(spent) == len(model.notes) > 0


class LateNotes(ScriptedProvider):
    """Questions for notes are answered when `gate` is set."""

    def __init__(self, model: Scripted) -> None:
        super().__init__("openai_chat", [model] * 200)
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def stream(self, request: bytes) -> AsyncGenerator[Delta | Reply, None]:
        if b"[tidegate: the state note]" in request:
            self.asked.set()
            await self.gate.wait()
        async for each in super().stream(request):
            yield each


async def wait_for_note(session: Session) -> None:
    while session.state_notes.writer is not None and session.state_notes.writer.is_busy:
        await asyncio.sleep(0)


def test_a_background_call_does_not_write_to_the_log_of_a_session_in_use() -> None:
    """It is counted at once, and written by the next call of the session."""

    async def run() -> None:
        provider = LateNotes(Scripted())
        config = parse_config(CONFIG, {})
        async with open_agent(
            config, data=None, name="t", workspace=Path("."), provider=provider, environment={}
        ) as agent:
            session = agent.session
            while not provider.asked.is_set():
                async for _ in agent.run_turn(QUESTION):
                    pass
            head, before = session.log.head, agent.spending.session_total.tokens
            provider.gate.set()
            await wait_for_note(session)
            assert session.log.head == head
            after = agent.spending.session_total.tokens
            assert after > before
            await session.prepare_async()
            topics = [getattr(event.payload, "topic", "") for event in session.log.read(head + 1)]
            assert topics[:2] == ["spent", "state_note"]
            assert agent.spending.session_total.tokens == after

    asyncio.run(run())


class Part(msgspec.Struct):
    path: str


def test_a_subagent_writes_notes_of_its_own_session() -> None:
    """Paid by the session that asked, which gets the costs when its turn ends: others are added to it meanwhile."""
    notes, steps = list[str](), list[int]()

    def answer(request: bytes) -> ScriptedAnswer:
        newest = str(json.loads(request)["messages"][-1]["content"])
        if "[tidegate: the state note]" in newest:
            notes.append(newest)
            return ScriptedAnswer(text=NOTE)
        steps.append(1)
        if len(steps) > 60 or session.edit_counts["note_sweep"]:
            return ScriptedAnswer(text="All read.")
        return ScriptedAnswer(calls=(Call(f"c{len(steps)}", "read", json.dumps({"path": f"part {len(steps)}"})),))

    async def read(arguments: Part, context: ToolContext) -> ToolResult:
        while session.state_notes.writer is not None and session.state_notes.writer.is_busy:
            await asyncio.sleep(0.01)
        return ToolResult("The tide comes in. " * 100)

    session = Session("scripted", wire="openai_chat", window=16_000, count="chars/4")
    asker = Session("scripted", wire="openai_chat", window=16_000)
    tool = FunctionTool("read", "Read a file.", Part, read)
    provider = ScriptedProvider("openai_chat", [answer] * 200)

    def write_ahead(own: Session, spending: SessionSpending, others: Sequence[SpendMeter]) -> NoteWriter:
        metered = MeteredProvider(provider, [*others, spending], purpose="state_note", is_beside=True)
        return NoteWriter(own, own.state_notes, ask_provider(metered), costs=spending.costs)

    kind = SubagentKind(
        "reads",
        provider,
        [tool],
        lambda name, tools: SubagentSession(session, f"{name}.task-1"),
        write_ahead=write_ahead,
    )
    spending = SessionSpending(asker)
    task = SubagentTool({"general": kind}, approval=ALLOW_ALL, meters=[spending])
    result = asyncio.run(task({"prompt": "Read all parts."}, ToolContext(Path("."), asker, session_name="build")))
    assert "All read." in result.text
    assert notes
    assert session.edit_counts["note_sweep"] == 1
    assert any("- the tide comes in" in text_of(item.message) for item in session.view.items)
    began_and_ended = 2
    assert asker.log.head == began_and_ended
    paid = spending.session_total
    assert paid.tokens > 0
    spending.settle()
    assert asker.log.head == began_and_ended + len(steps) + len(notes)
    assert spending.session_total == paid


@pytest.mark.parametrize(("window", "writer"), [(20_000, "small"), (8_000, "scripted")])
def test_the_model_for_summaries_writes_the_notes_if_its_window_holds_the_conversation(
    window: int, writer: str
) -> None:
    own, other = Scripted(), Scripted()
    config = f"""
execution: {{context: {{summary_brain: {{provider: here, model: small}}}}}}
models: {{small: {{window: {window}}}}}
"""

    async def run() -> OpenAgent:
        async with Fake("openai_chat", lambda body: other(json.dumps(body).encode()), window=window) as server:
            whole = f"{CONFIG}{config}providers: {{here: {{base_url: {server.url}, key_env: HERE}}}}"
            provider = ScriptedProvider("openai_chat", [own] * 200)
            parsed = parse_config(whole, {"HERE": KEY})
            async with open_agent(
                parsed, data=None, name="t", workspace=Path("."), provider=provider, environment={"HERE": KEY}
            ) as agent:
                for _ in range(40):
                    async for _ in agent.run_turn(QUESTION):
                        pass
                    notes = agent.session.state_notes
                    while notes.writer is not None and notes.writer.is_busy:
                        await asyncio.sleep(0.01)
                    if agent.session.edit_counts["note_sweep"]:
                        break
                return agent

    agent = asyncio.run(run())
    assert agent.session.edit_counts["note_sweep"] == 1
    assert [bool(own.notes), bool(other.notes)] == [writer == "scripted", writer == "small"]
    assert all(body["model"] == writer for body in (*own.notes, *other.notes))


@pytest.mark.parametrize("value", ["compaction", "true"])
def test_an_agent_has_its_note_written_as_a_block_of_the_provider(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the option, and only then; the header goes with every request."""
    monkeypatch.setattr(models, "ANTHROPIC_HOSTS", frozenset({"127.0.0.1"}))

    def answer(body: dict[str, Any]) -> str:
        return NOTE if "[tidegate: the state note]" in json.dumps(body) else "And out again. " * 100

    async def run() -> None:
        async with Fake("anthropic", answer) as fake:
            model = (
                f"{{provider: anthropic, model: claude-opus-5-5, config: {{base_url: '{fake.url}', api_key: {KEY}}}}}"
            )
            config = f"agents: [{{id: main, model: {model}}}]\nwindow: 16000\nexecution: {{state_notes: {value}}}\n"
            async with open_agent(
                parse_config(config, {}), data=None, name="t", workspace=Path("."), environment={}
            ) as agent:
                for _ in range(40):
                    async for _each in agent.run_turn(QUESTION):
                        pass
                    writer = agent.session.state_notes.writer
                    while writer is not None and writer.is_busy:
                        await asyncio.sleep(0.01)
                    if agent.session.edit_counts["note_sweep"]:
                        break
                costs = CostReport(agent.session.log)
                while costs.read_more():
                    pass
            assert fake.refused == []
            blocks = [bool(list_block_places(seen.body)) for seen in fake.seen]
            betas = ["compact-2026-09-04" in seen.headers.get("anthropic-beta", "") for seen in fake.seen]
            assert any(blocks) == (value == "compaction")
            assert betas == [value == "compaction"] * len(betas)
            assert agent.session.edit_counts["note_sweep"] == 1
            assert costs.by_purpose["state_note"].tokens > 1_000

    asyncio.run(run())
