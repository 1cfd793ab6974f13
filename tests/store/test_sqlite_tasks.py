"""Group commit for the tasks of an event loop: they share commits, and what befalls one of them is its own affair."""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tidegate import KeptLog, Session
from tidegate.core.errors import BadInput
from tidegate.core.events import Event, Noted
from tidegate.store.errors import Stale
from tidegate.store.memory import MemoryStore
from tidegate.store.sqlite import SqliteStore
from tidegate.store.store import SharesCommits, Store

NAMES = [f"room {number}" for number in range(20)]


async def talk(log: KeptLog, count: int) -> None:
    for _ in range(count):
        assert await log.append_async(Event(log.head + 1, 0.0, Noted("n", log.session)))


def all_at_once(*work: Coroutine[Any, Any, None]) -> None:
    async def act() -> None:
        await asyncio.gather(*work)

    asyncio.run(act())


def test_tasks_share_commits(tmp_path: Path) -> None:
    steps: list[str] = []
    store = SqliteStore(tmp_path, step=steps.append)
    steps.clear()
    all_at_once(*(talk(KeptLog(store, name), 30) for name in NAMES))
    assert steps.count("committed") <= 60, "600 appends, and one commit for all that wait"
    for name in NAMES:
        assert [event.seq for event in KeptLog(store, name).read()] == list(range(1, 31))
    store.close()
    again = SqliteStore(tmp_path)
    assert {info.name: info.head for info in again.sessions()} == dict.fromkeys(NAMES, 30)
    again.close()


def test_one_that_is_late_hurts_nobody(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)

    async def act() -> list[int | BaseException]:
        appends = [store.append_async("a", 0, [b"1"]), store.append_async("a", 0, [b"2"])]
        appends += [store.append_async(name, 0, [b"x"]) for name in NAMES]
        return await asyncio.gather(*appends, store.append_async("a\0", 0, [b"x"]), return_exceptions=True)

    first, second, *others, unnamed = asyncio.run(act())
    assert (first, others) == (1, [1] * len(NAMES))
    assert isinstance(second, Stale)
    assert isinstance(unnamed, BadInput)
    assert list(store.read("a")) == [b"1"]
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
    writing, go_on = threading.Event(), threading.Event()

    def step(name: str) -> None:
        if name == "begun" and armed:
            armed.clear()
            writing.set()
            go_on.wait(10)

    armed: list[bool] = []
    store = SqliteStore(tmp_path, step=step)
    session = Session("gpt-4o", log=KeptLog(store, "s"))
    session.add({"role": "user", "content": "one"})

    async def act() -> None:
        armed.append(True)
        task = asyncio.ensure_future(session.add_async({"role": "assistant", "content": "two"}))
        await asyncio.to_thread(writing.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
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
    assert isinstance(store, SharesCommits) == (kind == "sqlite")
    session = Session("gpt-4o", log=KeptLog(store, "s"))

    async def say(who: int) -> None:
        for place in range(10):
            await session.add_async({"role": "user", "content": f"{who}.{place}"})
            if place % 3 == 0:
                session.note("between", str(who))

    all_at_once(*(say(who) for who in range(5)))
    said = [event.seq for event in session.log.read()]
    assert said == list(range(1, session.log.head + 1))
    assert session.view.messages == 50
    fresh = Session("gpt-4o", log=KeptLog(store, "s"))
    assert fresh.prepare().to_bytes() == session.prepare().to_bytes()
    store.close()


def test_loops_and_threads_in_one_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)

    def speak(name: str) -> None:
        log = KeptLog(store, name)
        for _ in range(40):
            log.append(Event(log.head + 1, 0.0, Noted("n", name)))

    def loop(number: int) -> None:
        all_at_once(*(talk(KeptLog(store, f"loop {number} {name}"), 10) for name in NAMES[:5]))

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(2)]
    threads += [threading.Thread(target=speak, args=(name,)) for name in NAMES[:3]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heads = {info.name: info.head for info in store.sessions()}
    assert heads == dict.fromkeys(NAMES[:3], 40) | {
        f"loop {number} {name}": 10 for number in range(2) for name in NAMES[:5]
    }
    for name, head in heads.items():
        assert [event.seq for event in KeptLog(store, name).read()] == list(range(1, head + 1))
    store.close()


def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.close()

    async def act() -> None:
        with pytest.raises(BadInput, match="closed"):
            await store.append_async("a", 0, [b"1"])

    asyncio.run(act())
