"""Async forms: nothing that waits for a store runs in the event loop, and a cancelled call leaves the session whole."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tidegate import DataFolder, KeptLog, Session, SummaryRequest
from tidegate.core.errors import NotKept
from tidegate.core.events import Event, MessageAdded, NoteAdded, UsageReported
from tidegate.store.log import MemoryLog
from tidegate.store.memory import MemoryStore

HELLO = {"role": "user", "content": "Hello."}


class WatchedStore(MemoryStore):
    """A store that notes the thread of every call, and holds appends back while `gate` is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        self.threads.add(threading.get_ident())
        self.waiting.set()
        assert self.gate.wait(120)
        return super().append(session, after, records)

    def head(self, session: str) -> int:
        self.threads.add(threading.get_ident())
        return super().head(session)

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        self.threads.add(threading.get_ident())
        return super().read(session, start)


def opened(tmp_path: Path) -> tuple[DataFolder, WatchedStore]:
    store = WatchedStore()
    return DataFolder(tmp_path, store=store), store


def texts(session: Session) -> list[str]:
    return [str(event.payload.message.parts) for event in session.log.read() if isinstance(event.payload, MessageAdded)]


def test_the_event_loop_never_waits_for_the_store(tmp_path: Path) -> None:
    async def summarize(request: SummaryRequest) -> str:
        return "Summary: it was long."

    async def use() -> None:
        data, store = opened(tmp_path)
        async with await data.open_async("s", "gpt-4o", window=4_000, count="chars/4", policy="jutul") as session:
            for _ in range(12):
                await session.add_async(HELLO, {"role": "assistant", "content": "x" * 1_500})
            await session.add_async({**HELLO, "content": "y" * 400_000}, HELLO)
            decisions = await session.fit_async(summarize)
            assert any(decision.acted for decision in decisions)
            await session.prepare_async(summarize)
            await session.record_async({"prompt_tokens": 900, "completion_tokens": 9})
            await session.overflowed_async(summarize)
            await session.compact_async(summarize)
            await session.run_rules_async("turn_end", summarize)
            await session.call_async(session.history.undo)
            await session.call_async(session.set_system, "Be brief.")
        assert threading.get_ident() not in store.threads
        assert store.threads

    asyncio.run(use())


def test_a_cancelled_add_is_stored_once_or_not_at_all(tmp_path: Path) -> None:
    async def use() -> None:
        data, store = opened(tmp_path)
        session = await data.open_async("s", "gpt-4o")
        store.gate.clear()
        store.waiting.clear()
        adding = asyncio.create_task(session.add_async({**HELLO, "content": "first"}, {**HELLO, "content": "second"}))
        assert await asyncio.to_thread(store.waiting.wait, 120)
        adding.cancel()
        await asyncio.sleep(0)
        assert not adding.done(), "what has begun is finished first"
        never = asyncio.create_task(session.add_async({**HELLO, "content": "never"}))
        await asyncio.sleep(0)
        never.cancel()
        store.gate.set()
        for task in (adding, never):
            with pytest.raises(asyncio.CancelledError):
                await task
        await session.add_async({**HELLO, "content": "third"})
        await session.prepare_async()
        found = " ".join(texts(session))
        assert [found.count(word) for word in ("first", "second", "never", "third")] == [1, 1, 0, 1]
        assert [item.message for item in session.view.items] == [
            event.payload.message for event in session.log.read() if isinstance(event.payload, MessageAdded)
        ]
        session.close()
        data.close()

    asyncio.run(use())


def test_a_cancelled_record_is_made_once(tmp_path: Path) -> None:
    async def use() -> None:
        data, store = opened(tmp_path)
        session = await data.open_async("s", "gpt-4o")
        await session.add_async(HELLO)
        await session.prepare_async()
        store.gate.clear()
        store.waiting.clear()
        recording = asyncio.create_task(session.record_async({"prompt_tokens": 9, "completion_tokens": 1}))
        assert await asyncio.to_thread(store.waiting.wait, 120)
        recording.cancel()
        store.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await recording
        assert sum(isinstance(event.payload, UsageReported) for event in session.log.read()) == 1
        session.close()
        data.close()

    asyncio.run(use())


def test_a_session_whose_opening_is_cancelled_is_closed(tmp_path: Path) -> None:
    async def use() -> None:
        data, store = opened(tmp_path)
        store.gate.clear()
        store.waiting.clear()
        opening = asyncio.create_task(data.open_async("s", "gpt-4o"))
        assert await asyncio.to_thread(store.waiting.wait, 120)
        opening.cancel()
        await asyncio.sleep(0)
        assert data.locks.is_in_use("s")
        store.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not data.locks.is_in_use("s")
        data.close()

    asyncio.run(use())


def test_calls_of_several_tasks_wait_for_each_other(tmp_path: Path) -> None:
    async def use() -> None:
        data = DataFolder(tmp_path)
        async with await data.open_async("s", "gpt-4o", window=4_000, count="chars/4") as session:

            async def work(number: int) -> None:
                await session.add_async({**HELLO, "content": f"<{number}>" + "x" * 500})
                await session.prepare_async()

            await asyncio.gather(*(work(number) for number in range(12)))
            found = " ".join(texts(session))
            assert all(found.count(f"<{number}>") == 1 for number in range(12))
            seqs = [event.seq for event in session.log.read()]
            assert seqs == list(range(1, len(seqs) + 1))
            fresh = (await session.prepare_async()).to_bytes()
        async with await data.open_async("s", "gpt-4o", window=4_000, count="chars/4") as session:
            assert (await session.prepare_async()).to_bytes() == fresh
        data.close()

    asyncio.run(use())


def test_a_session_can_be_used_in_one_loop_after_another() -> None:
    session = Session("gpt-4o")

    async def work() -> None:
        await asyncio.gather(*(session.add_async(HELLO) for _ in range(5)))

    asyncio.run(work())
    asyncio.run(work())
    assert session.view.message_count == 10


def test_a_failed_summary_is_noted_and_replaced() -> None:
    async def fail(request: SummaryRequest) -> str:
        raise OSError("no network")

    async def use() -> None:
        async with Session("gpt-4o", window=4_000, count="chars/4", policy="jutul") as session:
            for _ in range(12):
                await session.add_async(HELLO, {"role": "assistant", "content": "x" * 1_500})
            await session.add_async(HELLO)
            request = await session.prepare_async(fail)
            assert request.tokens <= 4_000
            topics = [getattr(event.payload, "topic", "") for event in session.log.read()]
            assert "summary_failed" in topics

    asyncio.run(use())


class MeetingStore(MemoryStore):
    """A store whose appends of notes wait until as many tasks as `expected` wait for one."""

    def __init__(self, expected: int) -> None:
        super().__init__()
        self.expected = expected
        self.is_open = True
        self.everybody = asyncio.Event()

    async def append_async(self, session: str, after: int, records: Sequence[bytes]) -> int:
        if not self.is_open:
            self.expected -= 1
            if not self.expected:
                self.everybody.set()
            await asyncio.wait_for(self.everybody.wait(), 120)
        return self.append(session, after, records)


def test_a_prepare_that_waits_for_the_store_occupies_no_thread() -> None:
    """More sessions than threads wait for one commit. If a thread waited for each, that commit would never begin."""

    async def act() -> None:
        store = MeetingStore(100)
        sessions = [Session("gpt-4o", log=KeptLog(store, f"s{number}")) for number in range(100)]
        for session in sessions:
            await session.add_async(HELLO)
        store.is_open = False
        requests = await asyncio.gather(*(session.prepare_async() for session in sessions))
        assert {request.to_bytes() for request in requests} == {sessions[0].render_request().to_bytes()}
        assert not store.expected

    asyncio.run(act())


def test_an_append_of_a_prepare_that_fails_is_raised_and_the_next_one_works() -> None:
    class RefusingStore(MemoryStore):
        refusals = 0

        async def append_async(self, session: str, after: int, records: Sequence[bytes]) -> int:
            if self.refusals:
                self.refusals -= 1
                raise NotKept("The disk is full.", "Make room.")
            return self.append(session, after, records)

    async def act() -> None:
        store = RefusingStore()
        session = Session("gpt-4o", log=KeptLog(store, "s"))
        await session.add_async(HELLO)
        store.refusals = 1
        with pytest.raises(NotKept, match="full"):
            await session.prepare_async()
        assert (await session.prepare_async()).to_bytes() == Session(
            "gpt-4o", log=KeptLog(store, "s")
        ).prepare().to_bytes()

    asyncio.run(act())


class AwaitedLog(MemoryLog):
    """A log that counts the appends for which a thread waits, as opposed to a task."""

    def __init__(self) -> None:
        super().__init__()
        self.blocking = 0

    def append(self, *events: Event) -> None:
        self.blocking += 1
        super().append(*events)

    async def append_async(self, *events: Event) -> bool:
        super().append(*events)
        return True


def test_no_thread_waits_for_an_append_of_a_plan() -> None:
    async def summarize(request: SummaryRequest) -> str:
        return "Summary: it was long."

    async def use() -> None:
        log = AwaitedLog()
        async with Session("gpt-4o", window=4_000, count="chars/4", policy="jutul", log=log) as session:
            for _ in range(12):
                await session.add_async(HELLO, {"role": "assistant", "content": "x" * 1_500})
            opened = log.blocking
            await session.prepare_async(summarize)
            await session.overflowed_async(summarize)
            assert log.blocking == opened
        topics = [event.payload.topic for event in log.read() if isinstance(event.payload, NoteAdded)]
        assert {"compaction_start", "compaction_end", "overflow", "turn"} <= set(topics)

    asyncio.run(use())
