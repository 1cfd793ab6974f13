"""A message is stored once, also if connections to PostgreSQL break at any step and the caller repeats the call."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.store.proxy import MARK, Cut, Proxy
from tidegate import Session
from tidegate.core.errors import BadInput, NotKept
from tidegate.core.events import MessageAdded, NoteAdded
from tidegate.core.messages import MarkedText, Message, Text
from tidegate.store.errors import StoreUnreachable
from tidegate.store.postgres import PostgresStore
from tidegate.store.session_log import KeptLog

LOOK_UP_STEPS = 18
"""Pieces of traffic of a new connection and of the look-up over it, and a few more."""


@pytest.fixture
def proxy(store_url: str) -> Iterator[Proxy]:
    proxy = Proxy(store_url)
    yield proxy
    proxy.close()


@pytest.fixture
def store(proxy: Proxy) -> Iterator[PostgresStore]:
    store = PostgresStore(proxy.url, timeout=60, connections=2)
    yield store
    store.close()


def says(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def message_text(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text | MarkedText))


def repeat_until_stored(add: Callable[[], list[str]]) -> tuple[list[str], int]:
    """Call until it succeeds, as a caller does; also how often it was not known whether it was stored."""
    uncertain = 0
    for _ in range(20):
        try:
            return add(), uncertain
        except StoreUnreachable:
            uncertain += 1
        except NotKept:
            pass
    raise AssertionError("twenty tries were not enough")


def recall(session: Session, ident: str) -> Message:
    """The proxy may be about to drop the connection that was chosen before: then the call is repeated once."""
    try:
        return session.recall(ident)
    except StoreUnreachable:
        return session.recall(ident)


def stored_texts(url: str) -> Counter[str]:
    store = PostgresStore(url)
    try:
        events = KeptLog(store, "s").read()
        return Counter(
            message_text(event.payload.message) for event in events if isinstance(event.payload, MessageAdded)
        )
    finally:
        store.close()


def add_over_breaking_connections(
    store: PostgresStore, proxy: Proxy, *, deliver: bool, key: bool
) -> tuple[Counter[str], int]:
    """Add messages while connections break: that of the append at its request or its answer, and then that of the
    look-up at each step. Return what is expected in the log, and how often it was not known whether it was stored.
    """
    session = Session(log=KeptLog(store, "s"))
    expected: Counter[str] = Counter()
    uncertain = 0
    for first in (1, 2):
        for second in range(first + 1, first + LOOK_UP_STEPS):
            text = f"{first} {second}"
            proxy.drop_at(first, second, deliver=deliver)
            ids, unknown = repeat_until_stored(partial(session.add, says(text), key=text if key else ""))
            proxy.drop_at(deliver=deliver)
            assert message_text(recall(session, ids[0])) == text
            expected[text] += 1
            uncertain += unknown
    return expected, uncertain


@pytest.mark.parametrize(
    ("deliver", "key"),
    [
        (True, False),
        (False, True),
        pytest.param(True, True, marks=pytest.mark.exhaustive),
        pytest.param(False, False, marks=pytest.mark.exhaustive),
    ],
)
def test_a_message_is_stored_once_wherever_connections_break(
    store: PostgresStore, proxy: Proxy, store_url: str, deliver: bool, key: bool
) -> None:
    expected, uncertain = add_over_breaking_connections(store, proxy, deliver=deliver, key=key)
    assert uncertain > 0, "no look-up was interrupted"
    assert stored_texts(store_url) == expected


@pytest.fixture
def unsure_store(proxy: Proxy) -> Iterator[PostgresStore]:
    """The connection of the repeated append is cut as well, so it stays unknown whether it was stored."""
    proxy.times = 2
    store = PostgresStore(proxy.url, timeout=60)
    yield store
    store.close()


@pytest.mark.parametrize("key", ["", "k1"])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("cut", ["request", "answer", "late"])
def test_a_repeated_add_is_stored_once(
    unsure_store: PostgresStore, proxy: Proxy, store_url: str, cut: Cut, asynchronous: bool, key: str
) -> None:
    session = Session(log=KeptLog(unsure_store, "s"))
    both = [says(MARK.decode()), says("and a second message of the same call")]

    def add() -> list[str]:
        return asyncio.run(session.add_async(*both, key=key)) if asynchronous else session.add(*both, key=key)

    proxy.cut = cut
    with pytest.raises(StoreUnreachable, match="It is not known"):
        add()
    if cut == "late":
        proxy.late.set()
        assert proxy.handed.wait(120)
    ids = add()
    assert [message_text(session.recall(ident)) for ident in ids] == [message["content"] for message in both]
    assert set(stored_texts(store_url).values()) == {1}
    assert add() == ids if key else add() != ids, "without a key, what was confirmed can be added once more"


@pytest.mark.parametrize("cut", ["request", "answer"])
def test_another_message_in_between_finds_the_first_one_resolved(
    unsure_store: PostgresStore, proxy: Proxy, store_url: str, cut: Cut
) -> None:
    session = Session(log=KeptLog(unsure_store, "s"))
    proxy.cut = cut
    with pytest.raises(StoreUnreachable):
        session.add(says(MARK.decode()))
    session.add(says("another"))
    first = [MARK.decode()] if cut == "answer" else []
    assert [message_text(item.message) for item in session.view.items] == [*first, "another"]
    assert list(stored_texts(store_url)) == [*first, "another"]


def test_two_messages_whose_outcome_is_unknown_are_each_stored_once(
    unsure_store: PostgresStore, proxy: Proxy, store_url: str
) -> None:
    """The second one is sent for the same place in the log as the first one, of which nothing is known yet."""
    session = Session(log=KeptLog(unsure_store, "s"))
    one, two = says(f"one {MARK.decode()}"), says(f"two {MARK.decode()}")
    proxy.cut = "request"
    with pytest.raises(StoreUnreachable):
        session.add(one)
    proxy.cut, proxy.times = "answer", 2
    with pytest.raises(StoreUnreachable):
        session.add(two)
    session.add(one)
    session.add(two)
    assert stored_texts(store_url) == {f"one {MARK.decode()}": 1, f"two {MARK.decode()}": 1}


def test_a_request_in_between_does_not_lead_to_a_second_copy(
    unsure_store: PostgresStore, proxy: Proxy, store_url: str
) -> None:
    session = Session(log=KeptLog(unsure_store, "s"))
    proxy.cut = "answer"
    with pytest.raises(StoreUnreachable):
        session.add(says(MARK.decode()))
    assert session.prepare().body["messages"] == [says(MARK.decode())], "prepare reads the log first"
    assert session.add(says(MARK.decode())) == [session.view.items[0].message.id]
    assert stored_texts(store_url) == {MARK.decode(): 1}


def test_a_note_whose_outcome_is_unknown_is_stored_once(unsure_store: PostgresStore, proxy: Proxy) -> None:
    session = Session(log=KeptLog(unsure_store, "s"))
    proxy.cut = "answer"
    with pytest.raises(StoreUnreachable):
        session.history.add_note("mine", MARK.decode())
    session.history.add_note("mine", MARK.decode())
    notes = [event.payload for event in session.log.read() if isinstance(event.payload, NoteAdded)]
    assert [note.text for note in notes if note.topic == "mine"] == [MARK.decode()]


def test_a_key_holds_for_every_process(store_url: str) -> None:
    """A process that ended without knowing is replaced by another, which knows only the key."""
    first, second = PostgresStore(store_url), PostgresStore(store_url)
    one, other = Session(log=KeptLog(first, "s")), Session(log=KeptLog(second, "s"))
    ids = one.add(says("hello"), says("there"), key="k1")
    assert other.add(says("hello"), says("there"), key="k1") == ids, "though this session has not read the log since"
    assert one.add(says("hello"), key="k2") != ids
    for wrong in ([says("bye")], [says("hello")], [says("hello"), says("there"), says("!")]):
        with pytest.raises(BadInput, match=r"'k1' was used before, for message m\d+, which has another content"):
            other.add(*wrong, key="k1")
    assert stored_texts(store_url) == {"hello": 2, "there": 1}
    first.close()
    second.close()
