"""Find the recordings of a comparison: their files, their lengths and the names they use."""

import hashlib
import os
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.text.secrets import SecretMask, keys_of
from tidegate.lab.comparison.result_cache import CURRENT_VERSIONS, ResultCache, hash_values
from tidegate.lab.importers import ImportedFile as Read
from tidegate.lab.importers import read_recordings_by_file
from tidegate.lab.importers.recording import Recording
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.signals import list_argument_names
from tidegate.lab.worker_pool import StopCheck, run_in_processes
from tidegate.models.token_counters import create_counter
from tidegate.wire.parsing import encode_json_text, repair_json_unicode, require_object

SHIPPED_SUFFIX: Final = ".recording"
"""A file with one recording as it is, which a worker of a cluster was sent."""
COMMON_NAME_PROJECTS: Final = 4
"""A name that the calls of so many projects use says nothing of memory: README.md, package.json, console.log."""


class SessionSource(msgspec.Struct, frozen=True):
    """One recording: number `index_in_file` of the file `path`. `content_hash` is the hash of its messages."""

    path: str
    index_in_file: int
    content_hash: str
    name: str
    project: str
    agent: str
    tokens: float
    request_count: int
    has_times: bool
    repairs: tuple[str, ...]
    argument_names: tuple[str, ...]


class SkippedSession(msgspec.Struct, frozen=True):
    """A session or file that is left out, and why."""

    name: str
    reason: str
    remedy: str = ""


class SourceScan(msgspec.Struct):
    sources: list[SessionSource] = []
    skipped: list[SkippedSession] = []


class _ScanTask(msgspec.Struct, frozen=True):
    path: str
    cache: str
    count: str


def scan_sources(paths: Sequence[Path], cache: Path, count: str, jobs: int) -> Generator[SourceScan, None, None]:
    """Yield the sessions of each file as it is read."""
    tasks = [_ScanTask(str(path), str(cache), count) for path in sorted(paths, key=_file_size, reverse=True)]
    yield from run_in_processes(_run_scan_task, tasks, jobs)


def merge_scans(scans: Iterable[SourceScan]) -> SourceScan:
    """Merge scans in a fixed order. A session in two files counts once; sessions of the same name get a number."""
    sources: dict[str, SessionSource] = {}
    sessions: list[SkippedSession] = []
    counts: dict[str, int] = {}
    files = list(scans)
    for source in sorted(
        (one for each in files for one in each.sources), key=lambda one: (one.path, one.index_in_file)
    ):
        if source.content_hash in sources:
            sessions.append(SkippedSession(source.name, f"the same session as {sources[source.content_hash].name}"))
            continue
        counts[source.name] = counts.get(source.name, 0) + 1
        again = counts[source.name]
        name = f"{source.name}~{again}" if again > 1 else source.name
        sources[source.content_hash] = msgspec.structs.replace(source, name=name)
    sessions += sorted((one for each in files for one in each.skipped), key=lambda one: (one.name, one.reason))
    return SourceScan(list(sources.values()), sessions)


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _run_scan_task(task: _ScanTask, stopped: StopCheck) -> SourceScan:
    if stopped():
        raise KeyboardInterrupt
    try:
        return _scan_file(Path(task.path), ResultCache(Path(task.cache)), task.count)
    except BadInput as bad:
        return SourceScan(skipped=[SkippedSession(task.path, str(bad.args[0]), bad.remedy)])


def _scan_file(path: Path, cache: ResultCache, count: str) -> SourceScan:
    try:
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).", "Check the file and its permissions.") from None
    key = hash_values("sources", content, str(path), count, CURRENT_VERSIONS.importers, CURRENT_VERSIONS.scoring)
    scan = cache.get(key, SourceScan) if content else None
    if scan is None:
        read = read_clean_file(path)
        scan = SourceScan(
            [_describe_recording(path, place, each, count) for place, each in enumerate(read.recordings)],
            [SkippedSession(str(path), str(fault.args[0]), fault.remedy) for fault in read.session_errors],
        )
        cache.put(key, scan)
    return scan


def create_recording_mask(recording: Recording) -> SecretMask:
    """Create a mask that has seen the whole recording: some secrets show only by their context."""
    mask = SecretMask(keys_of(os.environ))
    mask(encode_json_text(recording.messages))
    return mask


def _without_secrets(names: Sequence[str], recording: Recording) -> tuple[str, ...]:
    mask, text = create_recording_mask(recording), "\n".join(names)
    return tuple(names) if mask(text) == text else tuple(name for name in names if mask(name) == name)


def _describe_recording(path: Path, place: int, recording: Recording, count: str) -> SessionSource:
    ruler = create_unit_counter(count)
    units = sum(ruler.count_message(message) for message in recording.messages)
    return SessionSource(
        path=str(path),
        index_in_file=place,
        content_hash=_hash_recording(recording),
        name=recording.name,
        project=get_project(recording),
        agent=recording.origin.agent,
        tokens=units / ruler.units_per_token,
        request_count=sum(message["role"] == "assistant" for message in recording.messages),
        has_times=any(recording.times),
        repairs=tuple(recording.repairs),
        argument_names=_without_secrets(list_argument_names(recording.messages), recording),
    )


def _hash_recording(recording: Recording) -> str:
    return hashlib.sha256(msgspec.json.encode([recording.messages, recording.times, recording.typed])).hexdigest()


def get_project(recording: Recording) -> str:
    """Return the project of a recording, or its name. Sessions of one project are alike."""
    return recording.origin.project or recording.name


def read_clean_recordings(path: Path) -> list[Recording]:
    return read_clean_file(path).recordings


def read_clean_file(path: Path) -> Read:
    """Read a file and repair half surrogate pairs, which no provider accepts."""
    clean_file = next(read_recordings_by_file([path]))
    if clean_file.error is not None:
        raise clean_file.error
    for recording in clean_file.recordings:
        try:
            msgspec.json.encode(recording.messages)
        except UnicodeEncodeError:
            recording.messages = [
                require_object(repair_json_unicode(message), "A message") for message in recording.messages
            ]
    return clean_file


@lru_cache(maxsize=8)
def load_recording(path: str, place: int) -> Recording:
    """Load a recording. Cells of one recording follow each other, so its file is read once."""
    if path.endswith(SHIPPED_SUFFIX):
        return msgspec.msgpack.decode(Path(path).read_bytes(), type=Recording)
    return read_clean_recordings(Path(path))[place]


@lru_cache(maxsize=4)
def create_unit_counter(count: str) -> UnitCounter:
    return UnitCounter(create_counter("", count))


def find_common_names(sources: Iterable[SessionSource], projects: int = COMMON_NAME_PROJECTS) -> frozenset[str]:
    """Return the names in the calls of at least this many projects."""
    using: dict[str, set[str]] = {}
    for source in sources:
        for name in source.argument_names:
            using.setdefault(name, set()).add(source.project)
    return frozenset(name for name, some in using.items() if len(some) >= projects)
