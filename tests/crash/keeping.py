"""A data folder in use, beside a simple model of it: which records each log held, what was said, what was forgotten."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.laws.sessions import TOOLS, said
from tidegate import Message, Session
from tidegate.core.events import MessageAdded
from tidegate.core.policy.policy import Policy
from tidegate.datafolder.data_folder import DataFolder
from tidegate.store.blobs import Blobs
from tidegate.store.sqlite import SqliteStore
from tidegate.wire.request import RequestRenderer


class Known:
    """What the model knows of one session."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.said: dict[str, Message] = {}
        self.forgotten: set[str] = set()


class Place:
    """One session of it is open at a time, always with the same policy and window. Time passes when it is told to."""

    def __init__(self, folder: Path, policy: Policy, window: int) -> None:
        self.folder = folder
        self.policy, self.window = policy, window
        self.now = 1_800_000_000.0
        self.known: dict[str, Known] = {}
        self.left: list[Callable[[], None]] = []
        self.data = self.opened_data()
        self.enter("main")

    def end(self) -> None:
        self.session.close()
        for close in (self.data.close, *self.left):
            close()

    def opened_data(self) -> DataFolder:
        """Its store tells the time by the same clock, so that days pass when the test says so."""
        store = SqliteStore(self.folder, clock=lambda: self.now)
        data = DataFolder(self.folder, store=store, secrets=[], clock=lambda: self.now)
        data.blobs = Blobs(self.folder / "blobs")
        return data

    def enter(self, name: str) -> None:
        self.name = name
        self.known.setdefault(name, Known())
        options: dict[str, Any] = {"wire": "openai_chat", "count": "estimate", "window": self.window, "tools": TOOLS}
        self.session: Session = self.data.open(name, "gpt-4o", policy=self.policy, **options)
        self.learn()

    @property
    def exact(self) -> bool:
        return not self.policy.moments.get("restore")

    def sent(self) -> bytes:
        """What would be sent as it is; it need not be valid yet."""
        rendering = RequestRenderer(self.session.dialect, model=self.session.model)
        rendering.update(self.session.view)
        return rendering.to_bytes()

    def learn(self) -> None:
        """Take in what the log says now: it has grown, and what was there is there."""
        known, records = self.known[self.name], list(self.data.store.read(self.name))
        assert records[: len(known.records)] == known.records, "the log was rewritten"
        fresh = list(self.data.open_log(self.name).read(len(known.records) + 1))
        assert [event.seq for event in fresh] == list(range(len(known.records) + 1, len(records) + 1))
        known.records = records
        known.said.update(
            {e.payload.message.id: e.payload.message for e in fresh if isinstance(e.payload, MessageAdded)}
        )

    def check_all(self) -> None:
        """Everything that was ever said here is there under its id, as it was said; or forgotten."""
        found, known = said(self.session), self.known[self.name]
        assert found.keys() == known.said.keys()
        for ident, message in known.said.items():
            if ident not in known.forgotten:
                assert self.session.recall(ident) == message == found[ident]

    def again(self, leave: Callable[[], None]) -> None:
        before, head = self.sent(), self.session.log.head
        leave()
        self.enter(self.name)
        if self.exact:
            assert (self.session.log.head, self.sent()) == (head, before), "opened again, it is another"
        else:
            assert self.session.log.head <= head + 2, "a restore is one edit, and what it mends before"
            restored, head = self.sent(), self.session.log.head
            self.crash()
            assert (self.session.log.head, self.sent()) == (head, restored), "restored twice, it is another"
        self.check_all()

    def close(self) -> None:
        self.session.close()
        self.data.close()
        self.data = self.opened_data()

    def die(self) -> None:
        """A crash: the lock is released, as when a process ends, but the snapshot that closing saves is not there."""
        views = self.data.root / "views"
        saved = {path: path.read_bytes() for path in views.rglob("*") if path.is_file()}
        self.session.close()
        for path in [path for path in views.rglob("*") if path.is_file()]:
            path.unlink()
        for path, content in saved.items():
            path.write_bytes(content)
        self.left += [self.data.close]
        self.data = self.opened_data()
        assert not self.data.locks.is_in_use(self.name)

    def crash(self) -> None:
        self.die()
        self.enter(self.name)

    def forget(self, ids: set[str], act: Callable[[], object]) -> None:
        """Only the records of these messages, and edits that show them, are others afterwards; the numbers stay."""
        self.learn()
        known = self.known[self.name]
        known.forgotten |= ids
        self.session.close()
        act()
        records = list(self.data.store.read(self.name))
        assert len(known.records) <= len(records) <= len(known.records) + 1
        known.records = records[: len(known.records)]
        self.enter(self.name)
        self.check_all()

    def gone(self, name: str) -> None:
        del self.known[name]
        assert self.data.store.head(name) == 0
        assert not self.data.trace_path(name).exists()
        assert not self.data.session_files(name).root.exists()
