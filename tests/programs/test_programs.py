"""The user programs of this folder run. mypy checks them with all tests; `make pyright` checks them with pyright."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.fake.test_sdks import with_anthropic, with_gemini, with_openai
from tests.programs.many_sessions import SESSIONS, run_all
from tests.programs.own_loop import ask_anthropic, ask_gemini, ask_openai_chat, ask_openai_responses
from tidegate import Session, Text
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

if TYPE_CHECKING:
    from pathlib import Path

    import anthropic
    import openai
    from google import genai

pytestmark = pytest.mark.sdk

COLD = ScriptedAnswer(text="The cache is cold.")


def check(session: Session) -> None:
    parts = session.view.items[-1].message.parts
    assert [part.text for part in parts if isinstance(part, Text)] == ["The cache is cold."]
    assert len(session.history.requests()) == 1


def test_own_loop_with_openai() -> None:
    async def chat(client: openai.AsyncOpenAI) -> None:
        check(await ask_openai_chat(client))

    async def responses(client: openai.AsyncOpenAI) -> None:
        check(await ask_openai_responses(client))

    with_openai("openai_chat", [COLD], chat)
    with_openai("openai_responses", [COLD], responses)


def test_own_loop_with_anthropic() -> None:
    async def use(client: anthropic.AsyncAnthropic) -> None:
        check(await ask_anthropic(client))

    with_anthropic([COLD], use)


def test_own_loop_with_gemini() -> None:
    async def use(client: genai.Client) -> None:
        check(await ask_gemini(client))

    with_gemini([COLD], use)


def test_twenty_sessions_at_once(tmp_path: Path) -> None:
    requests = asyncio.run(run_all(tmp_path))
    assert len(requests) == SESSIONS
    for number, request in enumerate(requests):
        texts = str(request.messages)
        assert texts.count(f"of session {number}.") == 6
        assert len(request.messages) == 7
