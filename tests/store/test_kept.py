"""A session in a store: closed and opened again it is the same session, and two of them do not overwrite each other."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tidegate import BadInput, MemoryLog, Session
from tidegate.core.events import Event, Noted, encode
from tidegate.lab.generate import generate
from tidegate.store.kept import KeptLog
from tidegate.store.log import Log
from tidegate.store.memory import MemoryStore
from tidegate.store.sqlite import SqliteStore
from tidegate.store.store import Broken, Missing, Stale, Store

Open = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Each call gives the store anew, as after a restart."""
    memory = MemoryStore()
    return lambda: memory if request.param == "memory" else SqliteStore(tmp_path / "data")


def ticking() -> Callable[[], float]:
    now = iter(range(1_000_000, 9_000_000))
    return lambda: float(next(now))


def session_on(log: Log) -> Session:
    return Session("gpt-4o", window=16_000, wire="openai_chat", count="estimate", log=log, clock=lambda: 1e9)


def talk(session: Session, first: int, last: int) -> list[bytes]:
    """Messages of a long session, with a request before each of the user's next ones."""
    requests: list[bytes] = []
    for message in list(generate(14, seed=4))[first:last]:
        if message["role"] == "system":
            session.set_system(str(message["content"]))
            continue
        if message["role"] == "user" and session.view.messages:
            requests.append(session.prepare().to_bytes())
        session.add(message)
    requests.append(session.prepare().to_bytes())
    return requests


def test_reopened_it_renders_the_same_bytes(reopen: Open) -> None:
    """At several places, and as a session that was never closed does: the view was compacted on the way."""
    straight = session_on(MemoryLog())
    places = [0, 30, 95, 160, 230]
    for first, last in pairwise(places):
        store = reopen()
        wanted = talk(straight, first, last)
        assert talk(session_on(KeptLog(store, "s")), first, last) == wanted
        store.close()
        store = reopen()
        assert session_on(KeptLog(store, "s")).request().to_bytes() == wanted[-1]
        store.close()
    assert sum(straight.edits.values()) > 3
    assert straight.log.head > 200


def test_undo_and_recall_work_on_what_is_kept(reopen: Open) -> None:
    store = reopen()
    session = session_on(KeptLog(store, "s"))
    talk(session, 0, 120)
    undone = session.undo()
    assert undone is not None
    assert session.recall("m3").id == "m3"
    view = [item.message for item in session.view.fresh()]
    store.close()
    store = reopen()
    again = session_on(KeptLog(store, "s"))
    assert [item.message for item in again.view.fresh()] == view
    assert again.redo() == undone
    store.close()


def note(seq: int, text: str) -> Event:
    return Event(seq, float(seq), Noted("t", text))


def test_a_stale_writer_is_refused_and_catches_up() -> None:
    store = MemoryStore()
    ours, theirs = KeptLog(store, "s"), KeptLog(store, "s")
    ours.append(note(1, "ours"))
    with pytest.raises(Stale):
        theirs.append(note(1, "theirs"))
    assert theirs.head == 0
    assert list(theirs.read()) == []
    assert list(theirs.catch_up()) == [note(1, "ours")]
    theirs.append(note(2, "theirs"))
    assert list(ours.read()) == [note(1, "ours")], "a log shows what it has caught up with, no more"
    assert list(ours.catch_up()) == [note(2, "theirs")]
    assert list(ours.catch_up()) == []
    assert list(ours.read(2)) == [note(2, "theirs")]


def test_catching_up_by_halves_goes_on_where_it_stopped() -> None:
    store = MemoryStore()
    theirs, ours = KeptLog(store, "s"), KeptLog(store, "s")
    for seq in range(1, 6):
        theirs.append(note(seq, ""))
    events = ours.catch_up()
    assert [next(events).seq, next(events).seq] == [1, 2]
    assert ours.head == 2
    assert [event.seq for event in ours.catch_up()] == [3, 4, 5]


def test_an_event_out_of_order_is_refused() -> None:
    log = KeptLog(MemoryStore(), "s")
    for seq in (0, 2):
        with pytest.raises(BadInput):
            log.append(note(seq, ""))
    assert log.head == 0


def test_half_a_surrogate_pair_does_not_get_in(reopen: Open) -> None:
    store = reopen()
    log = KeptLog(store, "s")
    with pytest.raises(UnicodeEncodeError):
        log.append(note(1, "\ud800"))
    assert (log.head, store.head("s")) == (0, 0)
    session = session_on(log)
    session.add({"role": "user", "content": "half \ud800 a pair, and a \0 NUL"})
    assert [event.seq for event in KeptLog(store, "s").read()] == list(range(1, log.head + 1))
    store.close()


def test_a_session_removed_by_another_is_missed() -> None:
    store = MemoryStore()
    log = KeptLog(store, "s")
    log.append(note(1, ""))
    store.delete("s")
    with pytest.raises(Stale):
        log.append(note(2, ""))
    with pytest.raises(Missing):
        list(log.catch_up())


@pytest.mark.parametrize("record", [b"\xc1", b"", encode(note(5, ""))], ids=["noise", "empty", "another's number"])
def test_what_is_not_an_event_is_named(record: bytes) -> None:
    store = MemoryStore()
    store.append("notes of May", 0, [encode(note(1, "")), record, encode(note(3, ""))])
    log = KeptLog(store, "notes of May")
    with pytest.raises(Broken, match=r"Record 2 of session 'notes of May'"):
        list(log.read())
    assert list(log.read(3)) == [note(3, "")]
