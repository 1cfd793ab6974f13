"""A program with its own loop, once for each SDK. It is checked by mypy and pyright, and run by test_programs.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate import Request, Session

if TYPE_CHECKING:
    import anthropic
    import openai
    from google import genai


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


async def ask_gemini(client: genai.Client) -> Session:
    from google.genai import types

    session = open_session("gemini-2.5-pro")
    body = session.prepare().body
    options = {name: value for name, value in body.items() if name not in ("contents", "generationConfig")}
    config = types.GenerateContentConfig.model_validate(options | body["generationConfig"])
    reply = await client.aio.models.generate_content(model=session.model, contents=body["contents"], config=config)
    content = reply.candidates[0].content if reply.candidates else None
    assert content is not None, reply.prompt_feedback
    session.add(content)
    session.record(reply.usage_metadata)
    return session
