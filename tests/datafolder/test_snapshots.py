"""A session opened from a snapshot is the session that was closed; a snapshot that lies in any way is not believed."""

import struct
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.store.sqlite_files import change
from tidegate import MemoryLog, Session, SessionStorage
from tidegate.core.errors import BadInput
from tidegate.core.events import Event, NoteAdded, decode_event, encode_event
from tidegate.core.log_fold import fold_log
from tidegate.core.outcome import SummaryRequest
from tidegate.core.policy.parser import parse_policy
from tidegate.core.snapshot import freeze_view
from tidegate.core.stages import STAGES
from tidegate.core.view import LogView, View
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.snapshots import SNAPSHOT_INTERVAL, Snapshots, make_snapshot_watcher
from tidegate.proof.session_generator import generate_session
from tidegate.store.log import Log
from tidegate.store.session_log import KeptLog
from tidegate.store.sqlite import SqliteStore

KEY = "s"
ASKING = """
name: asking
reserve: 4096
settings: {ledger: 0.08}
moments:
  before_call:
    - {stage: clear_results, when: {pressure: "> 0.85"}, keep: 6, least: 60, floor: 500}
    - {stage: summarize, when: {pressure: "> 0.92"}, keep_share: 0.5, max_tokens: 2000}
"""


def ticking() -> Callable[[], float]:
    now = iter(range(1_000_000, 9_000_000))
    return lambda: float(next(now))


CLOCK = ticking()


def session_on(
    log: Log, view: LogView | None = None, policy: str = "default", clock: Callable[[], float] = CLOCK
) -> Session:
    return Session(
        "gpt-4o", policy=policy, window=9_000, count="estimate", log=SessionStorage(log, snapshot=view), clock=clock
    )


def talk(session: Session, first: int, last: int, seed: int = 4) -> None:
    for message in list(generate_session(30, seed=seed))[first:last]:
        if message["role"] == "system":
            session.set_system(str(message["content"]))
            continue
        if message["role"] == "user" and session.view.message_count:
            session.prepare()
        session.add(message)


def watched(session: Session, snapshots: Snapshots, key: str = KEY) -> Session:
    session.history.observe(make_snapshot_watcher(session, snapshots, key, session.policy.meter))
    return session


def everything(view: View) -> dict[str, Any]:
    return {name: value for name, value in view.fields().items() if name != "meter"}


@cache
def compacted(policy: str) -> tuple[bytes, ...]:
    """The records of a log that was compacted."""
    log = MemoryLog()
    session = session_on(log, policy=policy)
    talk(session, 0, 200)
    assert sum(session.edit_counts.values()) > 2
    session.close()
    return tuple(log.records())


def saved(folder: Path, policy: str = "default") -> MemoryLog:
    """A log that was compacted, and the snapshot of its view."""
    log = MemoryLog(compacted(policy))
    watched(session_on(log, policy=policy), Snapshots(folder)).close()
    return log


# --- believed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", ["cowagent", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("default", "picoclaw"))]
)
def test_a_session_goes_on_from_its_snapshot_as_from_its_log(tmp_path: Path, policy: str) -> None:
    log = saved(tmp_path, policy)
    talk(session_on(log, policy=policy), 200, 230)  # nobody watched: the snapshot is behind
    view = Snapshots(tmp_path).load(KEY, log, session_on(log, policy=policy).policy.meter)
    assert view is not None
    assert 0 < view.head < log.head - 10
    twins = [session_on(MemoryLog(log.records()), start, policy, ticking()) for start in (view, None)]
    assert everything(twins[0].view) == everything(twins[1].view)
    for first, last in ((230, 260), (260, 300)):
        requests = []
        for twin in twins:
            talk(twin, first, last)
            requests.append(twin.prepare().to_bytes())
        assert requests[0] == requests[1]
    assert everything(twins[0].view) == everything(twins[1].view)


def test_in_a_store_after_a_restart(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    session = watched(session_on(KeptLog(store, "any name")), Snapshots(tmp_path / "views"))
    talk(session, 0, 300)
    wanted, view = session.prepare().to_bytes(), everything(session.view)
    store.close()  # not the session: as if the process had been killed
    store = SqliteStore(tmp_path)
    log = KeptLog(store, "any name")
    snapshot = Snapshots(tmp_path / "views").load(KEY, log, "")
    assert snapshot is not None
    assert log.head - SNAPSHOT_INTERVAL < snapshot.head < log.head
    again = session_on(log, snapshot)
    assert everything(again.view) == view
    assert again.render_request().to_bytes() == wanted
    store.close()


@pytest.mark.parametrize("back", [1, 2])
def test_undo_and_redo_behind_the_snapshot(tmp_path: Path, back: int) -> None:
    log = saved(tmp_path)
    session = session_on(log)
    for _ in range(back):
        assert session.history.undo() is not None
    view = Snapshots(tmp_path).load(KEY, log, "")
    assert view is not None
    again = session_on(log, view)
    assert everything(again.view) == everything(session.view)
    assert again.history.redo() is not None
    assert everything(again.view) == everything(fold_log(log.read))


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_summary_asked_for_in_vain_is_not_asked_for_again(tmp_path: Path, snapshot: bool) -> None:
    asked: list[str] = []

    def too_long(request: SummaryRequest) -> str:
        asked.append(request.kind)
        return "x" * 5_000

    log, snapshots = MemoryLog(), Snapshots(tmp_path)
    asking = parse_policy(ASKING, source="here", stages=STAGES)
    session = Session(policy=asking, window=190, count="chars/4", log=SessionStorage(log), clock=CLOCK)
    watched(session, snapshots)
    session.add({"role": "user", "content": "w" * 133})
    for number, text in enumerate(("ok", "ok", "ok", "y" * 160)):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "r", "arguments": "{}"}}
        session.add({"role": "assistant", "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    request = session.prepare(too_long).to_bytes()
    session.close()
    assert len(asked) == 1
    head, view = log.head, snapshots.load(KEY, log, "") if snapshot else None
    again = Session(policy=asking, window=190, count="chars/4", log=SessionStorage(log, snapshot=view), clock=CLOCK)
    assert again.prepare(too_long).to_bytes() == request
    assert (len(asked), log.head) == (1, head)


# --- saving -----------------------------------------------------------------------------------------------------------


def load_head(folder: Path, log: Log) -> int:
    """The event that the stored snapshot ends with."""
    view = Snapshots(folder).load(KEY, log, "")
    return view.head if view else 0


def test_it_is_saved_now_and_then_and_at_the_end(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    session = watched(session_on(MemoryLog()), snapshots)
    ends = set()
    for number in range(3 * SNAPSHOT_INTERVAL):
        session.add({"role": "user", "content": f"{number}"})
        ends.add(snapshots.saved_seq(KEY))
    assert sorted(ends) == [0, SNAPSHOT_INTERVAL, 2 * SNAPSHOT_INTERVAL, 3 * SNAPSHOT_INTERVAL]
    session.add({"role": "user", "content": "one more"})
    session.close()
    assert load_head(tmp_path, session.log) == session.view.head == session.log.head
    assert snapshots.saved_seq(KEY) == 0, "nothing is kept in memory of a session that is closed"


def test_a_session_that_was_only_looked_at_is_saved_too(tmp_path: Path) -> None:
    log, snapshots = saved(tmp_path), Snapshots(tmp_path)
    session_on(log).history.undo()  # nobody watched
    watched(session_on(log, snapshots.load(KEY, log, "")), snapshots).close()
    assert load_head(tmp_path, log) == log.head


def test_a_store_that_is_closed_before_its_session_is_no_harm(tmp_path: Path) -> None:
    store, snapshots = SqliteStore(tmp_path), Snapshots(tmp_path / "views")
    session = watched(session_on(KeptLog(store, "s")), snapshots)
    talk(session, 0, 10)
    store.close()
    session.close()  # its last event was in mind
    again = SqliteStore(tmp_path)
    loaded = snapshots.load(KEY, KeptLog(again, "s"), "")
    assert loaded is not None
    assert freeze_view(loaded) == freeze_view(session.view)
    again.close()


def test_an_undo_is_saved_at_once(tmp_path: Path) -> None:
    log = saved(tmp_path)
    snapshots = Snapshots(tmp_path)
    session = watched(session_on(log, snapshots.load(KEY, log, "")), snapshots)
    session.history.undo()
    assert snapshots.saved_seq(KEY) == log.head
    view = Snapshots(tmp_path).load(KEY, log, "")
    assert view is not None
    assert everything(view) == everything(fold_log(log.read))


def test_a_long_log_without_a_snapshot_gets_one_when_it_is_opened(tmp_path: Path) -> None:
    log = saved(tmp_path / "elsewhere")
    snapshots = Snapshots(tmp_path)
    watched(session_on(log), snapshots)
    assert snapshots.saved_seq(KEY) == log.head
    (tmp_path / KEY).write_bytes(b"damaged meanwhile")
    assert snapshots.load(KEY, log, "") is None
    watched(session_on(log), snapshots)
    assert Snapshots(tmp_path).load(KEY, log, "") is not None


def test_a_disk_that_refuses_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / "views").write_text("a file where the folder should be")
    log = saved(tmp_path / "views")
    assert Snapshots(tmp_path / "views").load(KEY, log, "") is None
    assert log.head > 200


def test_files_are_for_the_owner_alone_and_nothing_is_left_over(tmp_path: Path) -> None:
    saved(tmp_path / "views")
    assert [path.name for path in (tmp_path / "views").iterdir()] == [KEY]
    assert (tmp_path / "views").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "views" / KEY).stat().st_mode & 0o777 == 0o600


def test_removed_it_is_gone(tmp_path: Path) -> None:
    log = saved(tmp_path)
    for left in (f".{KEY}.abc.writing", ".other.abc.writing"):  # of saves that were killed
        (tmp_path / left).write_bytes(b"half of a snap")
    snapshots = Snapshots(tmp_path)
    assert snapshots.load(KEY, log, "") is not None
    snapshots.remove(KEY)
    assert [path.name for path in tmp_path.iterdir()] == [".other.abc.writing"]
    assert snapshots.load(KEY, log, "") is None
    snapshots.remove(KEY)


def test_a_view_is_not_saved_under_another_event(tmp_path: Path) -> None:
    log = saved(tmp_path)
    with pytest.raises(BadInput):
        Snapshots(tmp_path).save(KEY, fold_log(log.read), next(log.read(3)), "")


# --- not believed -----------------------------------------------------------------------------------------------------


def refused(folder: Path, log: Log, meter: str = "", key: str = KEY) -> bool:
    return Snapshots(folder).load(key, log, meter) is None


def test_a_truncated_file(tmp_path: Path) -> None:
    log = saved(tmp_path)
    data = (tmp_path / KEY).read_bytes()
    for size in (*range(60), len(data) // 2, len(data) - 1):
        (tmp_path / KEY).write_bytes(data[:size])
        assert refused(tmp_path, log), size
    (tmp_path / KEY).write_bytes(data + b"x")
    assert refused(tmp_path, log)
    (tmp_path / KEY).write_bytes(data)
    assert not refused(tmp_path, log)


def test_flipped_bytes(tmp_path: Path) -> None:
    log = saved(tmp_path)
    data = (tmp_path / KEY).read_bytes()
    for place in (*range(120), *range(120, len(data), len(data) // 200)):
        flipped = bytearray(data)
        flipped[place] ^= 0x41
        (tmp_path / KEY).write_bytes(flipped)
        assert refused(tmp_path, log), place


def test_something_else_in_its_place(tmp_path: Path) -> None:
    log = saved(tmp_path)
    (tmp_path / KEY).rename(tmp_path / "other")
    (tmp_path / KEY).symlink_to(tmp_path / "other")
    assert refused(tmp_path, log)
    (tmp_path / KEY).unlink()
    (tmp_path / KEY).mkdir()
    assert refused(tmp_path, log)
    (tmp_path / KEY).rmdir()
    assert refused(tmp_path, log)


def test_a_snapshot_of_another_session(tmp_path: Path) -> None:
    """Even where the two logs hold the same event at that place."""
    log = saved(tmp_path)
    (tmp_path / KEY).rename(tmp_path / "t")
    assert refused(tmp_path, log, key="t")


def test_another_meter(tmp_path: Path) -> None:
    log = saved(tmp_path)
    assert refused(tmp_path, log, meter="chars/4")


def test_a_log_that_ends_before_it(tmp_path: Path) -> None:
    log = saved(tmp_path)
    assert refused(tmp_path, MemoryLog(log.records()[:-1]))
    assert refused(tmp_path, MemoryLog())


def test_a_log_that_was_replaced(tmp_path: Path) -> None:
    log, other = saved(tmp_path), MemoryLog()
    talk(session_on(other), 0, 250, seed=5)
    assert other.head > log.head
    assert refused(tmp_path, other)


def test_a_last_event_that_was_rewritten(tmp_path: Path) -> None:
    log = saved(tmp_path)
    records = list(log.records())
    last = decode_event(records[-1])
    records[-1] = encode_event(Event(last.seq, last.time, NoteAdded("forgotten", "m1")))
    assert refused(tmp_path, MemoryLog(records))


def test_forgotten_behind_the_snapshot_is_folded_from_the_log(tmp_path: Path) -> None:
    """The snapshot still holds what was forgotten; the note in the log makes it void."""
    log = MemoryLog()
    session = watched(session_on(log), Snapshots(tmp_path))
    session.add({"role": "user", "content": "my key is hunter2"}, {"role": "assistant", "content": "noted"})
    session.close()
    rewritten = MemoryLog(record.replace(b"hunter2", b"gone...") for record in log.records())
    rewritten.append(Event(rewritten.head + 1, 1.0, NoteAdded("forgotten", "m1")))
    view = Snapshots(tmp_path).load(KEY, rewritten, "")
    assert view is not None
    assert "hunter2" in session_on(log, view).render_request().to_bytes().decode()
    again = session_on(rewritten, Snapshots(tmp_path).load(KEY, rewritten, ""))
    assert everything(again.view) == everything(fold_log(rewritten.read))
    assert "hunter2" not in again.render_request().to_bytes().decode()


def test_a_damaged_record_where_it_ends(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    session = watched(session_on(KeptLog(store, "s")), Snapshots(tmp_path / "views"))
    talk(session, 0, 40)
    session.close()
    head = session.log.head
    store.close()
    change(tmp_path, "UPDATE recent_rows SET sum = zeroblob(32)")
    store = SqliteStore(tmp_path)
    log = KeptLog(store, "s")
    assert log.head == head
    assert refused(tmp_path / "views", log)
    store.close()


def test_a_snapshot_that_an_earlier_version_did_not_compress_is_used(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data:
        with data.open("s", "gpt-4o") as session:
            for number in range(80):
                session.add({"role": "user", "content": f"{number} " + "many words of one kind " * 20})
        path, meter = tmp_path / "views/s", session.policy.meter
        kept = path.read_bytes()
        body = zlib.decompress(kept[16 + 12 :])
        assert len(kept) < len(body) / 4
        path.write_bytes(b"tidegate view 3\n" + struct.pack(">QI", len(body), zlib.crc32(body)) + body)
        view = data.snapshots.load("s", data.open_log("s"), meter)
        assert view is not None
        assert freeze_view(view) == freeze_view(session.view)
        path.write_bytes(b"tidegate view 4\n" + struct.pack(">QI", len(body), zlib.crc32(body)) + body)
        assert data.snapshots.load("s", data.open_log("s"), meter) is None
