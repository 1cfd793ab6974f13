"""The official SDKs through the gateway to a strict fake server: sync, async, streaming."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake.server import KEY, Fake
from tests.gateway.serving import Running, run_gateway, upstream_of
from tidegate.core.messages import Call, text_of
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

pytestmark = pytest.mark.sdk

ANSWER = ScriptedAnswer(text="Good morning.", calls=(Call("c1", "read", '{"path":"a.txt"}'),))
TOOL = {
    "name": "read",
    "description": "Reads",
    "schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}
Json = dict[str, Any]


def log_texts(running: Running) -> list[str]:
    """The texts of every session, oldest first."""
    found = []
    for info in running.data.store.sessions():
        view = running.data.open_conversation(info.name).view
        found += [f"{item.message.role}: {text_of(item.message)}" for item in view.items]
    return found


def ask_anthropic(url: str, stream: bool) -> str:
    import anthropic

    client = anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0)
    asked: Json = {
        "model": "claude-opus-4-6",
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"name": "read", "input_schema": TOOL["schema"]}],
    }
    if stream:
        with client.messages.stream(**asked) as events:
            return "".join(events.text_stream)
    return str(client.messages.create(**asked).model_dump()["content"][0]["text"])


async def ask_anthropic_async(url: str, stream: bool) -> str:
    import anthropic

    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as client:
        asked: Json = {
            "model": "claude-opus-4-6",
            "max_tokens": 500,
            "messages": [{"role": "user", "content": "hello"}],
            "tools": [{"name": "read", "input_schema": TOOL["schema"]}],
        }
        if stream:
            async with client.messages.stream(**asked) as events:
                return "".join([text async for text in events.text_stream])
        return str((await client.messages.create(**asked)).model_dump()["content"][0]["text"])


CHAT: Json = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"type": "function", "function": {"name": "read", "parameters": TOOL["schema"]}}],
}


def ask_chat(url: str, stream: bool) -> str:
    import openai

    client = openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0)
    if stream:
        pieces = client.chat.completions.create(**CHAT, stream=True)
        return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    return str(client.chat.completions.create(**CHAT).choices[0].message.content)


async def ask_chat_async(url: str, stream: bool) -> str:
    import openai

    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/openai/v1", max_retries=0) as client:
        if stream:
            pieces = await client.chat.completions.create(**CHAT, stream=True)
            return "".join([piece.choices[0].delta.content or "" async for piece in pieces if piece.choices])
        return str((await client.chat.completions.create(**CHAT)).choices[0].message.content)


RESPONSES: Json = {
    "model": "gpt-4o",
    "input": [{"role": "user", "content": "hello"}],
    "tools": [{"type": "function", "name": "read", "parameters": TOOL["schema"]}],
}


def ask_responses(url: str, stream: bool) -> str:
    import openai

    client = openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0)
    if stream:
        events = client.responses.create(**RESPONSES, stream=True)
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")
    return str(client.responses.create(**RESPONSES).output_text)


async def ask_responses_async(url: str, stream: bool) -> str:
    import openai

    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as client:
        if stream:
            events = await client.responses.create(**RESPONSES, stream=True)
            return "".join([event.delta async for event in events if event.type == "response.output_text.delta"])
        return str((await client.responses.create(**RESPONSES)).output_text)


def gemini_client(url: str) -> Any:
    from google import genai

    return genai.Client(api_key=KEY, http_options={"base_url": url, "api_version": "v1beta"})


def gemini_request() -> Json:
    tools = [
        {
            "function_declarations": [
                {"name": "read", "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}}}
            ]
        }
    ]
    return {"model": "gemini-2.5-pro", "contents": "hello", "config": {"tools": tools}}


def ask_gemini(url: str, stream: bool) -> str:
    client = gemini_client(url)
    models = client.models
    if stream:
        pieces = models.generate_content_stream(**gemini_request())
        return "".join(part.text or "" for piece in pieces for part in piece.candidates[0].content.parts or [])
    return "".join(part.text or "" for part in models.generate_content(**gemini_request()).candidates[0].content.parts)


async def ask_gemini_async(url: str, stream: bool) -> str:
    client = gemini_client(url)
    models = client.aio.models
    if stream:
        texts = []
        async for piece in await models.generate_content_stream(**gemini_request()):
            texts += [part.text or "" for part in piece.candidates[0].content.parts or []]
        return "".join(texts)
    answer = await models.generate_content(**gemini_request())
    return "".join(part.text or "" for part in answer.candidates[0].content.parts)


SYNC = {
    "anthropic": ask_anthropic,
    "openai_chat": ask_chat,
    "openai_responses": ask_responses,
    "gemini": ask_gemini,
}
ASYNC = {
    "anthropic": ask_anthropic_async,
    "openai_chat": ask_chat_async,
    "openai_responses": ask_responses_async,
    "gemini": ask_gemini_async,
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", SYNC)
def test_sdk(wire: str, stream: bool, tmp_path: Path) -> None:
    async def run() -> None:
        async with Fake(wire, [ANSWER, ANSWER]) as fake, run_gateway(tmp_path, upstream_of(fake)) as running:
            assert await asyncio.to_thread(SYNC[wire], running.url, stream) == "Good morning."
            assert await ASYNC[wire](running.url, stream) == "Good morning."
            assert not fake.refused
            direct = json.loads(fake.seen[0].raw)
            assert direct == json.loads(fake.seen[1].raw)
            texts = log_texts(running)
            assert texts.count("user: hello") == texts.count("assistant: Good morning.") == 2
            assert not any(KEY in line for line in running.lines)

    asyncio.run(run())
