"""Sessions leave by their own mark, whole, said beforehand, and never while someone has them open."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.scale import mark_all_but
from tidegate.core.errors import BadInput
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.removal import BEING_REMOVED, finish_removal, get_retention_days, remove_session
from tidegate.datafolder.retention import DAY_SECONDS, is_retention_due, remove_expired_sessions, set_retention
from tidegate.disk.folder import session_file_key
from tidegate.store.errors import SessionNotFound, StaleHead
from tidegate.store.sqlite import SqliteStore

STEPS = (
    *("intent written", "removal said", "log removed", "files removed", "trace removed", "snapshot removed"),
    *("blobs released", "index cleaned", "blobs collected", "marks removed"),
)


class Killed(BaseException):
    """Not an Exception: no code may catch it and go on, as none could after a kill."""


def killing(at: str) -> Callable[[str], None]:
    def step(name: str) -> None:
        if name == at:
            raise Killed(name)

    return step


class Later:
    """The clock of a folder, so many days ahead of the store's."""

    def __init__(self) -> None:
        self.days = 0.0

    def __call__(self) -> float:
        return 1_900_000_000.0 + self.days * DAY_SECONDS


@pytest.fixture
def clock() -> Later:
    return Later()


def folder(path: Path, clock: Later) -> DataFolder:
    data = DataFolder(path, clock=clock, secrets=[])
    data.store.close()
    data.store = SqliteStore(path, clock=clock)
    return data


def used(data: DataFolder, name: str, *, days: int = 0, size: int = 300_000) -> int:
    """A session with something in every corner: log, blob, files, trace, snapshot, index, mark."""
    with data.open(name, "gpt-4o") as session:
        session.add({"role": "user", "content": f"the words of {name}"})
        session.add({"role": "assistant", "content": os.urandom(8).hex() + " " * size + "."})
        session.prepare()
    data.session_files(name).update("large_tool_results/m3", lambda _: f"a file of {name}")
    data.open_search().refresh()
    if days:
        set_retention(data, name, days)
    return data.store.head(name)


def corners(data: DataFolder, name: str) -> dict[str, bool]:
    """Where something of a session is left."""
    assert data.blobs is not None
    return {
        "log": data.store.head(name) > 0,
        "files": data.session_files(name).root.exists(),
        "trace": data.trace_path(name).exists(),
        "snapshot": (data.root / "views" / session_file_key(name)).exists(),
        "claims": bool(data.blobs.claimed_by(name)),
        "index": bool(data.open_search().search("words", name=name)),
        "mark": (data.root / "retention" / f"{session_file_key(name)}.json").exists(),
    }


def blobs(data: DataFolder) -> int:
    return sum(1 for path in (data.root / "blobs").glob("??/*") if path.is_file())


def said(data: DataFolder) -> list[dict[str, Any]]:
    path = data.root / "removed.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_what_is_over_leaves_whole_and_the_rest_stays(tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    records = used(data, "old", days=30)
    used(data, "for ever")
    used(data, "long", days=90)
    assert all(corners(data, "old").values()), "there is something in every corner to begin with"
    before = corners(data, "for ever")
    clock.days = 30.0
    assert remove_expired_sessions(data) == [], "30 days are not over 30"
    clock.days = 31.0
    (left,) = remove_expired_sessions(data)
    assert (left.session, left.why) == ("old", "kept for 30 days")
    assert left.records == records
    assert left.size > 100
    assert left.used == 1_900_000_000.0
    assert not any(corners(data, "old").values()), corners(data, "old")
    assert corners(data, "for ever") == before
    assert data.store.head("long") == records
    assert blobs(data) == 2
    assert said(data) == [msgspec.to_builtins(left)]
    assert remove_expired_sessions(data) == []


def test_a_mark_is_of_the_session_and_the_last_word_holds(tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    used(data, "mine", size=100)
    used(data, "cow", days=30, size=100)
    set_retention(data, "cow", 0)
    assert get_retention_days(data, "cow") == 0
    set_retention(data, "mine", 5)
    set_retention(data, "mine", 7)
    assert get_retention_days(data, "mine") == 7
    clock.days = 1_000
    assert [left.session for left in remove_expired_sessions(data)] == ["mine"]
    with pytest.raises(BadInput):
        set_retention(data, "cow", -2)


def test_it_is_due_once_a_day_and_never_without_a_mark(tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    used(data, "a", size=100)
    assert not is_retention_due(data)
    set_retention(data, "a", 30)
    assert is_retention_due(data)
    remove_expired_sessions(data)
    assert not is_retention_due(data)
    clock.days = 0.99
    assert not is_retention_due(data)
    clock.days = 1.0
    assert is_retention_due(data)
    clock.days = -3.0
    assert is_retention_due(data), "a clock that was set back does not put it off"


def test_a_session_in_use_stays(tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    records = used(data, "open", days=30, size=100)
    clock.days = 60
    with data.locks.hold("open"):
        assert remove_expired_sessions(data) == []
        with pytest.raises(BadInput, match="in use"):
            remove_session(data, "open")
        assert data.store.head("open") == records
        assert said(data) == []
    assert [left.session for left in remove_expired_sessions(data)] == ["open"]


def test_one_that_is_used_without_being_opened_stays_too(tmp_path: Path, clock: Later) -> None:
    """Another host appends between the look and the deletion: what it said is not lost, and the mark stands again."""
    data = folder(tmp_path, clock)
    head = used(data, "shared", days=30, size=100)
    clock.days = 60
    record = list(data.store.read("shared", head))

    def step(name: str) -> None:
        if name == "removal said":
            data.store.append("shared", data.store.head("shared"), record)

    assert remove_expired_sessions(data, step=step) == []
    assert data.store.head("shared") == head + 1
    assert get_retention_days(data, "shared") == 30
    assert [line["why"] for line in said(data)] == ["kept for 30 days", "not removed, used meanwhile: kept for 30 days"]
    with pytest.raises(StaleHead):
        remove_session(data, "shared", step=step)
    assert data.store.head("shared") == head + 2


@pytest.mark.parametrize("at", mark_all_but(STEPS, "removal said", "log removed", "blobs released", "marks removed"))
def test_a_removal_that_was_cut_short_is_finished(at: str, tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    records = used(data, "old", days=30)
    used(data, "other")
    before = corners(data, "other")
    clock.days = 31
    with pytest.raises(Killed, match=at):
        remove_expired_sessions(data, step=killing(at))
    after = folder(tmp_path, clock)
    assert len(said(after)) == (at != "intent written")
    assert is_retention_due(after), "the next opening looks again"
    finished = [left.session for left in remove_expired_sessions(after)]
    assert finished == ([] if at == "marks removed" else ["old"])
    assert not any(corners(after, "old").values()), corners(after, "old")
    assert blobs(after) == 1
    assert corners(after, "other") == before
    lines = said(after)
    assert [line["session"] for line in lines] == ["old"]
    assert lines[0]["records"] == records


def test_opening_calls_off_a_removal_that_had_not_begun(tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    used(data, "old", days=30)
    clock.days = 31
    with pytest.raises(Killed):
        remove_expired_sessions(data, step=killing("removal said"))
    assert get_retention_days(data, "old") == BEING_REMOVED
    finish_removal(data, "old")
    assert get_retention_days(data, "old") == 30
    assert all(corners(data, "old").values())


def test_opening_finishes_a_removal_whose_log_is_gone(tmp_path: Path, clock: Later) -> None:
    """Else a new session of that name would find the files, the trace and the blobs of the old one."""
    data = folder(tmp_path, clock)
    used(data, "old", days=30)
    clock.days = 31
    with pytest.raises(Killed):
        remove_expired_sessions(data, step=killing("log removed"))
    finish_removal(data, "old")
    assert not any(corners(data, "old").values())


def test_what_someone_wants_forgotten_goes_even_if_it_is_opened(tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    used(data, "old")
    with pytest.raises(Killed):
        remove_session(data, "old", step=killing("intent written"))
    finish_removal(data, "old")
    assert not any(corners(data, "old").values())
    assert [line["why"] for line in said(data)] == ["forgotten"]


def test_a_mark_may_come_before_its_session(tmp_path: Path, clock: Later) -> None:
    """As for an import, which is thrown away if it is cut short."""
    data = folder(tmp_path, clock)
    set_retention(data, "staged", BEING_REMOVED)
    with data.locks.hold("staged"):
        data.store.append("staged", 0, [b"a record"])
        assert remove_expired_sessions(data) == []
    assert [left.records for left in remove_expired_sessions(data)] == [1]
    assert data.store.head("staged") == 0
    set_retention(data, "never", BEING_REMOVED)
    remove_expired_sessions(data)
    assert get_retention_days(data, "never") == 0


def test_removing_what_is_not_there_leaves_nothing(tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    data.session_files("ghost").update("left", lambda _: "of a session that is no more")
    assert remove_session(data, "ghost").records == 0
    assert not data.session_files("ghost").root.exists()
    with pytest.raises(SessionNotFound):
        data.store.delete("ghost")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"session":"other","days":1}', '{"session":"old","days":"x"}', "\0"])
def test_a_mark_that_cannot_be_read_removes_nothing(text: str, tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    records = used(data, "old", days=30, size=100)
    used(data, "other", size=100)
    (tmp_path / "retention" / "old.json").write_text(text)
    clock.days = 90
    assert remove_expired_sessions(data) == []
    assert data.store.head("old") == data.store.head("other") == records


def test_what_stands_in_the_way_of_one_does_not_keep_the_others(tmp_path: Path, clock: Later) -> None:
    data = folder(tmp_path, clock)
    used(data, "a", days=30, size=100)
    used(data, "b", days=30, size=100)
    clock.days = 31
    (tmp_path / "traces" / "a.jsonl").unlink()
    (tmp_path / "traces" / "a.jsonl").mkdir()
    assert [left.session for left in remove_expired_sessions(data)] == ["b"]
    assert is_retention_due(data), "so it is tried again"
    (tmp_path / "traces" / "a.jsonl").rmdir()
    assert [left.session for left in remove_expired_sessions(data)] == ["a"]
    assert not is_retention_due(data)
