"""A store that is locked, silent or deleted: the gateway goes on without it, says so, and notices when it is back."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake.server import Fake
from tests.gateway.scripted_client import ScriptedClient, recall_call, step_answer
from tests.gateway.serving import DEADLINE, Running, open_http, read_metric, run_gateway, upstream_of
from tidegate.core.messages import Call
from tidegate.store.memory import MemoryStore
from tidegate.store.store import SessionInfo
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

REFUSING: dict[str, Any] = {"on_store_failure": "refuse", "store_check_timeout": 0.01}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the write lock of the database, as a stuck process would."""
    link = sqlite3.connect(folder / "tidegate.db", isolation_level=None)
    link.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        link.rollback()
        link.close()


@asynccontextmanager
async def conversation(
    folder: Path, **settings: Any
) -> AsyncIterator[tuple[Running, ScriptedClient, httpx.AsyncClient]]:
    """A gateway, a client that has talked once with one before it, and something to ask with beside it.

    The one before it has the usual timeouts, so that a busy machine is not taken for a silent store.
    """
    async with Fake("anthropic", map(step_answer, range(99))) as fake, open_http() as web:
        async with run_gateway(folder, upstream_of(fake), store_timeout=DEADLINE) as first:
            client = ScriptedClient("anthropic", first.url, web, {"x-tidegate-session": "s"})
            client.say("start")
            await client.turn("a result")
        async with run_gateway(folder, upstream_of(fake), **settings) as running:
            client.url = running.url
            yield running, client, web


def test_while_the_database_is_locked_requests_go_on_unmanaged(tmp_path: Path) -> None:
    async def run() -> None:
        async with conversation(tmp_path, store_timeout=0.2, store_check_timeout=0.01) as (running, client, web):
            with locked(tmp_path):
                await client.turn("while it is locked")
                timeouts = await read_metric(running, web, "store_timeouts_total")
                await client.turn("again")
                assert await read_metric(running, web, "store_timeouts_total") == timeouts > 0, "it did not wait again"
                assert (await web.get(running.url + "/healthz")).status_code == 200
                ready = await web.get(running.url + "/readyz")
                assert ready.status_code == 503
                assert "not ready" in ready.text
                assert await read_metric(running, web, "store_silent") == 1

    asyncio.run(run())


def test_the_first_request_after_the_lock_is_managed_again_and_nothing_is_missing(tmp_path: Path) -> None:
    async def run(folder: Path, seconds: float) -> int:
        settings = {"store_timeout": seconds, "store_check_timeout": DEADLINE}
        async with conversation(folder, **settings) as (running, client, web):
            with locked(folder):
                await client.turn("while it is locked")
            await client.turn("and after it")
            outages = await read_metric(running, web, "store_outages_total")
            if outages == 1:
                texts = str([event.payload for event in running.data.open_log("s").read()])
                assert "while it is locked" in texts
                assert (await web.get(running.url + "/readyz")).text == "ready\n"
                assert await read_metric(running, web, "store_silent") == 0
            return outages

    for seconds in (0.5, 5, 50):  # to a busy machine, a store that is not locked may be too slow, too
        if asyncio.run(run(tmp_path / str(seconds), seconds)) == 1:
            return
    raise AssertionError("there was always more than one outage")


def test_requests_that_use_no_store_do_not_wait_for_it(tmp_path: Path) -> None:
    """A request that waits for the lock does not keep the event loop from others."""

    async def run() -> None:
        async with conversation(tmp_path, store_timeout=120.0) as (running, client, web):
            with locked(tmp_path):
                waiting = asyncio.ensure_future(client.turn("it waits"))
                other = ScriptedClient("anthropic", running.url, web, {"x-tidegate-session": "other"})
                other.say("another session that must be opened")
                opening = asyncio.ensure_future(other.turn("x"))
                while running.gateway.metrics.running_requests < 2:
                    await asyncio.sleep(0.01)
                for _ in range(20):
                    assert (await web.get(running.url + "/healthz")).status_code == 200
                assert not waiting.done()
                assert not opening.done()
            await waiting
            await opening

    asyncio.run(run())


def test_with_refuse_it_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with conversation(tmp_path, **REFUSING, store_timeout=0.2) as (_, client, _):
            with locked(tmp_path):
                for _ in range(2):
                    answer = await client.ask()
                    assert answer.status_code == 503
                    assert "cannot log" in answer.text

    asyncio.run(run())


@pytest.mark.parametrize("replaced", [False, True])
def test_a_data_folder_that_is_deleted_underneath_is_noticed(replaced: bool, tmp_path: Path) -> None:
    """Writing on into a deleted file would look fine, and everything would be lost."""

    async def run() -> None:
        folder = tmp_path / "data"
        async with conversation(folder, **REFUSING) as (running, client, web):
            await client.turn("a result")
            shutil.rmtree(folder)
            if replaced:
                folder.mkdir()
                (folder / "tidegate.db").touch()
            answer = await client.ask()
            assert answer.status_code == 503
            assert (await web.get(running.url + "/readyz")).status_code == 503
            assert "not logged" in "".join(running.lines)

    asyncio.run(run())


class WatchedStore(MemoryStore):
    """A store that notes which of its methods were called on an event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.on_loop: list[str] = []

    def _note(self, method: str) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self.on_loop.append(method)

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        self._note("append")
        return super().append(session, after, records)

    def read(self, session: str, start: int = 1) -> Iterator[bytes]:
        self._note("read")
        return super().read(session, start)

    def head(self, session: str) -> int:
        self._note("head")
        return super().head(session)

    def close(self) -> None:
        """The next gateway has the same store."""


def test_sessions_are_closed_outside_the_event_loop(tmp_path: Path) -> None:
    """If more were used than may be open, the oldest is closed, which saves what can be derived from its log."""

    async def run() -> None:
        store = WatchedStore()
        async with (
            Fake("anthropic", map(step_answer, range(20))) as fake,
            open_http() as web,
            run_gateway(tmp_path, upstream_of(fake), store=store, open_sessions=1) as running,
        ):
            for number in range(8):
                client = ScriptedClient("anthropic", running.url, web, {"x-tidegate-session": f"s{number % 3}"})
                client.say(f"start {number}")
                await client.turn("stepped")
        assert store.on_loop == []

    asyncio.run(run())


def test_no_store_call_is_made_on_the_event_loop(tmp_path: Path) -> None:
    """Neither for hidden calls, nor for the exchanges with them that a later gateway restores."""
    answers = [
        ScriptedAnswer(text="Look.", calls=(recall_call(1, "start"),)),
        ScriptedAnswer(text="And.", calls=(Call("c1", "step", '{"n":1}'), recall_call(2, "start"))),
        ScriptedAnswer(text="End."),
    ]

    async def run() -> None:
        store, client = WatchedStore(), None
        async with Fake("anthropic", answers) as fake, open_http() as web:
            for _ in range(2):
                async with run_gateway(tmp_path, upstream_of(fake), recall=True, store=store) as running:
                    if client is None:
                        client = ScriptedClient("anthropic", running.url, web, {"x-tidegate-session": "s"})
                        client.say("start")
                    client.url = running.url
                    await client.turn("stepped")
            assert len(fake.seen) == 3
            assert str(fake.seen[-1].body).count("recall2") == 2, "the exchange was restored"
        assert store.on_loop == []

    asyncio.run(run())


class HangingStore(MemoryStore):
    """A store that can be appended to, but does not answer what the page asks until it is `released`."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.released.set()

    def sessions(self) -> list[SessionInfo]:
        self.released.wait()
        return super().sessions()

    def head(self, session: str) -> int:
        if threading.current_thread().name.startswith("tidegate-page"):
            self.released.wait()
        return super().head(session)


def test_the_page_says_that_the_store_does_not_answer(tmp_path: Path) -> None:
    """More requests for the page than it has threads keep neither the event loop's threads nor models from clients."""

    async def run() -> None:
        store = HangingStore()
        async with conversation(tmp_path, store=store, store_timeout=0.2) as (running, client, web):
            await client.turn("a result")
            paths = ["sessions", "session?name=s", "requests?name=s", "newest?name=s"] * 4
            store.released.clear()
            try:
                asked = [web.get(f"{running.url}/ui/api/{path}", headers=running.page_headers) for path in paths]
                for answer in await asyncio.gather(*asked):
                    assert answer.status_code == 503
                    assert "did not answer within 0.2 seconds" in answer.json()["error"]
                updates = await web.get(f"{running.url}/ui/api/events?name=s", headers=running.page_headers)
                assert (updates.status_code, updates.text) == (200, ""), "it ends, and the browser asks again"
                await asyncio.to_thread(lambda: None)
                await client.turn("while the page waits")
            finally:
                store.released.set()
            async with asyncio.timeout(DEADLINE):
                while (
                    await web.get(running.url + "/ui/api/sessions", headers=running.page_headers)
                ).status_code != 200:
                    await asyncio.sleep(0.01)
            assert "broke off" not in "".join(running.lines)

    asyncio.run(run())


class SlowStore(MemoryStore):
    """A store whose appends end after it was checked twice, as on a machine that is busy with something else."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = 2
        self.released = threading.Event()
        self.released.set()

    def slow_down(self) -> None:
        self.checks = 0
        self.released.clear()

    def append(self, session: str, after: int, records: Sequence[bytes]) -> int:
        self.released.wait()
        return super().append(session, after, records)

    def head(self, session: str) -> int:
        if threading.current_thread().name.startswith("tidegate-check"):
            self.checks += 1
            if self.checks == 2:
                self.released.set()
        return super().head(session)


def test_work_that_is_slow_while_the_store_answers_is_waited_for(tmp_path: Path) -> None:
    async def run() -> None:
        store = SlowStore()
        settings: dict[str, Any] = {"store": store, "store_timeout": 0.5, "store_check_timeout": DEADLINE}
        async with conversation(tmp_path, **(settings | {"on_store_failure": "refuse"})) as (running, client, web):
            await client.turn("a result")
            store.slow_down()
            await client.turn("another result")
            assert store.checks >= 2
            assert await read_metric(running, web, "store_timeouts_total") == 0

    asyncio.run(run())
