"""A store beside one in memory, through any operations in any order: they are always the same.

Two handles work on the same data in turns, as two processes would; a crash leaves one behind without closing it.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.crash.harness import workplace
from tests.laws.conversations import law
from tests.store.sqlite_files import together
from tidegate.core.errors import TidegateError
from tidegate.store.memory import MemoryStore
from tidegate.store.postgres import PostgresStore
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.rows import PACK_BYTES, PACK_RECORDS
from tidegate.store.store import AsyncAppendStore, RewritableStore, Store

NAMES = ("a", "b", "ä ä", "c/../d")
SIZES = (1, 1, 1, 2, PACK_RECORDS - 1, PACK_RECORDS, PACK_RECORDS + 1, 3 * PACK_RECORDS)

sessions = st.sampled_from(NAMES)


class Kept(Store, RewritableStore, Protocol):
    """What all three backends are."""


class Beside(RuleBasedStateMachine):
    """`life` is in every name, so that lives may follow each other in one database."""

    def __init__(self, make: Callable[[], Kept], life: int) -> None:
        super().__init__()
        self.make, self.life = make, life
        self.left: list[Kept] = []
        self.written = 0

    @initialize()
    def start(self) -> None:
        self.model = MemoryStore()
        self.handles = [self.make(), self.make()]

    def named(self, session: str) -> str:
        return f"{self.life} {session}"

    def teardown(self) -> None:
        if hasattr(self, "handles"):
            for store in (*self.handles, *self.left):
                store.close()

    def record(self, size: int = 0) -> bytes:
        self.written += 1
        return b"%d " % self.written + bytes([self.written % 251]) * (size or self.written * 37 % 300)

    def both(self, hand: int, act: Callable[[Kept], object]) -> None:
        """Do it on the model and on one handle: the same comes of it, or the same refusal."""
        found: list[object] = []
        for store in (self.model, self.handles[hand]):
            try:
                found.append(act(store))
            except TidegateError as refusal:
                found.append((type(refusal), bool(refusal.remedy)))
        assert found[0] == found[1]

    @rule(
        hand=st.integers(0, 1), session=sessions, size=st.sampled_from(SIZES), off=st.sampled_from((0, 0, 0, 0, -1, 1))
    )
    def append(self, hand: int, session: str, size: int, off: int) -> None:
        """Sometimes behind a place that is not the head: then nothing is written."""
        session = self.named(session)
        records = [self.record() for _ in range(size)]
        after = self.model.head(session) + off
        self.both(hand, lambda store: store.append(session, after, records))

    @rule(hand=st.integers(0, 1), size=st.sampled_from((1, 1, 20)))
    def append_together(self, hand: int, size: int) -> None:
        """To all sessions at once, which may share a commit."""
        records = [self.record() for _ in range(size)]
        after = {self.named(session): self.model.head(self.named(session)) for session in NAMES}

        def act(store: Kept) -> list[int]:
            if isinstance(store, AsyncAppendStore):
                return together(store, after, records)
            return [store.append(session, head, records) for session, head in after.items()]

        self.both(hand, act)

    @rule(hand=st.integers(0, 1), session=sessions)
    def append_large(self, hand: int, session: str) -> None:
        session = self.named(session)
        records, after = [self.record(), self.record(PACK_BYTES), self.record()], self.model.head(session)
        self.both(hand, lambda store: store.append(session, after, records))

    @rule(hand=st.integers(0, 1), session=sessions, share=st.floats(-0.1, 1.1), new=sessions)
    def fork(self, hand: int, session: str, share: float, new: str) -> None:
        session, new = self.named(session), self.named(new)
        at = round(share * self.model.head(session))
        self.both(hand, lambda store: store.fork(session, at, new))

    @rule(hand=st.integers(0, 1), session=sessions, off=st.sampled_from((None, 0, -1)))
    def delete(self, hand: int, session: str, off: int | None) -> None:
        session = self.named(session)
        head = None if off is None else self.model.head(session) + off
        self.both(hand, lambda store: store.delete(session, head))

    @rule(hand=st.integers(0, 1), session=sessions, shares=st.lists(st.floats(0, 1.02), max_size=5))
    def rewrite(self, hand: int, session: str, shares: list[float]) -> None:
        session = self.named(session)
        changes = {max(1, round(share * self.model.head(session))): self.record() for share in shares}
        self.both(hand, lambda store: store.rewrite(session, changes))

    @rule(hand=st.integers(0, 1))
    def reopen(self, hand: int) -> None:
        self.handles[hand].close()
        self.handles[hand] = self.make()

    @rule(hand=st.integers(0, 1))
    def crash(self, hand: int) -> None:
        """The old handle stays open, as that of a process that hangs: nobody waits for it."""
        self.left.append(self.handles[hand])
        self.handles[hand] = self.make()

    @rule(hand=st.integers(0, 1), session=sessions, share=st.floats(-0.1, 1.1))
    def read_from(self, hand: int, session: str, share: float) -> None:
        session = self.named(session)
        start = round(share * self.model.head(session))
        self.both(hand, lambda store: list(store.read(session, start)))

    @invariant()
    def the_same(self) -> None:
        if not hasattr(self, "handles"):
            return
        wanted = {info.name: info.head for info in self.model.sessions()}
        for store in self.handles:
            found = {info.name: info.head for info in store.sessions()}
            assert {name: head for name, head in found.items() if name.startswith(self.named(""))} == wanted
            for name in wanted:
                assert list(store.read(name)) == list(self.model.read(name))


def check_lives(make: Callable[[int], Callable[[], Kept]], examples: int) -> None:
    lives = count()

    def machine() -> Beside:
        life = next(lives)
        return Beside(make(life), life)

    made: Any = machine  # what it wants is anything that makes a machine
    run_state_machine_as_test(made, settings=settings(law(examples), stateful_step_count=30))


@pytest.mark.parametrize("lives", [12, pytest.param(40, marks=pytest.mark.exhaustive)])
def test_on_disk_and_in_memory_are_the_same(lives: int) -> None:
    with workplace() as folder:
        check_lives(lambda life: lambda: SqliteStore(folder / str(life)), lives)


@pytest.mark.parametrize("lives", [4, pytest.param(12, marks=pytest.mark.exhaustive)])
def test_on_a_server_and_in_memory_are_the_same(lives: int, store_url: str) -> None:
    check_lives(lambda _: lambda: PostgresStore(store_url), lives)
