"""Reading recorded sessions of any known format: what a file holds decides, not what it is called."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tidegate.core.errors import BadInput
from tidegate.lab.importers import (
    claude_code,
    codex,
    copilot,
    gemini_cli,
    langchain,
    livemcp,
    mini_swe_agent,
    normal,
    opencode,
    opencode_store,
    openhands,
    own,
    pi,
    requests,
    spans,
    swe_agent,
    tau,
)
from tidegate.lab.importers.recording import Recording
from tidegate.lab.importers.source import LIMITS, Limits, Source

SUFFIXES = tuple(f"{name}{packed}" for name in (".jsonl", ".json", ".traj", ".tidegate") for packed in ("", ".gz"))
DEEPEST = 5


class Format(Protocol):
    FORMAT: str

    def recognises(self, head: Source) -> bool: ...
    def read(self, source: Source) -> Iterator[Recording]: ...


FORMATS: tuple[Format, ...] = (
    own,
    claude_code,
    codex,
    copilot,
    gemini_cli,
    pi,
    opencode,
    opencode_store,
    swe_agent,
    mini_swe_agent,
    openhands,
    livemcp,
    tau,
    spans,
    langchain,
    requests,
    normal,
)
"""Asked in this order: those with marks of their own first, those that are plain messages last."""

_KNOWN = (
    "Known are sessions of Claude Code, Codex, OpenCode, Copilot CLI, Gemini CLI, Pi, OpenHands, SWE-agent,"
    " mini-swe-agent, tau-bench, LiveMCPBench, LangChain and tidegate, OpenTelemetry spans, request logs, and chat"
    " messages one a line."
)


class Found(NamedTuple):
    """What came of one file: its sessions, or the fault that kept it from being read.

    `left_out` tells of single sessions of a data folder that cannot be read; the others are here.
    """

    path: Path
    recordings: list[Recording]
    fault: BadInput | None = None
    left_out: Sequence[BadInput] = ()


def read_any(path: Path, limits: Limits = LIMITS) -> list[Recording]:
    """The sessions in a file, or in the files of a folder. BadInput if there is none.

    Of a folder, a file that cannot be read is passed over; `read_each` tells of it.
    """
    if not path.is_dir():
        return _read(path, limits).recordings
    found = list(read_each([path], limits))
    recordings = [recording for each in found for recording in each.recordings]
    if not recordings:
        raise next((each.fault for each in found if each.fault), _nothing(path))
    return recordings


def read_each(paths: Sequence[Path], limits: Limits = LIMITS) -> Iterator[Found]:
    """File by file what these paths hold, with the fault of each that cannot be read."""
    for path in files_of(paths):
        try:
            yield _read(path, limits)
        except BadInput as fault:
            yield Found(path, [], fault)


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files meant: those given, and of a folder those in it; if there are none, those in its folders.

    A folder beside files is not searched: it often holds the same sessions in another form.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = [path] if (path / own.DATABASE).is_file() else _inside(path, DEEPEST)
            if not inside:
                raise _nothing(path)
            found.update(dict.fromkeys(inside))
        else:
            found[path] = None
    return list(found)


def _inside(folder: Path, deeper: int) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        cause = f"{folder}: cannot be read ({error.strerror})."
        raise BadInput(cause, "Check the folder and its permissions.") from None
    files = [entry for entry in entries if entry.name.endswith(SUFFIXES) and entry.is_file()]
    if files or not deeper:
        return files
    return [file for entry in entries if entry.is_dir() for file in _inside(entry, deeper - 1)]


def _nothing(path: Path) -> BadInput:
    return BadInput(f"{path}: no recorded session in this folder.", f"Name one that holds {', '.join(SUFFIXES[::2])}.")


def _read(path: Path, limits: Limits) -> Found:
    if path.is_dir():
        return _read_folder(path, path)
    source = Source(path, limits)
    if source.database and path.name == own.DATABASE:
        found = _read_folder(path, path.parent)
    elif source.database:
        found = Found(path, list(opencode_store.read_database(path, limits)))
    else:
        found = Found(path, list(_format(source).read(source)))
    if not found.recordings:
        raise source.bad(0, "holds no message", source.damage or _KNOWN)
    return found._replace(recordings=_named(found.recordings))


def _read_folder(path: Path, folder: Path) -> Found:
    """A data folder. One session that cannot be read does not keep the others from being read."""
    recordings: list[Recording] = []
    faults: list[BadInput] = []
    for each in own.read_folder(folder):
        recordings.append(each) if isinstance(each, Recording) else faults.append(each)
    if faults and not recordings:
        raise faults[0]
    return Found(path, _named(recordings), left_out=faults)


def _format(source: Source) -> Format:
    for known in FORMATS:
        if known.recognises(source):
            return known
    raise source.bad(0, "not a known format", _KNOWN)


def _named(recordings: list[Recording]) -> list[Recording]:
    """Names of the sessions of one file, told apart."""
    used: set[str] = set()
    for recording in recordings:
        name, number = recording.name, 1
        while recording.name in used:
            number += 1
            recording.name = f"{name}-{number}"
        used.add(recording.name)
    return recordings
