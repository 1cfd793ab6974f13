"""The fake server, proved by the SDKs of the providers as its clients. They are imported late, for they load slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.fake.server import KEY, Fake, Step
from tests.fake.words import busy
from tidegate.core.messages import Call
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

if TYPE_CHECKING:
    import anthropic
    import openai
    from google import genai

pytestmark = pytest.mark.sdk

HELLO: Any = [{"role": "user", "content": "Hello"}]
CALLS = ScriptedAnswer(
    text="Reading both.", calls=(Call("call_1", "read", '{"path":"a"}'), Call("call_2", "read", "{}"))
)
CHAT_TOOLS: Any = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
RESPONSES_TOOLS: Any = [{"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}]
CLAUDE_TOOLS: Any = [{"name": "read", "input_schema": {"type": "object"}}]


def with_openai(
    wire: str, steps: list[Step], use: Callable[[openai.AsyncOpenAI], Awaitable[None]], **more: Any
) -> Fake:
    import openai

    async def run() -> Fake:
        async with Fake(wire, steps, **more) as server:
            async with openai.AsyncOpenAI(api_key=KEY, base_url=server.url, max_retries=0) as client:
                await use(client)
            return server

    return asyncio.run(run())


def with_anthropic(steps: list[Step], use: Callable[[anthropic.AsyncAnthropic], Awaitable[None]], **more: Any) -> Fake:
    import anthropic

    async def run() -> Fake:
        async with Fake("anthropic", steps, **more) as server:
            async with anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, max_retries=0) as client:
                await use(client)
            return server

    return asyncio.run(run())


def with_gemini(steps: list[Step], use: Callable[[genai.Client], Awaitable[None]], **more: Any) -> Fake:
    from google import genai

    async def run() -> Fake:
        async with Fake("gemini", steps, **more) as server:
            base, _, version = server.url.rpartition("/")
            with genai.Client(api_key=KEY, http_options={"base_url": base, "api_version": version}) as client:
                try:
                    await use(client)
                finally:
                    await client.aio.aclose()
            return server

    return asyncio.run(run())


def test_chat() -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        whole = await client.chat.completions.create(model="gpt-4o", messages=HELLO)
        assert whole.choices[0].message.content == "Good morning."
        assert whole.usage is not None
        assert whole.usage.prompt_tokens > 1
        called = await client.chat.completions.create(model="gpt-4o", messages=HELLO, tools=CHAT_TOOLS)
        assert called.choices[0].finish_reason == "tool_calls"
        assert [call.id for call in called.choices[0].message.tool_calls or []] == ["call_1", "call_2"]

    with_openai("openai_chat", ["Good morning.", CALLS], use)


def test_chat_as_a_stream() -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        async with client.chat.completions.stream(model="gpt-4o", messages=HELLO, tools=CHAT_TOOLS) as stream:
            done = await stream.get_final_completion()
        message = done.choices[0].message
        assert message.content == "Reading both."
        assert [call.function.arguments for call in message.tool_calls or []] == ['{"path":"a"}', "{}"]

    with_openai("openai_chat", [CALLS], use)


def test_responses() -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        whole = await client.responses.create(model="gpt-5.4", input=HELLO, store=False)
        assert whole.output_text == "Good morning."
        async with client.responses.stream(model="gpt-5.4", input=HELLO, tools=RESPONSES_TOOLS, store=False) as stream:
            done = await stream.get_final_response()
        assert done.output_text == "Reading both."
        assert [item.type for item in done.output] == ["message", "function_call", "function_call"]

    with_openai("openai_responses", ["Good morning.", CALLS], use)


def test_openai_refusals() -> None:
    import openai

    async def use(client: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.BadRequestError, match="maximum context length is 50 tokens") as long:
            await client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "tide " * 60}])
        assert long.value.code == "context_length_exceeded"
        alone: Any = [*HELLO, {"role": "tool", "tool_call_id": "x", "content": "y"}]
        with pytest.raises(openai.BadRequestError, match="role 'tool' must be a response to a preceeding message"):
            await client.chat.completions.create(model="gpt-4o", messages=alone)
        with pytest.raises(openai.RateLimitError) as slow:
            await client.chat.completions.create(model="gpt-4o", messages=HELLO, stream=True)
        assert slow.value.response.headers["retry-after"] == "7"
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="sk-other").chat.completions.create(model="gpt-4o", messages=HELLO)

    with_openai("openai_chat", [busy("openai_chat", 429, "7")], use, window=50)


def test_anthropic() -> None:
    async def use(client: anthropic.AsyncAnthropic) -> None:
        whole = await client.messages.create(model="claude-opus-4-8", max_tokens=100, messages=HELLO)
        assert [block.model_dump(include={"type", "text"}) for block in whole.content] == [
            {"type": "text", "text": "Good morning."}
        ]
        assert whole.usage.input_tokens > 1
        async with client.messages.stream(
            model="claude-opus-4-8", max_tokens=100, messages=HELLO, tools=CLAUDE_TOOLS
        ) as stream:
            done = await stream.get_final_message()
        assert done.stop_reason == "tool_use"
        assert [block.type for block in done.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert done.content[0].model_dump(include={"thinking", "signature"}) == {"thinking": "Hm.", "signature": "c2ln"}
        assert done.content[2].model_dump(include={"id", "input"}) == {"id": "call_1", "input": {"path": "a"}}

    thought = ScriptedAnswer(text=CALLS.text, calls=CALLS.calls, thinking="Hm.", signature="c2ln")
    with_anthropic(["Good morning.", thought], use)


def test_anthropic_refusals() -> None:
    import anthropic

    async def use(client: anthropic.AsyncAnthropic) -> None:
        asked: Any = {"model": "claude-opus-4-8", "max_tokens": 100}
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 50 maximum"):
            await client.messages.create(**asked, messages=[{"role": "user", "content": "tide " * 60}])
        with pytest.raises(anthropic.BadRequestError, match="text content blocks must be non-empty"):
            await client.messages.create(
                **asked, messages=[{"role": "user", "content": [{"type": "text", "text": ""}]}], stream=True
            )
        with pytest.raises(anthropic.APIStatusError, match="Overloaded") as slow:
            await client.messages.create(**asked, messages=HELLO)
        assert slow.value.status_code == 529

    server = with_anthropic([busy("anthropic", 529, "7")], use, window=50)
    assert len(server.refused) == 3
