"""Group commit in the SQLite store: many threads, one transaction, and nobody hurt by what another does."""

import gc
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tests.store.conftest import wait_until
from tests.store.sqlite_files import FILE
from tidegate.core.errors import NotKept
from tidegate.store.errors import Stale
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite_line import Fate, Line, Pending

Work = Callable[[], int]


class Crowd:
    """A store whose first transaction stays open until all others wait in line, so that they must go together."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.steps: list[str] = []
        self.expected = 0
        self.raise_at: dict[str, BaseException] = {}
        self.after_first: Callable[[], object] = list
        self.store = SqliteStore(folder, step=self._step, **options)  # type: ignore[arg-type]
        self.steps.clear()

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name in self.raise_at and self.steps.count("begun") > 1:
            raise self.raise_at.pop(name)
        if name == "committed" and self.steps.count(name) == 1:
            self.after_first()
        if name == "begun" and self.steps.count(name) == 1:
            assert wait_until(lambda: len(self.store._line._waiting) == self.expected)

    def together(self, works: list[Work]) -> list["Future[int]"]:
        """Each on its own thread, behind a first append that waits for them all. In the order given."""
        self.expected = len(works)
        with ThreadPoolExecutor(len(works) + 1) as pool:
            first = pool.submit(self.store.append, "first", 0, [b"x"])
            assert wait_until(lambda: "begun" in self.steps)
            done: list[Future[int]] = []
            for count, work in enumerate(works, 1):
                done.append(pool.submit(work))
                assert wait_until(lambda count=count: len(self.store._line._waiting) >= count)  # type: ignore[misc]
        assert first.result() == 1
        return done

    def appending(self, session: str, after: int, *records: bytes) -> Work:
        return lambda: self.store.append(session, after, records)


def test_all_who_wait_share_one_commit(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    done = crowd.together([crowd.appending(f"s{number}", 0, b"a", b"b") for number in range(20)])
    assert [each.result() for each in done] == [2] * 20
    assert crowd.steps.count("committed") == 2, "one for the first, one for all others"
    for number in range(20):
        assert list(crowd.store.read(f"s{number}")) == [b"a", b"b"]
    crowd.store.close()


def test_the_stale_one_is_told_and_the_others_are_kept(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    crowd.store.append("s", 0, [b"1"])
    crowd.steps.clear()
    works = [crowd.appending("s", 1, b"2"), crowd.appending("s", 1, b"late"), crowd.appending("t", 5, b"x")]
    two, late, absent, third = crowd.together([*works, crowd.appending("s", 2, b"3")])
    assert (two.result(), third.result()) == (2, 3)
    assert isinstance(late.exception(), Stale)
    assert isinstance(absent.exception(), Stale)
    assert crowd.steps.count("committed") == 2
    assert list(crowd.store.read("s")) == [b"1", b"2", b"3"]
    assert crowd.store.head("t") == 0
    crowd.store.close()


def test_the_one_that_is_too_large_does_not_make_the_others_fail(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, limit=40 * 4096)
    large = random.Random(1).randbytes(300_000)
    works = [crowd.appending(f"s{number}", 0, b"small") for number in range(6)]
    works[3] = crowd.appending("large", 0, large)
    done = crowd.together(works)
    refusal = done.pop(3).exception()
    assert isinstance(refusal, NotKept)
    assert "'large'" in str(refusal)
    assert [each.result() for each in done] == [1] * 5
    assert sorted(info.name for info in crowd.store.sessions()) == ["first", "s0", "s1", "s2", "s4", "s5"]
    assert crowd.store.append("s0", 1, [b"on"]) == 2
    crowd.store.close()


def test_a_damaged_session_does_not_make_the_others_fail(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    crowd.store.append("hurt", 0, [b"1"])
    crowd.steps.clear()
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("UPDATE sessions SET head = 'x', seal = 'y'")
    db.execute("UPDATE placed SET data = x'00'")
    db.commit()
    db.close()
    hurt, well = crowd.together([crowd.appending("hurt", 1, b"2"), crowd.appending("well", 0, b"1")])
    assert (hurt.result(), well.result()) == (2, 1)
    assert list(crowd.store.read("hurt", 2)) == [b"2"], "its end was found by the row, though that cannot be read"
    crowd.store.close()


def test_when_another_process_has_the_file_all_are_told_at_once(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, timeout=0.5)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None, check_same_thread=False)
    crowd.after_first = lambda: other.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    done = crowd.together([crowd.appending(f"s{number}", 0, b"x") for number in range(60)])
    assert all(isinstance(each.exception(), NotKept) for each in done)
    assert time.monotonic() - begun < 20, "half a second for all, not for each of sixty"
    other.execute("ROLLBACK")
    assert [info.name for info in crowd.store.sessions()] == ["first"]
    assert crowd.store.append("s0", 0, [b"x"]) == 1
    other.close()
    crowd.store.close()


@pytest.mark.parametrize("where", ["begun", "rows inserted", "session updated", "committed"])
def test_who_leads_is_interrupted_and_nobody_else_is_hurt(where: str, tmp_path: Path) -> None:
    """The others are written once, whether or not the transaction was through."""
    crowd = Crowd(tmp_path)
    crowd.raise_at[where] = KeyboardInterrupt()
    done = crowd.together([crowd.appending(f"s{number}", 0, b"x") for number in range(5)])
    assert isinstance(done[0].exception(), KeyboardInterrupt)
    assert [each.result() for each in done[1:]] == [1] * 4
    assert crowd.store.head("s0") == (1 if where == "committed" else 0)
    for number in range(1, 5):
        assert list(crowd.store.read(f"s{number}")) == [b"x"]
    assert crowd.store.append("s1", 1, [b"on"]) == 2
    crowd.store.close()


def test_those_who_shared_a_commit_are_waited_for(tmp_path: Path) -> None:
    """Else the first to come again goes alone, and the others wait for it: two commits for each round."""
    batches: list[int] = []

    def commit(batch: Sequence[Pending]) -> None:
        assert len(batches) or wait_until(lambda: len(line._waiting) == 3)
        if len(batches) == 1:
            time.sleep(0.8)  # so long that half of it is patience enough
        batches.append(len(batch))
        fate = Fate([1] * len(batch), known=True)
        for place, each in enumerate(batch):
            each.share(fate, place)

    def twice() -> None:
        for _ in range(2):
            line.through(Pending("s", 0, [b"x"], 1.0))

    line = Line(commit, most_patience=60)
    alone = Pending("s", 0, [b"x"], 1.0)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(line.through, alone)
        assert wait_until(lambda: line.leader is alone)
        for _ in range(3):
            pool.submit(twice)
        first.result()
    assert batches[:2] == [1, 3]
    assert batches[2:] == [3], "all three came again, and none of them went before the others"


class Interrupted(Exception):
    pass


def test_who_waits_is_interrupted_and_leaves_the_line(tmp_path: Path) -> None:
    """Signals come to the main thread, where this runs."""
    crowd = Crowd(tmp_path)
    crowd.expected = 2

    def interrupt(*_: object) -> None:
        raise Interrupted

    def signal_when_waiting() -> None:
        assert wait_until(lambda: len(crowd.store._line._waiting) == 1)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(crowd.store.append, "first", 0, [b"x"])
            assert wait_until(lambda: "begun" in crowd.steps)
            signalling = pool.submit(signal_when_waiting)
            with pytest.raises(Interrupted):
                crowd.store.append("mine", 0, [b"x"])
            signalling.result()
            crowd.expected = 1
            other = pool.submit(crowd.store.append, "other", 0, [b"x"])
            assert (first.result(), other.result()) == (1, 1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert sorted(info.name for info in crowd.store.sessions()) == ["first", "other"]
    assert crowd.store.append("mine", 0, [b"x"]) == 1
    crowd.store.close()


def test_who_is_gone_before_the_others_have_their_turn_is_left_out(tmp_path: Path) -> None:
    """It was taken along, was interrupted, and has looked where its log ends: that must stay true."""
    store = SqliteStore(tmp_path)
    mine, other = (Pending(session, 0, [b"x"], 1.0) for session in ("mine", "other"))
    mine.gone = True
    store._commit([mine, other])
    assert (mine.outcome, other.outcome) == (None, 1)
    assert [info.name for info in store.sessions()] == ["other"]
    store.close()


@pytest.fixture
def swept() -> None:
    """Without what other tests left: a signal that comes while that is cleaned up would be lost there."""
    gc.collect()


@pytest.mark.usefixtures("swept")
def test_interrupted_again_and_again(tmp_path: Path) -> None:
    """Wherever the signal hits the main thread: as one who waits, as one who leads others, while it cleans up."""
    store = SqliteStore(tmp_path)
    stop = Event()
    armed: list[bool] = []

    def interrupt(*_: object) -> None:
        if armed:
            raise Interrupted

    def write(session: str) -> int:
        head = 0
        while not stop.is_set():
            head = store.append(session, head, [b"%d" % (head + 1)])
        return head

    def disturb() -> None:
        rng = random.Random(8)
        for _ in range(600):
            os.kill(os.getpid(), signal.SIGUSR1)
            stop.wait(rng.uniform(0, 0.004))
        stop.set()

    signal.signal(signal.SIGUSR1, interrupt)
    interrupted = head = 0
    try:
        with ThreadPoolExecutor(4) as pool:
            writing = [pool.submit(write, f"s{number}") for number in range(3)]
            disturbing = pool.submit(disturb)
            while not stop.is_set():
                try:
                    armed.append(True)
                    head = store.append("main", head, [b"%d" % (head + 1)])
                    armed.clear()
                except Interrupted:
                    armed.clear()
                    interrupted += 1
                    head = store.head("main")  # who was interrupted does not know
            disturbing.result()
            heads = [each.result() for each in writing]
    finally:
        armed.clear()
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # one may still be on its way
    assert interrupted > 50, "or this test would show nothing"
    for session, end in zip(("s0", "s1", "s2", "main"), (*heads, head), strict=True):
        assert list(store.read(session)) == [b"%d" % number for number in range(1, end + 1)]
    store.close()


def test_an_append_within_an_append_is_refused_not_waited_for(tmp_path: Path) -> None:
    """As by the handler of a signal that comes in the middle of one."""
    refused: list[NotKept] = []

    def step(name: str) -> None:
        if name == "rows inserted":
            with pytest.raises(NotKept, match="in the middle of another append") as refusal:
                store.append("inner", 0, [b"x"])
            refused.append(refusal.value)

    store = SqliteStore(tmp_path, step=step)
    assert store.append("outer", 0, [b"x"]) == 1
    assert len(refused) == 1
    assert [info.name for info in store.sessions()] == ["outer"]
    store.close()


@pytest.mark.parametrize("change", ["fork", "delete", "rewrite"])
def test_an_append_within_another_change_is_refused(change: str, tmp_path: Path) -> None:
    refused: list[NotKept] = []

    def step(name: str) -> None:
        if name in ("rows copied", "rows deleted", "row rewritten"):
            assert list(store.read("t")) == [b"x"], "reading is well"
            with pytest.raises(NotKept, match="in the middle of another change") as refusal:
                store.append("t", 1, [b"y"])
            refused.append(refusal.value)

    store = SqliteStore(tmp_path, step=step)
    store.append("s", 0, [b"1", b"2"])
    store.append("t", 0, [b"x"])
    acts = {"fork": lambda: store.fork("s", 1, "f"), "delete": lambda: store.delete("s")}
    acts.get(change, lambda: store.rewrite("s", {1: b"new"}))()
    assert len(refused) == 1
    assert store.append("t", 1, [b"y"]) == 2
    assert store.head("s") == (0 if change == "delete" else 2)
    assert store.head("f") == (1 if change == "fork" else 0)
    store.close()


def test_many_threads_on_many_sessions_lose_nothing(tmp_path: Path) -> None:
    """Two stores on one file: what each remembers of its sessions must not outlive what the other does to them."""
    stores = [SqliteStore(tmp_path), SqliteStore(tmp_path)]

    def write(number: int) -> None:
        head = 0
        while head < 70:
            store = stores[(number + head // 3) % 2]
            head = store.append(f"s{number}", head, [b"%d/%d" % (number, head + 1)])

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(16)))
    for number in range(16):
        assert list(stores[0].read(f"s{number}")) == [b"%d/%d" % (number, place) for place in range(1, 71)]
    for store in stores:
        store.close()


def test_who_comes_while_one_writes_alone_goes_with_the_others(tmp_path: Path) -> None:
    """An append that is alone does not go through the line; those who come meanwhile wait in it, and go together."""
    steps: list[str] = []
    writing: list[str] = []

    def traced(statement: str) -> None:
        if not writing:
            writing.append(statement)
            assert wait_until(lambda: len(store._line._waiting) + len(store._line._taken) == 8)

    store = SqliteStore(tmp_path, step=steps.append)
    for number in range(9):
        store.append(f"s{number}", 0, [b"x"])
    steps.clear()
    store._db.set_trace_callback(traced)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(store.append, "s0", 1, [b"y"])
        assert wait_until(lambda: bool(writing))
        others = [pool.submit(store.append, f"s{number}", 1, [b"y"]) for number in range(1, 9)]
        assert [each.result() for each in (first, *others)] == [2] * 9
    assert writing[0].startswith("INSERT")
    assert steps.count("committed") <= 3
    store.close()
