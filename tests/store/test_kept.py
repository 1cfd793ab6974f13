"""A session in a store: closed and opened again it is the same session, and two of them do not overwrite each other."""

from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.store.sqlite_files import FILE, change
from tidegate import BadInput, MemoryLog, Session
from tidegate.core.events import Event, MessageAdded, NoteAdded, encode_event
from tidegate.core.messages import Text, text_of
from tidegate.proof.session_generator import generate_session
from tidegate.store.blobs import Blobs
from tidegate.store.errors import DamagedData, SessionNotFound, StaleHead
from tidegate.store.log import Log
from tidegate.store.memory import MemoryStore
from tidegate.store.session_log import MAX_INLINE_BYTES, KeptLog, make_blob_reference, parse_blob_reference
from tidegate.store.sqlite import SqliteStore
from tidegate.store.store import Store

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
    for message in list(generate_session(14, seed=4))[first:last]:
        if message["role"] == "system":
            session.set_system(str(message["content"]))
            continue
        if message["role"] == "user" and session.view.message_count:
            requests.append(session.prepare().to_bytes())
        session.add(message)
    requests.append(session.prepare().to_bytes())
    return requests


def test_reopened_it_renders_the_same_bytes(reopen: Open) -> None:
    """At several places, and as a session that was never closed does: the view was compacted on the way."""
    straight = session_on(MemoryLog())
    places = [0, 30, 95, 140]
    for first, last in pairwise(places):
        store = reopen()
        wanted = talk(straight, first, last)
        assert talk(session_on(KeptLog(store, "s")), first, last) == wanted
        store.close()
        store = reopen()
        assert session_on(KeptLog(store, "s")).render_request().to_bytes() == wanted[-1]
        store.close()
    assert sum(straight.edit_counts.values()) > 3
    assert straight.log.head > 120


def test_undo_and_recall_work_on_what_is_kept(reopen: Open) -> None:
    store = reopen()
    session = session_on(KeptLog(store, "s"))
    talk(session, 0, 120)
    undone = session.history.undo()
    assert undone is not None
    assert session.recall("m3").id == "m3"
    view = [item.message for item in session.view.items_since_reply()]
    store.close()
    store = reopen()
    again = session_on(KeptLog(store, "s"))
    assert [item.message for item in again.view.items_since_reply()] == view
    assert again.history.redo() == undone
    store.close()


def note(seq: int, text: str) -> Event:
    return Event(seq, float(seq), NoteAdded("t", text))


def test_a_stale_writer_is_refused_and_catches_up() -> None:
    store = MemoryStore()
    ours, theirs = KeptLog(store, "s"), KeptLog(store, "s")
    ours.append(note(1, "ours"))
    with pytest.raises(StaleHead):
        theirs.append(note(1, "theirs"))
    assert theirs.head == 0
    assert list(theirs.read()) == []
    assert list(theirs.read_new_events()) == [note(1, "ours")]
    theirs.append(note(2, "theirs"))
    assert list(ours.read()) == [note(1, "ours")], "a log shows what it has caught up with, no more"
    assert list(ours.read_new_events()) == [note(2, "theirs")]
    assert list(ours.read_new_events()) == []
    assert list(ours.read(2)) == [note(2, "theirs")]


def test_catching_up_by_halves_goes_on_where_it_stopped() -> None:
    store = MemoryStore()
    theirs, ours = KeptLog(store, "s"), KeptLog(store, "s")
    for seq in range(1, 6):
        theirs.append(note(seq, ""))
    events = ours.read_new_events()
    assert [next(events).seq, next(events).seq] == [1, 2]
    assert ours.head == 2
    assert [event.seq for event in ours.read_new_events()] == [3, 4, 5]


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
    with pytest.raises(StaleHead):
        log.append(note(2, ""))
    with pytest.raises(SessionNotFound):
        list(log.read_new_events())


@pytest.mark.parametrize(
    "record", [b"\xc1", b"", encode_event(note(5, ""))], ids=["noise", "empty", "another's number"]
)
def test_what_is_not_an_event_is_named(record: bytes) -> None:
    store = MemoryStore()
    store.append("notes of May", 0, [encode_event(note(1, "")), record, encode_event(note(3, ""))])
    log = KeptLog(store, "notes of May")
    with pytest.raises(DamagedData, match=r"Record 2 of session 'notes of May'"):
        list(log.read())
    assert list(log.read(3)) == [note(3, "")]


# Another log in this one's place.


def filled(store: Store, session: str, texts: list[str]) -> KeptLog:
    log = KeptLog(store, session)
    for seq, text in enumerate(texts, log.head + 1):
        log.append(note(seq, text))
    return log


@pytest.mark.parametrize("known", ["written", "read", "caught up"])
@pytest.mark.parametrize("length", [1, 3, 9])
def test_a_session_made_anew_by_another_is_missed(reopen: Open, known: str, length: int) -> None:
    """Also if it is longer by now than the one we knew: its events must not be folded behind ours."""
    store = reopen()
    log = KeptLog(store, "s")
    ours = filled(store, "s", ["a", "b"])
    if known == "written":
        log = ours
    elif known == "caught up":
        list(log.read_new_events())
    else:
        log = KeptLog(store, "s")
        list(log.read())
    store.delete("s")
    filled(store, "s", ["x"] * length)
    with pytest.raises(SessionNotFound, match="was removed" if length < 2 else "was replaced"):
        list(log.read_new_events())
    list(log.read())
    with pytest.raises(SessionNotFound):
        list(log.read_new_events())
    assert [event.seq for event in KeptLog(store, "s").read()] == list(range(1, length + 1))
    store.close()


def test_a_record_that_was_forgotten_does_not_break_the_log() -> None:
    store = MemoryStore()
    log = filled(store, "s", ["a", "the secret"])
    other = KeptLog(store, "s")
    store.rewrite("s", {2: encode_event(note(2, "gone"))})
    other.append(Event(3, 3.0, NoteAdded("forgotten", "m2")))
    other.append(note(4, "d"))
    assert [event.seq for event in log.read_new_events()] == [3, 4]
    assert next(iter(log.read(2))) == note(2, "gone")
    other.append(note(5, "e"))
    assert [event.seq for event in log.read_new_events()] == [5]


def test_an_open_session_shows_no_more_what_was_forgotten() -> None:
    store = MemoryStore()
    session = session_on(KeptLog(store, "s"))
    session.add({"role": "user", "content": "first"}, {"role": "assistant", "content": "fine"})
    session.add({"role": "user", "content": "my secret is hunter2"})
    other = KeptLog(store, "s")
    *_, last = other.read()
    assert isinstance(last.payload, MessageAdded)
    gone = msgspec.structs.replace(last.payload.message, parts=(Text("[forgotten]"),))
    store.rewrite("s", {last.seq: encode_event(Event(last.seq, last.time, MessageAdded(gone, last.payload.tokens)))})
    other.append(Event(last.seq + 1, 1e9, NoteAdded("forgotten", gone.id)))
    sent = session.prepare().to_bytes()
    assert b"hunter2" not in sent
    assert b"[forgotten]" in sent
    assert session_on(KeptLog(store, "s")).prepare().to_bytes() == sent


def test_a_record_that_was_rewritten_and_says_nothing_is_another_log() -> None:
    store = MemoryStore()
    log = filled(store, "s", ["a", "b"])
    store.rewrite("s", {2: encode_event(note(2, "other"))})
    KeptLog(store, "s").append(note(3, "c"))
    with pytest.raises(SessionNotFound, match=r"was replaced meanwhile: record 2"):
        list(log.read_new_events())


# Where a log ends.


def test_opening_reads_the_newest_record_once(tmp_path: Path) -> None:
    """What it ends with is asked for by the snapshot, by the trace and before the next call."""
    with closing(SqliteStore(tmp_path)) as store:
        filled(store, "s", ["a", "b", "c"])
    steps: list[str] = []
    with closing(SqliteStore(tmp_path, step=steps.append)) as store:
        log = KeptLog(store, "s")
        steps.clear()
        assert [event.seq for _ in range(3) for event in log.read(3)] == [3, 3, 3]
        assert steps == [], "the store is not asked for it again"


def test_a_log_that_was_only_opened_misses_its_record(reopen: Open) -> None:
    store, other = reopen(), reopen()
    filled(other, "s", ["a", "b"])
    log = KeptLog(store, "s")
    other.delete("s")
    filled(other, "s", ["x", "y", "z"])
    with pytest.raises(SessionNotFound, match="was replaced meanwhile: record 2"):
        list(log.read_new_events())


def test_the_end_is_seen_whoever_has_changed_it(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path)) as store, closing(SqliteStore(tmp_path)) as other:

        def end(session: str = "s") -> tuple[int, list[bytes]]:
            head = store.head(session)
            assert head == other.head(session)
            return head, list(store.read(session, head)) if head else []

        assert end() == (0, [])
        other.append("s", 0, [b"a"])
        assert end() == (1, [b"a"])
        store.append("s", 1, [b"b"])
        assert end() == (2, [b"b"])
        store.append("s", 2, [b"c", b"d"])
        assert end() == (4, [b"d"])
        store.append("s", 4, [b"%d" % number for number in range(200)])
        assert end() == (204, [b"199"])
        other.rewrite("s", {204: b"other"})
        assert end() == (204, [b"other"])
        store.rewrite("s", {204: b"own"})
        assert end() == (204, [b"own"])
        other.append("t", 0, [b"t"])
        assert end() == (204, [b"own"])
        store.fork("s", 3, "u")
        assert (end("u"), end()) == ((3, [b"c"]), (204, [b"own"]))
        other.delete("s")
        assert end() == (0, [])


def test_an_end_that_is_damaged_is_told_of_when_it_is_read(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path)) as store:
        filled(store, "s", ["a", "b", "c"])
    change(
        tmp_path, "UPDATE recent_rows SET data = zeroblob(length(data)) WHERE id = (SELECT max(id) FROM recent_rows)"
    )
    with closing(SqliteStore(tmp_path)) as store:
        log = KeptLog(store, "s")
        assert (log.head, next(log.read(2)).seq) == (3, 2)
        with pytest.raises(DamagedData, match="Records 3 to 3"):
            list(log.read(3))


# Large records.

LARGE = "words of a large result, each time others: " + " ".join(map(str, range(60_000)))


def test_a_large_record_lies_in_a_blob(reopen: Open, tmp_path: Path) -> None:
    store, blobs = reopen(), Blobs(tmp_path / "blobs")
    log = KeptLog(store, "s", blobs)
    small, large = note(1, "x" * (MAX_INLINE_BYTES - 100)), note(2, LARGE)
    log.append(small)
    log.append(large)
    records = list(store.read("s"))
    assert records[0] == encode_event(small)
    sha = parse_blob_reference(records[1])
    assert sha is not None
    assert len(records[1]) == 41
    assert parse_blob_reference(records[0]) is None
    assert (blobs.claimed_by("s"), blobs.get(sha)) == (frozenset([sha]), encode_event(large))
    assert list(KeptLog(store, "s", Blobs(blobs.folder)).read()) == [small, large]
    assert list(log.read(2)) == [large]
    other = KeptLog(store, "s", blobs)
    other.append(note(3, ""))
    assert [event.seq for event in log.read_new_events()] == [3]
    store.close()


def test_without_blobs_it_stays_in_the_store(reopen: Open) -> None:
    store = reopen()
    KeptLog(store, "s").append(note(1, LARGE))
    assert parse_blob_reference(next(iter(store.read("s")))) is None
    assert list(KeptLog(store, "s").read()) == [note(1, LARGE)]
    store.close()


def test_a_blob_that_is_gone_damaged_or_not_asked_for_is_named(tmp_path: Path) -> None:
    store, blobs = MemoryStore(), Blobs(tmp_path)
    log = KeptLog(store, "s", blobs)
    for event in (note(1, LARGE), note(2, "small")):
        log.append(event)
    (sha,) = blobs.claimed_by("s")
    with pytest.raises(DamagedData, match="opened without its blobs"):
        list(KeptLog(store, "s").read())
    path = tmp_path / sha[:2] / sha
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedData, match=f"Record 1 of session 's': The blob {sha} is damaged"):
        list(log.read())
    path.unlink()
    with pytest.raises(DamagedData, match=f"Record 1 of session 's': The blob {sha} is not there"):
        list(log.read())
    assert list(log.read(2)) == [note(2, "small")]
    store.append("t", 0, [make_blob_reference(blobs.put("t", b"no event"), 8)])
    with pytest.raises(DamagedData, match="Record 1 of session 't' is whole but not an event"):
        list(KeptLog(store, "t", blobs).read())


def test_a_stale_writer_leaves_no_blob(tmp_path: Path) -> None:
    """It will try again with another number, and then it is another record."""
    store, blobs = MemoryStore(), Blobs(tmp_path)
    log = KeptLog(store, "s", blobs)
    KeptLog(store, "s").append(note(1, ""))
    with pytest.raises(StaleHead):
        log.append(note(1, LARGE))
    assert not blobs.claimed_by("s")
    with pytest.raises(BadInput, match="more than 1,000"):
        KeptLog(store, "s", Blobs(tmp_path, max_blob=1000)).append(note(2, LARGE))
    with pytest.raises(BadInput, match="more than 1,000"):  # also a record that stays in the log
        KeptLog(store, "s", Blobs(tmp_path, max_blob=1000, has_secret=lambda data: True)).append(note(2, LARGE))
    assert store.head("s") == 1


def test_a_session_with_a_message_of_megabytes(tmp_path: Path) -> None:
    store, blobs = SqliteStore(tmp_path / "data"), Blobs(tmp_path / "blobs")
    session = session_on(KeptLog(store, "s", blobs))
    huge = "0123456789 abcdefghijklmnopqrstuvwxyz\n" * 100_000
    session.add({"role": "user", "content": "read it"})
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    session.add({"role": "assistant", "content": None, "tool_calls": [call]})
    session.add({"role": "tool", "tool_call_id": "c1", "content": huge})
    sent = session.prepare().to_bytes()
    store.close()
    assert (tmp_path / "data" / FILE).stat().st_size < 200_000
    store = SqliteStore(tmp_path / "data")
    again = session_on(KeptLog(store, "s", blobs))
    assert again.prepare().to_bytes() == sent
    (said,) = [
        event
        for event in again.log.read()
        if isinstance(event.payload, MessageAdded) and event.payload.message.role == "tool"
    ]
    assert text_of(said.payload.message) == huge  # type: ignore[union-attr]
    store.close()
