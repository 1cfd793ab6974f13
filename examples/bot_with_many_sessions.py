"""A bot with a session for each user. With a PostgreSQL URL as its argument, any number of hosts share the sessions.

Set OPENAI_API_KEY, and OPENAI_BASE_URL if needed: python bot_with_many_sessions.py [postgresql://user@host/database]
"""

import asyncio
import sys
from tempfile import TemporaryDirectory

from openai import AsyncOpenAI

from tidegate import DataFolder

USERS = [f"user-{number}" for number in range(10)]


async def answer(data: DataFolder, client: AsyncOpenAI, user: str, question: str) -> str:
    """Answer one request of one user. The session is opened where it ended last time, and closed again."""
    async with await data.open_async(user, "gpt-4o", window=16_000, system="You answer briefly.") as session:
        await session.add_async({"role": "user", "content": question})
        request = await session.prepare_async()
        reply = await client.chat.completions.create(**request.body)
        await session.add_async(reply.choices[0].message)
        await session.record_async(reply.usage)
        return reply.choices[0].message.content or ""


async def main(store: str) -> None:
    client = AsyncOpenAI()
    with TemporaryDirectory() as folder, DataFolder(folder, store=store) as data:  # name a folder of yours to keep it
        for question in ("Why is the build slow?", "And how do I fix it?"):
            answers = await asyncio.gather(*(answer(data, client, user, question) for user in USERS))
            print(f"{len(answers)} answers, the first: {answers[0]}")
        print(f"{len(data.store.sessions())} sessions are kept")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
