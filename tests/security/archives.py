"""Exported sessions as somebody else might hand them over: well formed, with a right sum, and with anything in them."""

import gzip
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidegate.core.events import Event
from tidegate.core.messages import Message
from tidegate.datafolder.archive.format import ARCHIVE_FORMAT, ARCHIVE_VERSION, ArchiveHeader, ArchiveWriter
from tidegate.session.session import Session
from tidegate.session.storage import SessionStorage
from tidegate.store.log import MemoryLog

Line = Any


def recorded(*messages: Message | dict[str, object], model: str = "", system: str = "") -> list[Event]:
    """The events of a session in which this was said."""
    log = MemoryLog()
    session = Session(model, log=SessionStorage(log), system=system, clock=lambda: 1_700_000_000.0)
    session.add(*messages)
    return list(log.read())


def write_archive(path: Path, name: str, events: Iterable[Event]) -> Path:
    told = list(events)
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb") as packed:
        writer = ArchiveWriter(packed)
        writer.put(ArchiveHeader(ARCHIVE_FORMAT, ARCHIVE_VERSION, name, len(told), told[0].time))
        for event in told:
            writer.put(event)
        writer.end(len(told), 0, 0)
    return path


def read_lines(path: Path) -> list[Line]:
    """The values of an archive but the last, which is its sum."""
    with gzip.open(path) as file:
        return [json.loads(line) for line in file.read().splitlines()[:-1]]


def write_lines(path: Path, lines: Iterable[Line]) -> Path:
    """An archive of these values with a right sum: whoever changes an archive can sum it up again."""
    raw = [json.dumps(line).encode() + b"\n" for line in lines]
    events = sum(line.startswith(b"[") for line in raw)
    end = {"events": events, "files": len(raw) - 1 - events, "masked": 0}
    end["sha256"] = hashlib.sha256(b"".join(raw)).hexdigest()  # type: ignore[assignment]
    path.write_bytes(gzip.compress(b"".join(raw) + json.dumps(end).encode() + b"\n"))
    return path
