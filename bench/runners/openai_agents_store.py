"""OpenAI Agents: `SQLiteSession` in a file, as it comes. Its connections are WAL with SQLite's own synchronous=FULL."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

from agents import SQLiteSession
from bench_conversation import make_message, make_messages
from command_runner import Job, serve_commands
from openai_trimmer import to_items


class Agents:
    def open(self, folder: str) -> Job:
        self.folder = Path(folder)
        self.rooms: list[SQLiteSession] = []

        async def job() -> None:
            self.session = SQLiteSession("bench", self.folder / "agents.db")
            await self.session.get_items()

        return job

    def append(self, first: int, count: int, size: int) -> Job:
        items: list[Any] = [
            {"role": "user", "content": make_message(index)["content"][:size]} for index in range(first, first + count)
        ]

        async def job() -> None:
            for item in items:
                await self.session.add_items([item])

        return job

    def crowd(self, sessions: int, first: int, count: int, size: int) -> Job:
        """Sessions in one file, a task for each."""
        items: list[Any] = [
            {"role": "user", "content": make_message(index)["content"][:size]} for index in range(first, first + count)
        ]
        while len(self.rooms) < sessions:
            self.rooms.append(SQLiteSession(f"room {len(self.rooms)}", self.folder / "crowd.db"))

        async def talk(session: SQLiteSession) -> None:
            for item in items:
                await session.add_items([item])

        async def job() -> None:
            await asyncio.gather(*(talk(session) for session in self.rooms[:sessions]))

        return job

    def fill(self, folder: str, size: int) -> Job:
        """A session of so many messages, for `reopen`."""

        async def job() -> dict[str, int]:
            path = Path(folder) / f"{size}.db"
            session = SQLiteSession("bench", path)
            every = itertools.chain.from_iterable(to_items(message) for message in make_messages(0, size))
            while some := list(itertools.islice(every, 1000)):
                await session.add_items(some)  # type: ignore[arg-type]
            session.close()
            return {"bytes": path.stat().st_size}

        return job

    def reopen(self, folder: str, size: int) -> Job:
        async def job() -> dict[str, int]:
            session = SQLiteSession("bench", Path(folder) / f"{size}.db")
            return {"messages": len(await session.get_items())}

        return job


if __name__ == "__main__":
    serve_commands(Agents())
