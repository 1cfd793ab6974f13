"""Import recordings into a data folder as sessions of tidegate.

A session is built in memory and imported the way an export is: verified as a whole, stored whole or not at all. Its log
records where it comes from, what was repaired, and the recorded times.
"""

import gzip
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tidegate.core.notes import ImportOrigin, is_note
from tidegate.datafolder.archive.format import ARCHIVE_FORMAT, ARCHIVE_VERSION, ArchiveHeader, ArchiveWriter
from tidegate.datafolder.archive.transfer import import_session
from tidegate.datafolder.data_folder import DataFolder
from tidegate.lab.importers.json_fields import encode_recorded_json, string_or_empty
from tidegate.lab.importers.recording import JsonRecord, Recording
from tidegate.session.session import Session
from tidegate.session.storage import SessionStorage
from tidegate.store.log import MemoryLog

_MAX_NAME_CHARS = 200
_HEAD_EVENTS = 8
"""One of so many events at the head of a log says where it was imported from."""


class ImportedSession(NamedTuple):
    """`known` says that it was there already, under this name."""

    name: str
    message_count: int
    was_known: bool


class _RecordedClock:
    """A clock of recorded times. It never runs backwards, and stops where no time was recorded."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance_to(self, time: float) -> None:
        self.now = max(self.now, time)


def import_recording(data: DataFolder, recording: Recording, name: str = "", *, trust: bool = False) -> ImportedSession:
    """Store a recording as a session, under its own name or another. A name that is taken gets a number.

    `trust`: the user's messages are the user's own, so that typed text may set rules. Without it, no text of them does.
    """
    sha = hashlib.sha256(encode_recorded_json(recording.messages).encode()).hexdigest()
    place = _choose_name(lambda each: _check_name(data, each, sha), name or data.mask(recording.name)[:_MAX_NAME_CHARS])
    if not place.was_known:
        log = _build_log(recording, sha, data.clock, trust)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "session"
            _write_archive(file, place.name, log)
            import_session(data, file, place.name, trust=True)  # its texts are marked already
    return ImportedSession(place.name, len(recording.messages), place.was_known)


class _ChosenName(NamedTuple):
    name: str
    was_known: bool


def _choose_name(state: Callable[[str], str], name: str) -> _ChosenName:
    number = 1
    candidate = name
    while (name_state := state(candidate)) == "taken":
        number += 1
        candidate = f"{name}-{number}"
    return _ChosenName(candidate, name_state == "same")


def _check_name(data: DataFolder, name: str, sha: str) -> str:
    """Return whether a name is free, taken, or held by the same recording."""
    if not data.store.head(name):
        return "free"
    for event in data.open_log(name).read():
        what = event.payload
        if is_note(what, ImportOrigin) and f'"{sha}"' in what.text:
            return "same"
        if event.seq >= _HEAD_EVENTS:
            break
    return "taken"


def _build_log(recording: Recording, sha: str, clock: Callable[[], float], trust: bool) -> MemoryLog:
    messages, times = recording.messages, recording.times or [0.0] * len(recording.messages)
    marks: Sequence[bool | None] = (
        recording.typed if trust and recording.typed else [None if trust else False] * len(messages)
    )
    fixed = next((at for at, message in enumerate(messages) if message["role"] != "system"), len(messages))
    system = "\n\n".join(string_or_empty(message["content"]) for message in messages[:fixed])
    known_times = [time for time in times if time]
    now = _RecordedClock(min(known_times) if known_times else clock())
    log = MemoryLog()
    meta = recording.origin
    tools = _unique_tools(recording.tools)
    session = Session(meta.model, log=SessionStorage(log), system=system, tools=tools, clock=now)
    origin = ImportOrigin(
        meta.format, sha, meta.agent, meta.model, meta.session, meta.project, meta.path, tuple(recording.repairs)
    )
    session.history.append_note(origin)
    for message, time, mark in zip(messages[fixed:], times[fixed:], marks[fixed:], strict=True):
        now.advance_to(time)
        session.add(message, typed=mark)
    session.close()
    return log


def _unique_tools(tools: list[JsonRecord]) -> list[JsonRecord]:
    """Return each tool once: a log of requests may name a tool twice."""
    by_name: dict[str, JsonRecord] = {}
    for tool in tools:
        function = tool.get("function")
        name = string_or_empty(function.get("name")) if isinstance(function, dict) else ""
        if name:
            by_name[name] = tool
    return list(by_name.values())


def _write_archive(path: Path, name: str, log: MemoryLog) -> None:
    first = next(iter(log.read()))
    with path.open("wb") as file, gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=file) as stream:
        writer = ArchiveWriter(stream)
        writer.put(ArchiveHeader(ARCHIVE_FORMAT, ARCHIVE_VERSION, name, log.head, first.time))
        for event in log.read():
            writer.put(event)
        writer.end(log.head, 0, 0)
