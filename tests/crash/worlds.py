"""What a child of the crash suite works on: a data folder, its store, a session. And what it says in it."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tidegate.core.outcome import SummaryRequest
from tidegate.core.policy.policy import Policy
from tidegate.datafolder.data_folder import DataFolder
from tidegate.session.session import Session
from tidegate.store.blobs import Blobs
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.connection import FILE, Migration, Step
from tidegate.store.sqlite.tables import MIGRATIONS
from tidegate.store.store import Store

NAME = "s"
NOW = 1_800_000_000.0
SYSTEM = "You are a careful assistant."
Json = dict[str, object]
State = dict[str, list[bytes]]


def hash_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:16]


def state_of(store: Store) -> State:
    """Every record there is, by its hash."""
    return {info.name: [hash_of(record) for record in store.read(info.name)] for info in store.sessions()}


class Settings(NamedTuple):
    """How the worlds of a scene are opened."""

    policy: str | Policy = "default"
    window: int = 8_000
    migrations: Sequence[Migration] = MIGRATIONS
    now: float = NOW


class World:
    """One process's hold on the data. `step` is told of the numbered steps, if it is given."""

    def __init__(self, folder: Path, settings: Settings, step: Step | None = None, *, name: str = NAME) -> None:
        self.folder = folder
        self.name = name
        self.settings = settings
        self.step = step
        self.requests: list[bytes] = []
        self._store: SqliteStore | None = None
        self._data: DataFolder | None = None
        self._session: Session | None = None

    @property
    def store(self) -> SqliteStore:
        if self._store is None:
            step = self.step or (lambda _: None)
            self._store = SqliteStore(
                self.folder, migrations=self.settings.migrations, step=step, clock=lambda: self.settings.now
            )
        return self._store

    @property
    def data(self) -> DataFolder:
        if self._data is None:
            clock: Callable[[], float] = lambda: self.settings.now  # noqa: E731
            if self.step is None:
                self._data = DataFolder(self.folder, secrets=[], clock=clock)
            else:  # the same parts, with a store that tells of its steps
                self._data = DataFolder(self.folder, store=self.store, secrets=[], clock=clock)
                self._data.blobs = Blobs(self.folder / "blobs")
        return self._data

    @property
    def session(self) -> Session:
        if self._session is None:
            self._session = self.data.open(
                self.name,
                "gpt-4o",
                policy=self.settings.policy,
                window=self.settings.window,
                wire="openai_chat",
                count="estimate",
                system=SYSTEM,
            )
        return self._session

    def state(self) -> State:
        if not (self.folder / FILE).exists():
            return {}
        return state_of(self._known)

    def head(self) -> int:
        return self._known.head(NAME)

    @property
    def _known(self) -> Store:
        """Whatever is open already."""
        return self._data.store if self._data else self.store

    def shut(self) -> None:
        """Close the session, and keep the rest."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def prepare(self) -> None:
        self.requests.append(hash_of(self.session.prepare(summarize).to_bytes()))

    def close(self) -> None:
        """Let go of everything. Whoever asks for something opens it again."""
        self.shut()
        if self._data is not None:
            self._data.close()
        if self._store is not None:
            self._store.close()
        self._data = self._store = None


def summarize(request: SummaryRequest) -> str:
    """The same words for the same messages, whoever asks."""
    return f"Summary of {len(request.messages)} messages, {request.messages[0].id} to {request.messages[-1].id}."


def turn(number: int, *, result: int = 1_200) -> Iterator[Json]:
    """One turn of four messages. Each text is its own: a word `w<number><letter>` tells it from all others."""
    yield {"role": "user", "content": f"w{number}a Please look at file {number}. " + "It matters. " * 8}
    call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {number}}}'}}
    yield {"role": "assistant", "content": f"w{number}b I shall read it.", "tool_calls": [call]}
    lines = (f"w{number}c line {line} of it, {line * 7919 % 1000}\n" for line in range(min(result, 2_000) // 24))
    text = "".join(lines).ljust(result if result > 2_000 else 0, ".")  # no words: those would only be counted
    yield {"role": "tool", "tool_call_id": f"c{number}", "content": text}
    yield {"role": "assistant", "content": f"w{number}d It says what file {number} says. " + "All is well. " * 8}
