"""Streaming in async code, with a session that is stored in the folder `data`. Run it again to continue the talk.

Set OPENAI_API_KEY, and OPENAI_BASE_URL if needed: python streaming_async.py [QUESTION]
"""

import asyncio
import sys

from openai import AsyncOpenAI

from tidegate import DataFolder


async def main(question: str) -> None:
    client = AsyncOpenAI()
    with DataFolder("data") as data:
        async with await data.open_async("talk", "gpt-4o", window=16_000) as session:
            await session.add_async({"role": "user", "content": question})
            request = await session.prepare_async()
            options = {"stream": True, "stream_options": {"include_usage": True}}
            text = ""
            async for chunk in await client.chat.completions.create(**request.body, **options):
                for choice in chunk.choices:
                    print(choice.delta.content or "", end="", flush=True)
                    text += choice.delta.content or ""
                if chunk.usage:
                    usage = chunk.usage
            print()
            await session.add_async({"role": "assistant", "content": text})
            await session.record_async(usage)


asyncio.run(main(" ".join(sys.argv[1:]) or "Why is the build slow?"))
