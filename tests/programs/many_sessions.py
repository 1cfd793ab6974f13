"""A program with twenty sessions at once. It is checked by mypy and pyright, and run by test_programs.py."""

import asyncio
from pathlib import Path

from tidegate import DataFolder, Request

SESSIONS = 20


async def work(data: DataFolder, number: int) -> Request:
    async with await data.open_async(f"session-{number}", "gpt-4o", window=8_000) as session:
        for turn in range(3):
            await session.add_async({"role": "user", "content": f"Question {turn} of session {number}."})
            request = await session.prepare_async()
            await session.add_async({"role": "assistant", "content": f"Answer {turn} of session {number}."})
            await session.record_async({"prompt_tokens": request.tokens, "completion_tokens": 8})
        await session.add_async({"role": "user", "content": "Thank you."})
        return await session.prepare_async()


async def run_all(folder: Path) -> list[Request]:
    with DataFolder(folder) as data:
        return await asyncio.gather(*(work(data, number) for number in range(SESSIONS)))
