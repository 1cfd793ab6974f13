"""Measure the size of messages on disk: as JSON, in a log with its blobs, and in the search index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from command_runner import Job, serve_commands

from tidegate import KeptLog
from tidegate.core.events import Event, MessageAdded
from tidegate.lab.replay import recording_file
from tidegate.memory.log_lines import LogLine, extract_log_lines
from tidegate.memory.search import Search
from tidegate.proof.session_generator import generate_session
from tidegate.store.blobs import Blobs
from tidegate.store.sqlite import SqliteStore
from tidegate.wire.registry import parse_any_message

AT_ONCE = 10
"""Messages between two updates of the index: it is searched while it grows."""


def sources(source: str) -> Iterator[tuple[str, Iterator[dict[str, object]]]]:
    """Sessions by name. Recordings are taken from the whole folder, in steps, so that few of them are a fair sample."""
    if not source:
        yield "generated", generate_session(1_000_000, seed=1)
        return
    paths = recording_file.find_chat_recordings([Path(source)])
    for path in [path for start in range(7) for path in paths[start::7]]:
        yield (
            recording_file.get_recording_name(path),
            (line.message for line in recording_file.read_chat_recording(path)),
        )


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


class Disk:
    def keep(self, folder: str, source: str, count: int) -> Job:
        def job() -> dict[str, int]:
            logs, index = Path(folder) / "logs", Path(folder) / "index"
            store, blobs = SqliteStore(logs), Blobs(logs / "blobs")
            raw = number = 0
            names: list[str] = []

            def lines(read_to: Callable[[str], int]) -> Iterator[LogLine]:
                for name in names[-1:]:
                    yield from extract_log_lines(name, KeptLog(store, name, blobs).read(read_to(name) + 1))

            search = Search(logs=lines, path=index / "search.db")
            for name, messages in sources(source):
                names.append(name)
                log = KeptLog(store, name, blobs)
                for message in islice(messages, count - number):
                    raw += len(json.dumps(message, ensure_ascii=False).encode()) + 1
                    for part in parse_any_message(message):
                        log.append(Event(log.head + 1, 0.0, MessageAdded(part, 1)))
                    number += 1
                    if number % AT_ONCE == 0:
                        search.refresh()
                search.refresh()
                if number >= count:
                    break
            search.close()
            store.close()
            sizes = {"log": size_of(logs), "index": size_of(index)}
            return {"raw": raw, "messages": number, "sessions": len(names), **sizes}

        return job


if __name__ == "__main__":
    serve_commands(Disk())
