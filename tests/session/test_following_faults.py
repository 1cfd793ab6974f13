"""Workers follow one client over a store that fails at any call: no message of the client leaves its conversation.

An append may fail before or after it was stored, or be stored later; a read may fail; a worker may answer after the
client has asked another one. The client repeats what failed, as real ones do.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import pytest

from tests.scale import scaled
from tidegate import Session
from tidegate.core.errors import NotKept
from tidegate.core.events import BranchStarted, MessageAdded, decode_event
from tidegate.core.messages import Message, Text, Tool, text_of
from tidegate.session.following import FixedPart, FollowingSession, make_host_item
from tidegate.store.errors import StaleHead, StoreUnreachable
from tidegate.store.memory import MemoryStore
from tidegate.store.session_log import KeptLog

LINE = "The build failed in module parser with error 17; the log is in build/out.txt. "
RECALL = Tool("recall", "Read what left.")
FAILURES = (StoreUnreachable, NotKept)
TURNS, WORKERS = 15, 3


class FailingStore(MemoryStore):
    """Fails by chance, and stores some of the failed appends later."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._late: list[tuple[str, int, list[bytes]]] = []

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        self._store_late()
        fate = self._chance.random()
        if fate < 0.05:
            raise StoreUnreachable("The connection was lost.", "Try again.")
        if fate < 0.10:
            super().append(session, after, records)
            raise StoreUnreachable("The connection was lost after the append.", "Try again.")
        if fate < 0.15:
            self._late.append((session, after, list(records)))
            raise StoreUnreachable("The append is on its way.", "Try again.")
        if fate < 0.18:
            raise NotKept("There is no connection.", "Try again.")
        return super().append(session, after, records)

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        if self._chance.random() < 0.08:
            raise StoreUnreachable("The connection was lost.", "Try again.")
        return super().read(session, start)

    def read_whole(self, session: str) -> list[bytes]:
        return list(super().read(session))

    def _store_late(self) -> None:
        for append in self._late[:]:
            if self._chance.random() < 0.5:
                self._late.remove(append)
                with suppress(StaleHead):
                    super().append(*append)


class FaultyTalk:
    """A client that repeats a request, with any worker, until it has an answer."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.store = FailingStore(self._chance)
        self.messages: list[Message] = []
        self._workers: list[FollowingSession[Message] | None] = [None] * WORKERS
        self._late_answers: list[Callable[[], None]] = []

    def talk(self) -> None:
        for turn in range(TURNS):
            self.messages.append(_say("user", turn))
            answer = _say("assistant", turn)
            while not self._ask(answer):
                pass
            self.messages.append(answer)

    def _ask(self, answer: Message) -> bool:
        """Whether the client got the answer."""
        for late in self._late_answers[:]:
            if self._chance.random() < 0.3:
                self._late_answers.remove(late)
                with suppress(*FAILURES):
                    late()
        place = self._chance.randrange(WORKERS)
        if self._chance.random() < 0.02:
            self._workers[place] = None  # it is killed
        try:
            worker = self._workers[place] = self._workers[place] or self._start_worker()
            fixed = FixedPart("Fix it.", (RECALL,), True) if worker.sent_anything_of_ours else FixedPart("Fix it.")
            request = worker.prepare([make_host_item(each, each) for each in self.messages], fixed_part=fixed)
            record = partial(worker.record_reply, request, answer, {"input_tokens": 10, "output_tokens": 3})
            if self._chance.random() < 0.05:
                self._late_answers.append(partial(record, partial=self._chance.random() < 0.5))
                return False
            record()
        except FAILURES:
            return False
        return self._chance.random() > 0.03  # else it was lost on its way

    def _start_worker(self) -> FollowingSession[Message]:
        return FollowingSession(Session("gpt-4o", window=3_000, log=KeptLog(self.store, "s")))


def _say(role: str, turn: int) -> Message:
    return Message("user" if role == "user" else "assistant", (Text(f"{role} {turn}: {LINE * 4}"),))


def read_conversation(store: FailingStore) -> Counter[str]:
    """The beginnings of the messages on the log's current branch."""
    after: list[tuple[str, ...]] = [()]
    for event in map(decode_event, store.read_whole("s")):
        what, told = event.payload, after[-1]
        if isinstance(what, BranchStarted):
            told = after[what.edit]
        elif isinstance(what, MessageAdded) and what.message.agent_visible and LINE in text_of(what.message):
            told = (*told, text_of(what.message).partition(":")[0])
        after.append(told)
    return Counter(after[-1])


@pytest.mark.parametrize("seed", range(scaled(12)))
def test_every_message_of_the_client_is_once_in_its_conversation(seed: int) -> None:
    talk = FaultyTalk(seed)
    talk.talk()
    assert read_conversation(talk.store) == Counter(text_of(each).partition(":")[0] for each in talk.messages)


class SilentStore(MemoryStore):
    is_silent = False

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        if self.is_silent:
            raise StoreUnreachable("The connection was lost.", "Try again.")
        return super().read(session, start)


def test_a_view_that_is_read_between_the_events_of_an_append_has_each_message_once() -> None:
    store = SilentStore()
    session = Session("gpt-4o", log=KeptLog(store, "s"))
    live = session.parts[0]
    for turn in range(3):
        session.add(_say("user", turn), _say("assistant", turn))
    store.is_silent = True
    live.append(BranchStarted(text=str(session.log.head)))  # the view cannot be read again now
    store.is_silent = False
    live.observers.append(lambda event: live.view.recount(live.counter, thinking=False))
    session.add(_say("user", 3), _say("assistant", 3))
    ids = [item.message.id for item in session.view.items]
    assert len(ids) == len(set(ids)) == 8
