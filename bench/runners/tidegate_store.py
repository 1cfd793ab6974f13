"""Append to logs in tidegate's SQLite store, for bench/store.py."""

from __future__ import annotations

import asyncio
import threading

from bench_conversation import make_message
from command_runner import Job, serve_commands

from tidegate import KeptLog
from tidegate.core.events import Event, MessageAdded
from tidegate.core.messages import Message, Text
from tidegate.store.sqlite import SqliteStore


def said(first: int, count: int, size: int) -> list[Message]:
    return [Message("user", (Text(make_message(index)["content"][:size]),)) for index in range(first, first + count)]


def speak(log: KeptLog, texts: list[Message]) -> None:
    for text in texts:
        log.append(Event(log.head + 1, 0.0, MessageAdded(text, 400)))


class Ours:
    def open(self, folder: str) -> Job:
        def job() -> None:
            self.store = SqliteStore(folder)
            self.log = KeptLog(self.store, "bench")
            self.rooms: list[KeptLog] = []

        return job

    def append(self, first: int, count: int, size: int) -> Job:
        texts = said(first, count, size)
        return lambda: speak(self.log, texts)

    def crowd(self, sessions: int, first: int, count: int, size: int, in_turn: bool = False) -> Job:
        """Sessions in one store, a task for each. `in_turn`: one append at a time, so that no two share a commit."""
        texts = said(first, count, size)
        heads = self._heads(sessions)
        limit = asyncio.Semaphore(1 if in_turn else sessions)

        async def talk(log: KeptLog) -> None:
            for text in texts:
                async with limit:
                    await log.append_async(Event(log.head + 1, 0.0, MessageAdded(text, 400)))

        async def job() -> dict[str, int]:
            await asyncio.gather(*(talk(log) for log in self.rooms[:sessions]))
            return self._kept(heads, sessions * count)

        return job

    def threads(self, sessions: int, first: int, count: int, size: int) -> Job:
        """The same with a thread for each."""
        texts = said(first, count, size)
        heads = self._heads(sessions)

        def job() -> dict[str, int]:
            threads = [threading.Thread(target=speak, args=(log, texts)) for log in self.rooms[:sessions]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return self._kept(heads, sessions * count)

        return job

    def _heads(self, sessions: int) -> list[int]:
        while len(self.rooms) < sessions:
            self.rooms.append(KeptLog(self.store, f"room {len(self.rooms)}"))
        return [log.head for log in self.rooms[:sessions]]

    def _kept(self, heads: list[int], count: int) -> dict[str, int]:
        appends = sum(log.head - head for log, head in zip(self.rooms, heads, strict=False))
        return {} if appends == count else {"failed": f"only {appends} appends were made"}  # type: ignore[dict-item]


if __name__ == "__main__":
    serve_commands(Ours())
