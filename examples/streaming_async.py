"""Streaming in async code, with a stored session: the second question continues where the first one ended.

Set OPENAI_API_KEY, and OPENAI_BASE_URL if needed: python streaming_async.py [QUESTION ...]
"""

import asyncio
import sys
from tempfile import TemporaryDirectory

from openai import AsyncOpenAI
from openai.types import CompletionUsage

from tidegate import DataFolder


async def answer(data: DataFolder, client: AsyncOpenAI, question: str) -> None:
    async with await data.open_async("talk", "gpt-4o", window=16_000) as session:
        await session.add_async({"role": "user", "content": question})
        request = await session.prepare_async()
        text, usage = "", CompletionUsage(prompt_tokens=0, completion_tokens=0, total_tokens=0)
        async for chunk in await client.chat.completions.create(
            **request.body, stream=True, stream_options={"include_usage": True}
        ):
            for choice in chunk.choices:
                print(choice.delta.content or "", end="", flush=True)
                text += choice.delta.content or ""
            usage = chunk.usage or usage
        print()
        await session.add_async({"role": "assistant", "content": text})
        await session.record_async(usage)


async def main(questions: list[str]) -> None:
    client = AsyncOpenAI()
    with TemporaryDirectory() as folder, DataFolder(folder) as data:  # name a folder of yours to keep the session
        for question in questions:
            await answer(data, client, question)


asyncio.run(main(sys.argv[1:] or ["Why is the build slow?", "And how do I fix it?"]))
