"""Group commit: tasks and threads share commits, and what befalls one of them is its own affair."""

import asyncio
import gc
import os
import random
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.scale import scaled
from tests.store.conftest import wait_until
from tests.store.sqlite_files import FILE, change
from tidegate import KeptLog, Session
from tidegate.core.errors import BadInput, NotKept
from tidegate.core.events import Event, NoteAdded
from tidegate.store.errors import StaleHead
from tidegate.store.group_commit import MAX_QUEUED, MAX_WOKEN, Append, GroupCommit
from tidegate.store.memory import MemoryStore
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.tables import MIGRATIONS
from tidegate.store.store import AsyncAppendStore, Store

NAMES = [f"room {number}" for number in range(20)]


async def talk(log: KeptLog, count: int) -> None:
    for _ in range(count):
        assert await log.append_async(Event(log.head + 1, 0.0, NoteAdded("n", log.session_name)))


def all_at_once(*work: Coroutine[Any, Any, None]) -> None:
    async def act() -> None:
        await asyncio.gather(*work)

    asyncio.run(act())


class PausedCommit:
    """The step callback of a store whose next commit waits in its middle, once `armed` is set."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.armed, self.begun, self.go_on = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, name: str) -> None:
        self.steps.append(name)
        if name == "begun" and self.armed.is_set():
            self.armed.clear()
            self.begun.set()
            assert self.go_on.wait(600)


def test_tasks_that_wait_share_the_next_commit(tmp_path: Path) -> None:
    """All others want to append while the first one is committed."""
    pause = PausedCommit()
    store = SqliteStore(tmp_path, step=pause)
    pause.steps.clear()

    async def act() -> None:
        pause.armed.set()
        first = asyncio.create_task(talk(KeptLog(store, "first"), 1))
        assert await asyncio.to_thread(pause.begun.wait, 600)
        others = [asyncio.create_task(store.append_async(name, 0, [b"x"])) for name in NAMES]
        await asyncio.sleep(0)  # all of them are in the queue
        pause.go_on.set()
        assert await asyncio.gather(*others) == [1] * len(NAMES)
        await first

    asyncio.run(act())
    assert pause.steps.count("committed") == 2
    store.close()


def test_tasks_append_at_once_and_lose_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    all_at_once(*(talk(KeptLog(store, name), 10) for name in NAMES))
    for name in NAMES:
        assert [event.seq for event in KeptLog(store, name).read()] == list(range(1, 11))
    store.close()
    again = SqliteStore(tmp_path)
    assert {info.name: info.head for info in again.sessions()} == dict.fromkeys(NAMES, 10)
    again.close()


def at_once(*appends: Coroutine[Any, Any, int]) -> list[int | BaseException]:
    """What becomes of appends that go into one commit."""

    async def act() -> list[int | BaseException]:
        return await asyncio.gather(*appends, return_exceptions=True)

    return asyncio.run(act())


def test_one_that_is_late_hurts_nobody(tmp_path: Path) -> None:
    steps: list[str] = []
    store = SqliteStore(tmp_path, step=steps.append)
    store.append("s", 0, [b"1"])
    steps.clear()
    two, late, absent, third, unnamed, *others = at_once(
        store.append_async("s", 1, [b"2"]),
        store.append_async("s", 1, [b"late"]),
        store.append_async("t", 5, [b"x"]),
        store.append_async("s", 2, [b"3"]),
        store.append_async("a\0", 0, [b"x"]),
        *(store.append_async(name, 0, [b"x"]) for name in NAMES),
    )
    assert (two, third, others) == (2, 3, [1] * len(NAMES))
    assert isinstance(late, StaleHead)
    assert isinstance(absent, StaleHead)
    assert isinstance(unnamed, BadInput)
    assert steps.count("committed") == 1
    assert list(store.read("s")) == [b"1", b"2", b"3"]
    assert store.head("t") == 0
    store.close()


def test_the_one_that_is_too_large_does_not_make_the_others_fail(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, limit=40 * 4096)
    large = random.Random(1).randbytes(300_000)
    appends = [store.append_async(f"s{number}", 0, [b"small"]) for number in range(6)]
    done = at_once(*appends[:3], store.append_async("large", 0, [large]), *appends[3:])
    refusal = done.pop(3)
    assert isinstance(refusal, NotKept)
    assert "'large'" in str(refusal)
    assert done == [1] * 6
    assert sorted(info.name for info in store.sessions()) == [f"s{number}" for number in range(6)]
    assert store.append("s0", 1, [b"on"]) == 2
    store.close()


def test_a_damaged_session_does_not_make_the_others_fail(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.append("hurt", 0, [b"1"])
    change(tmp_path, "UPDATE sessions SET head = 'x', seal = 'y'", "UPDATE recent_rows SET data = x'00'")
    appends = [store.append_async("hurt", 1, [b"2"]), store.append_async("well", 0, [b"1"])]
    assert at_once(*appends) == [2, 1]
    assert list(store.read("hurt", 2)) == [b"2"], "its end was found by the row, though that cannot be read"
    store.close()


def test_when_another_process_has_the_file_all_are_told_at_once(tmp_path: Path) -> None:
    SqliteStore(tmp_path).close()
    connections: list[sqlite3.Connection] = []
    store = SqliteStore(tmp_path, timeout=0.05, migrations=(*MIGRATIONS, connections.append))
    said: list[str] = []
    connections[0].set_trace_callback(said.append)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done = at_once(*(store.append_async(f"s{number}", 0, [b"x"]) for number in range(60)))
    assert all(isinstance(each, NotKept) for each in done)
    assert sum(statement.startswith("BEGIN") for statement in said) == 1, "it is waited for once, not for each of sixty"
    other.execute("ROLLBACK")
    assert store.sessions() == []
    assert store.append("s0", 0, [b"x"]) == 1
    other.close()
    store.close()


def test_cancelled_before_its_commit_begins_it_is_not_written(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)

    async def act() -> None:
        task = asyncio.ensure_future(store.append_async("a", 0, [b"1"]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.append_async("b", 0, [b"x"]) == 1

    asyncio.run(act())
    assert store.head("a") == 0
    store.close()


def test_cancelled_while_it_is_written_the_session_finds_out(tmp_path: Path) -> None:
    """The commit waits at a step, and meanwhile the task that asked for it goes away."""
    pause = PausedCommit()
    store = SqliteStore(tmp_path, step=pause)
    session = Session("gpt-4o", log=KeptLog(store, "s"))
    session.add({"role": "user", "content": "one"})

    async def act() -> None:
        pause.armed.set()
        task = asyncio.ensure_future(session.add_async({"role": "assistant", "content": "two"}))
        assert await asyncio.to_thread(pause.begun.wait, 600)
        task.cancel()
        pause.go_on.set()  # the task waits until it knows what became of its append
        with pytest.raises(asyncio.CancelledError):
            await task
        await session.add_async({"role": "user", "content": "three"})

    asyncio.run(act())
    body = session.prepare().body
    assert [message["content"] for message in body["messages"]] == ["one", "two", "three"]
    assert [event.seq for event in session.log.read()] == list(range(1, session.log.head + 1))
    store.close()


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_tasks_of_one_session_and_plain_calls_between_them(kind: str, tmp_path: Path) -> None:
    """Nothing is folded twice, nothing is left out, whoever is told first."""
    store: Store = SqliteStore(tmp_path) if kind == "sqlite" else MemoryStore()
    assert isinstance(store, AsyncAppendStore) == (kind == "sqlite")
    session = Session("gpt-4o", log=KeptLog(store, "s"))

    async def say(who: int) -> None:
        for place in range(10):
            await session.add_async({"role": "user", "content": f"{who}.{place}"})
            if place % 3 == 0:
                session.history.add_note("between", str(who))

    all_at_once(*(say(who) for who in range(5)))
    said = [event.seq for event in session.log.read()]
    assert said == list(range(1, session.log.head + 1))
    assert session.view.message_count == 50
    fresh = Session("gpt-4o", log=KeptLog(store, "s"))
    assert fresh.prepare().to_bytes() == session.prepare().to_bytes()
    store.close()


def test_loops_and_threads_in_one_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)

    def speak(name: str) -> None:
        log = KeptLog(store, name)
        for _ in range(20):
            log.append(Event(log.head + 1, 0.0, NoteAdded("n", name)))

    def loop(number: int) -> None:
        all_at_once(*(talk(KeptLog(store, f"loop {number} {name}"), 10) for name in NAMES[:5]))

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(2)]
    threads += [threading.Thread(target=speak, args=(name,)) for name in NAMES[:3]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heads = {info.name: info.head for info in store.sessions()}
    assert heads == dict.fromkeys(NAMES[:3], 20) | {
        f"loop {number} {name}": 10 for number in range(2) for name in NAMES[:5]
    }
    for name, head in heads.items():
        assert [event.seq for event in KeptLog(store, name).read()] == list(range(1, head + 1))
    store.close()


def test_tasks_are_woken_in_portions(tmp_path: Path) -> None:
    """Between them the event loop does other work, however many appends were in the commit."""
    store = SqliteStore(tmp_path)
    rounds, woken = 0, list[int]()

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    async def append(name: str) -> None:
        await store.append_async(name, 0, [b"1"])
        woken.append(rounds)

    async def act() -> None:
        counting = asyncio.create_task(count_rounds())
        await asyncio.gather(*(append(f"s{number}") for number in range(300)))
        counting.cancel()

    asyncio.run(act())
    assert len(woken) == 300
    assert max(Counter(woken).values()) <= MAX_WOKEN
    store.close()


def test_a_head_is_read_while_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    go_on.set()

    def step(name: str) -> None:
        if name == "rows inserted" and not go_on.is_set():
            begun.set()
            assert go_on.wait(600)

    store = SqliteStore(tmp_path, step=step)
    heads: list[int] = []

    async def act() -> None:
        await store.append_async("other", 0, [b"1"])
        go_on.clear()
        written = asyncio.create_task(store.append_async("s", 0, [b"1", b"2"]))
        try:
            assert await asyncio.to_thread(begun.wait, 600)
            heads.append(await asyncio.wait_for(asyncio.to_thread(store.head, "other"), 120))
            heads.append(await asyncio.wait_for(asyncio.to_thread(store.head, "s"), 120))
        finally:
            go_on.set()
        heads.append(await written)
        heads.append(store.head("s"))
        store.close()

    asyncio.run(act())
    assert heads == [1, 0, 2, 2]


@pytest.mark.parametrize("is_read", [True, False])
def test_a_closed_store_has_no_head(is_read: bool, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)

    async def act() -> None:
        await store.append_async("s", 0, [b"1"])
        if is_read:
            assert store.head("s") == 1
        store.close()
        with pytest.raises(BadInput, match="closed"):
            store.head("s")

    asyncio.run(act())


def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.close()

    async def act() -> None:
        with pytest.raises(BadInput, match="closed"):
            await store.append_async("a", 0, [b"1"])

    asyncio.run(act())


# --- threads ----------------------------------------------------------------------------------------------------------


class Commits:
    """Group commit over a `write` that counts, and waits in its first commit until it may go on."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.commits = GroupCommit(self.lock, self.write)
        self.batches: list[list[str]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.fault: BaseException | None = None

    def write(self, batch: list[Append]) -> None:
        self.batches.append([append.session for append in batch])
        if len(self.batches) == 1:
            self.begun.set()
            assert self.go_on.wait(600)
            if self.fault is not None:
                raise self.fault
        for append in batch:
            append.outcome = len(self.batches)

    def append(self, name: str) -> int:
        return self.commits.commit(Append(name, 0, [b"x"], 0.0))

    def start_first(self, pool: ThreadPoolExecutor) -> "Future[int]":
        """Append in a thread; returns when that thread is in the middle of its commit."""
        done = pool.submit(self.append, "first")
        assert self.begun.wait(600)
        return done

    def start(self, pool: ThreadPoolExecutor, name: str) -> "Future[int]":
        """Append in a thread; returns when it is in the queue."""
        before = len(self.commits)
        done = pool.submit(self.append, name)
        assert wait_until(lambda: len(self.commits) > before)
        return done


def test_threads_that_wait_share_one_commit() -> None:
    commits = Commits()
    with ThreadPoolExecutor(20) as pool:
        first = commits.start_first(pool)
        others = [commits.start(pool, f"s{number}") for number in range(15)]
        commits.go_on.set()
        assert [each.result() for each in (first, *others)] == [1] + [2] * 15
    assert commits.batches == [["first"], [f"s{number}" for number in range(15)]]
    assert len(commits.commits) == 0
    commits.commits.close()


def test_a_thread_beside_an_event_loop_shares_the_commits_of_its_tasks() -> None:
    """Else each of its appends would be a commit of its own, for which all tasks wait."""
    commits = Commits()
    commits.go_on.set()

    async def act() -> None:
        await commits.commits.commit_async(Append("a", 0, [b"x"], 0.0))
        commits.lock.acquire()  # no commit can begin
        with ThreadPoolExecutor(1) as pool:
            plain = pool.submit(commits.append, "plain")
            assert await asyncio.to_thread(wait_until, lambda: len(commits.commits) == 1)
            task = asyncio.create_task(commits.commits.commit_async(Append("b", 0, [b"x"], 0.0)))
            await asyncio.sleep(0)
            commits.lock.release()
            assert [await task, await asyncio.wrap_future(plain)] == [2, 2]

    asyncio.run(act())
    assert commits.batches == [["a"], ["plain", "b"]]
    commits.commits.close()


def test_a_thread_that_is_alone_commits_by_itself() -> None:
    threads: list[int] = []

    def write(batch: list[Append]) -> None:
        threads.append(threading.get_ident())
        batch[0].outcome = 7

    commits = GroupCommit(threading.RLock(), write)
    assert commits.commit(Append("s", 0, [b"x"], 0.0)) == 7
    assert threads == [threading.get_ident()]
    commits.close()


def test_who_commits_is_interrupted_and_nobody_else_is_hurt() -> None:
    """What the interrupted one has not written is not written; the others are, once."""
    commits = Commits()
    commits.fault = KeyboardInterrupt()
    with ThreadPoolExecutor(5) as pool:
        first = commits.start_first(pool)
        others = [commits.start(pool, f"s{number}") for number in range(4)]
        commits.go_on.set()
        assert isinstance(first.exception(), KeyboardInterrupt)
        assert [each.result() for each in others] == [2] * 4
    assert commits.batches[1:] == [[f"s{number}" for number in range(4)]]
    commits.commits.close()


def test_a_fault_that_nobody_expects_is_told_to_all_who_wait() -> None:
    """As where there is no memory: those whom the worker writes for must not wait for ever."""

    def write(batch: list[Append]) -> None:
        if batch[0].session != "first":
            raise MemoryError
        begun.set()
        assert go_on.wait(600)
        batch[0].outcome = 1

    begun, go_on = threading.Event(), threading.Event()
    commits = GroupCommit(threading.RLock(), write)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(commits.commit, Append("first", 0, [b"x"], 0.0))
        assert begun.wait(600)
        others = [pool.submit(commits.commit, Append("s", 0, [b"x"], 0.0)) for _ in range(3)]
        assert wait_until(lambda: len(commits) == 3)
        go_on.set()
        assert first.result() == 1
        assert [type(each.exception()) for each in others] == [MemoryError] * 3
    commits.close()


class Interrupted(Exception):
    pass


def test_who_waits_is_interrupted_and_is_not_written() -> None:
    """Signals come to the main thread, where this runs."""
    commits = Commits()

    def interrupt(*_: object) -> None:
        raise Interrupted

    def signal_when_waiting() -> None:
        assert wait_until(lambda: len(commits.commits) == 1)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(3) as pool:
            first = commits.start_first(pool)
            signalling = pool.submit(signal_when_waiting)
            with pytest.raises(Interrupted):
                commits.append("mine")
            signalling.result()
            other = commits.start(pool, "other")
            commits.go_on.set()
            assert (first.result(), other.result()) == (1, 2)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert commits.batches == [["first"], ["other"]]
    commits.commits.close()


def test_the_queue_is_bounded() -> None:
    """Tasks beyond the limit wait for a place in it."""
    commits = Commits()
    many = 2 * MAX_QUEUED + 500

    async def act() -> None:
        append = commits.commits.commit_async
        with commits.lock:  # as if another thread were committing
            tasks = [asyncio.ensure_future(append(Append("s", 0, [b"x"], 0.0))) for _ in range(many)]
            while len(commits.commits) < MAX_QUEUED:
                await asyncio.sleep(0.001)
            for _ in range(5):  # the others have had their turn
                await asyncio.sleep(0)
            assert len(commits.commits) == MAX_QUEUED
        commits.go_on.set()
        await asyncio.gather(*tasks)

    asyncio.run(act())
    sizes = [len(batch) for batch in commits.batches]
    assert sum(sizes) == many
    assert max(sizes) <= MAX_QUEUED
    commits.commits.close()


@pytest.fixture
def swept() -> None:
    """Without what other tests left: a signal that comes while that is cleaned up would be lost there."""
    gc.collect()


def append_interrupted(store: Store, times: int) -> int:
    """Append to session `main` until it was interrupted so often, however long that takes. Return its head."""
    stop = threading.Event()
    armed: list[bool] = []  # a lock could be held by what the signal interrupts

    def interrupt(*_: object) -> None:
        if armed:
            armed.clear()  # the next one comes when this one was caught
            raise Interrupted

    def disturb() -> None:
        rng = random.Random(8)
        while not stop.wait(rng.uniform(0, 0.004)):
            os.kill(os.getpid(), signal.SIGUSR1)

    head = interrupted = 0
    signal.signal(signal.SIGUSR1, interrupt)
    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        while interrupted < times:
            try:
                armed.append(True)
                head = store.append("main", head, [b"%d" % (head + 1)])
                armed.clear()
            except Interrupted:
                interrupted += 1
                there = store.head("main")  # who was interrupted does not know
                assert there in (head, head + 1)
                head = there
    finally:
        stop.set()
        disturbing.join()
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # one may still be on its way
    return head


@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize("others", [0, 3], ids=["alone", "beside others"])
def test_interrupted_again_and_again(others: int, tmp_path: Path) -> None:
    """Wherever the signal hits the main thread: as one who waits, as one who commits by itself or for others, while it
    cleans up."""
    store = SqliteStore(tmp_path)
    stop = threading.Event()

    def write(session: str) -> int:
        head = 0
        while not stop.is_set():
            head = store.append(session, head, [b"%d" % (head + 1)])
        return head

    with ThreadPoolExecutor(1 + others) as pool:
        writing = {f"s{number}": pool.submit(write, f"s{number}") for number in range(others)}
        try:
            heads = {"main": append_interrupted(store, scaled(60))}
        finally:
            stop.set()
        heads |= {session: each.result() for session, each in writing.items()}
    for session, head in heads.items():
        assert (list(store.read(session)) if head else []) == [b"%d" % number for number in range(1, head + 1)]
    store.close()


def test_an_append_within_an_append_is_refused_not_waited_for(tmp_path: Path) -> None:
    """As by the handler of a signal that comes in the middle of one."""
    refused: list[NotKept] = []

    def step(name: str) -> None:
        if name == "rows inserted":
            with pytest.raises(NotKept, match="in the middle of another") as refusal:
                store.append("inner", 0, [b"x"])
            refused.append(refusal.value)

    store = SqliteStore(tmp_path, step=step)
    assert store.append("outer", 0, [b"x"]) == 1
    assert len(refused) == 1
    assert [info.name for info in store.sessions()] == ["outer"]
    store.close()


@pytest.mark.parametrize("act", ["fork", "delete", "rewrite"])
def test_an_append_within_another_change_is_refused(act: str, tmp_path: Path) -> None:
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
    acts.get(act, lambda: store.rewrite("s", {1: b"new"}))()
    assert len(refused) == 1
    assert store.append("t", 1, [b"y"]) == 2
    assert store.head("s") == (0 if act == "delete" else 2)
    assert store.head("f") == (1 if act == "fork" else 0)
    store.close()


def test_many_threads_on_many_sessions_lose_nothing(tmp_path: Path) -> None:
    """Two stores on one file: what each has cached of its sessions must not outlive what the other does to them."""
    stores = [SqliteStore(tmp_path), SqliteStore(tmp_path)]

    def write(number: int) -> None:
        head = 0
        while head < 70:
            store = stores[(number + head // 3) % 2]
            head = store.append(f"s{number}", head, [b"%d/%d" % (number, head + 1)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    for number in range(8):
        assert list(stores[0].read(f"s{number}")) == [b"%d/%d" % (number, place) for place in range(1, 71)]
    for store in stores:
        store.close()
