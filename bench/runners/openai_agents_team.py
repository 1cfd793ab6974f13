"""OpenAI Agents: many `SQLiteSession`s in one file, a task for each. WAL mode, and synchronous=FULL by default."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agents import SQLiteSession
from team_figures import Figures, allow_descriptors, run_team


async def main(folder: str, sessions: int, seconds: float) -> Figures:
    rooms = [SQLiteSession(f"s{number}", Path(folder) / "agents.db") for number in range(sessions)]

    async def add(number: int, text: str, turn: int) -> None:
        await rooms[number].add_items([{"role": ("user", "assistant")[turn % 2], "content": text}])  # type: ignore[list-item, misc]

    async def read(number: int) -> None:
        await rooms[number].get_items()

    return await run_team(sessions, seconds, add, read)


if __name__ == "__main__":
    allow_descriptors()
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))).print_json()
