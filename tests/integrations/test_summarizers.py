"""The ready-made summarizers, with the SDKs of the providers against the fake server (docs/state-notes.md)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.fake.on_demand import OnDemandCompaction
from tests.fake.server import KEY, Fake
from tests.session.noted import REQUEST, add_work, make_session, note_message, write_answer
from tidegate import Session
from tidegate.core.errors import BadInput
from tidegate.core.messages import compaction_of, text_of
from tidegate.integrations.summarizers import anthropic_summarizer, gemini_summarizer, openai_summarizer
from tidegate.session.costs import CostReport

pytestmark = pytest.mark.sdk

ANSWER = write_answer(state="- reading `src/part_1.py`")


@asynccontextmanager
async def open_summarizer(wire: str, url: str) -> AsyncIterator[Any]:
    if wire == "anthropic":
        import anthropic

        async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url) as claude:
            yield anthropic_summarizer(claude)
    elif wire == "gemini":
        from google import genai

        base, _, version = url.rpartition("/")
        with genai.Client(api_key=KEY, http_options={"base_url": base, "api_version": version}) as client:
            yield gemini_summarizer(client)
    else:
        import openai

        async with openai.AsyncOpenAI(api_key=KEY, base_url=url) as gpt:
            yield openai_summarizer(gpt)


@pytest.mark.parametrize(
    ("wire", "model"),
    [
        ("openai_chat", "gpt-4o"),
        ("openai_responses", "gpt-4o"),
        ("anthropic", "claude-opus-4-8"),
        ("gemini", "gemini-2.5-flash"),
    ],
)
def test_the_sdk_of_a_provider_asks_its_model(wire: str, model: str) -> None:
    async def run() -> Session:
        async with Fake(wire, [ANSWER] * 9) as server, open_summarizer(wire, server.url) as summarizer:
            session = make_session(model=model, wire=wire, summarizer=summarizer)
            await session.add_async({"role": "user", "content": REQUEST})
            for number in range(60):
                await session.prepare_async()
                add_work(session, number)
                others = asyncio.all_tasks() - {asyncio.current_task()}
                notes = [task for task in others if "NoteWriter" in repr(task.get_coro())]
                if notes:
                    await asyncio.wait(notes)
                if session.edit_counts["note_sweep"]:
                    return session
        raise AssertionError("there was no note")

    session = asyncio.run(run())
    shown = note_message(session)
    assert shown is not None
    assert "- reading `src/part_1.py`" in text_of(shown)
    costs = CostReport(session.log)
    while costs.read_more():
        pass
    assert costs.by_purpose["state_note"].tokens > 0


def test_the_sdk_of_anthropic_asks_for_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """And sends it back as it came: the server compares it."""
    import anthropic

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with pytest.raises(BadInput, match="compact-2026-09-04"):
        anthropic_summarizer(anthropic.AsyncAnthropic(), compaction=True)

    async def run() -> tuple[Session, OnDemandCompaction]:
        def answer(body: dict[str, Any]) -> str:
            return ANSWER if "compaction" in body else "Done. " * 200

        headers = {"anthropic-beta": "compact-2026-09-04"}
        async with (
            Fake("anthropic", answer) as server,
            anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, default_headers=headers) as client,
        ):
            summarizer = anthropic_summarizer(client, compaction=True)
            session = make_session(model="claude-opus-5-5", wire="anthropic", summarizer=summarizer)
            for number in range(60):
                session.add({"role": "user", "content": f"{REQUEST} {number} " + "words of it. " * 60})
                request = await session.prepare_async()
                reply = await client.messages.create(**request.body)
                session.add({"role": "assistant", "content": [{"type": "text", "text": reply.content[0].text}]})
                others = asyncio.all_tasks() - {asyncio.current_task()}
                notes = [task for task in others if "NoteWriter" in repr(task.get_coro())]
                if notes:
                    await asyncio.wait(notes)
                if server.on_demand.blocks and session.edit_counts["note_sweep"]:
                    break
            assert server.refused == []
            return session, server.on_demand

    session, on_demand = asyncio.run(run())
    block = compaction_of(session.view.items[0].message)
    assert block is not None
    assert json.loads(block.block) == on_demand.blocks["sealed-0"]
    costs = CostReport(session.log)
    while costs.read_more():
        pass
    assert costs.by_purpose["state_note"].tokens > 0
