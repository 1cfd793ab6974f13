"""The recordings a comparison is made over: where each stands, how long it is, which names it uses."""

import hashlib
import os
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.secrets import Mask, keys_of
from tidegate.lab.cache import READERS, Cache, code_of, digest_of
from tidegate.lab.importers import Found as Read
from tidegate.lab.importers import read_each
from tidegate.lab.importers.recording import Recording
from tidegate.lab.signals import names_in
from tidegate.lab.sizes import Ruler
from tidegate.lab.workers import Stopped, spread
from tidegate.models.tokenizers import counter_for
from tidegate.wire.reading import a_dict, cleaned, json_text

PROJECTS: Final = 4
"""A name that the calls of so many projects use says nothing of memory: README.md, package.json, console.log."""


class Source(msgspec.Struct, frozen=True):
    """One recording: the `place`-th of the file `path`. `key` is the hash of what it holds."""

    path: str
    place: int
    key: str
    name: str
    project: str
    agent: str
    tokens: float
    calls: int
    timed: bool
    mended: tuple[str, ...]
    names: tuple[str, ...]


class Skipped(msgspec.Struct, frozen=True):
    """What was left out, and why."""

    name: str
    why: str
    remedy: str = ""


class Found(msgspec.Struct):
    sources: list[Source] = []
    skipped: list[Skipped] = []


class _Look(msgspec.Struct, frozen=True):
    path: str
    cache: str
    count: str


def look(paths: Sequence[Path], cache: Path, count: str, jobs: int) -> Generator[Found, None, None]:
    """What is in each file, as it comes."""
    tasks = [_Look(str(path), str(cache), count) for path in sorted(paths, key=_bytes, reverse=True)]
    yield from spread(_look, tasks, jobs)


def gathered(found: Iterable[Found]) -> Found:
    """All of them in order. A session that stands in two files counts once, and two of one name are told apart."""
    sources: dict[str, Source] = {}
    skipped: list[Skipped] = []
    named: dict[str, int] = {}
    files = list(found)
    for source in sorted((one for each in files for one in each.sources), key=lambda one: (one.path, one.place)):
        if source.key in sources:
            skipped.append(Skipped(source.name, f"the same session as {sources[source.key].name}"))
            continue
        named[source.name] = named.get(source.name, 0) + 1
        again = named[source.name]
        name = f"{source.name}~{again}" if again > 1 else source.name
        sources[source.key] = msgspec.structs.replace(source, name=name)
    skipped += sorted((one for each in files for one in each.skipped), key=lambda one: (one.name, one.why))
    return Found(list(sources.values()), skipped)


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _look(task: _Look, stopped: Stopped) -> Found:
    if stopped():
        raise KeyboardInterrupt
    try:
        return _found(Path(task.path), Cache(Path(task.cache)), task.count)
    except BadInput as bad:
        return Found(skipped=[Skipped(task.path, str(bad.args[0]), bad.remedy)])


def _found(path: Path, cache: Cache, count: str) -> Found:
    try:
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).", "Check the file and its permissions.") from None
    key = digest_of("sources", content, str(path), count, code_of(READERS), code_of("tidegate.lab.signals"))
    known = cache.get(key, Found) if content else None
    if known is None:
        read = read_recordings(path)
        known = Found(
            [_source(path, place, each, count) for place, each in enumerate(read.recordings)],
            [Skipped(str(path), str(fault.args[0]), fault.remedy) for fault in read.left_out],
        )
        cache.put(key, known)
    return known


def mask_of(recording: Recording) -> Mask:
    """A mask that has seen the whole recording: a name taken from it may be a secret that shows by its context only."""
    mask = Mask(keys_of(os.environ))
    mask(json_text(recording.messages))
    return mask


def _without_secrets(names: Sequence[str], recording: Recording) -> tuple[str, ...]:
    mask, text = mask_of(recording), "\n".join(names)
    return tuple(names) if mask(text) == text else tuple(name for name in names if mask(name) == name)


def _source(path: Path, place: int, recording: Recording, count: str) -> Source:
    ruler = ruler_of(count)
    units = sum(ruler.units(message) for message in recording.messages)
    return Source(
        path=str(path),
        place=place,
        key=_hash(recording),
        name=recording.name,
        project=project_of(recording),
        agent=recording.meta.agent,
        tokens=units / ruler.per,
        calls=sum(message["role"] == "assistant" for message in recording.messages),
        timed=any(recording.times),
        mended=tuple(recording.mended),
        names=_without_secrets(names_in(recording.messages), recording),
    )


def _hash(recording: Recording) -> str:
    return hashlib.sha256(msgspec.json.encode([recording.messages, recording.times, recording.typed])).hexdigest()


def project_of(recording: Recording) -> str:
    """Sessions of one project resemble each other: intervals are taken over projects."""
    return recording.meta.project or recording.name


def recordings(path: Path) -> list[Recording]:
    return read_recordings(path).recordings


def read_recordings(path: Path) -> Read:
    """Half a surrogate pair, which no provider could be sent, is mended here."""
    found = next(read_each([path]))
    if found.fault is not None:
        raise found.fault
    for recording in found.recordings:
        try:
            msgspec.json.encode(recording.messages)
        except UnicodeEncodeError:
            recording.messages = [a_dict(cleaned(message), "A message") for message in recording.messages]
    return found


@lru_cache(maxsize=8)
def recording_at(path: str, place: int) -> Recording:
    """Cells of one recording come one after the other: the file is read once."""
    return recordings(Path(path))[place]


@lru_cache(maxsize=4)
def ruler_of(count: str) -> Ruler:
    return Ruler(counter_for("", count))


def common_names(sources: Iterable[Source], projects: int = PROJECTS) -> frozenset[str]:
    """Names in the calls of at least so many projects."""
    using: dict[str, set[str]] = {}
    for source in sources:
        for name in source.names:
            using.setdefault(name, set()).add(source.project)
    return frozenset(name for name, some in using.items() if len(some) >= projects)
