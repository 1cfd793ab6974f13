"""A program with its own loop, once for each SDK. It is checked by mypy and pyright, and run by test_programs.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate import Request, Session

if TYPE_CHECKING:
    import anthropic
    import openai


def open_session(model: str, wire: str = "") -> Session:
    session = Session(model, wire=wire, window=16_000, system="You are a careful engineer.", max_tokens=500)
    session.add({"role": "user", "content": "Why is the build slow?"})
    return session


async def ask_openai_chat(client: openai.AsyncOpenAI) -> Session:
    session = open_session("gpt-4o")
    request: Request = session.prepare()
    reply = await client.chat.completions.create(**request.body)
    session.add(reply.choices[0].message)
    session.record(reply.usage)
    return session


async def ask_openai_responses(client: openai.AsyncOpenAI) -> Session:
    session = open_session("gpt-4o", "openai_responses")
    reply = await client.responses.create(**session.prepare().body)
    session.add(*reply.output)
    session.record(reply.usage)
    return session


async def ask_anthropic(client: anthropic.AsyncAnthropic) -> Session:
    session = open_session("claude-opus-4-8")
    reply = await client.messages.create(**session.prepare().body)
    session.add(reply)
    session.record(reply.usage)
    return session
