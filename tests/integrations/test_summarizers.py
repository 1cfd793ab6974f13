"""The ready-made summarizers, with the SDKs of the providers against the fake server (docs/state-notes.md)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.fake.server import KEY, Fake
from tests.session.noted import REQUEST, add_work, make_session, note_message, write_answer
from tidegate import Session
from tidegate.core.messages import text_of
from tidegate.integrations.summarizers import anthropic_summarizer, gemini_summarizer, openai_summarizer
from tidegate.session.costs import CostReport

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
