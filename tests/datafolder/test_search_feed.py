"""The index follows a growing session without a search, once there is an index."""

import threading
from collections.abc import Callable
from pathlib import Path

from tests.store.conftest import wait_until
from tidegate import DataFolder
from tidegate.cli.main import main
from tidegate.datafolder.forget.forget import forget_words
from tidegate.datafolder.search_feed import SearchFeed


def says(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def is_indexed(data: DataFolder, name: str, head: int) -> Callable[[], bool]:
    return lambda: data.open_search().indexed_heads().get(name, 0) >= head


def test_without_an_index_nothing_is_indexed(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data, data.open("s", "gpt-4o") as session:
        before = threading.active_count()
        session.add(says("The zanzibar port is 8080."))
        assert threading.active_count() == before
    assert not (tmp_path / "search.db").exists()


def test_what_is_added_after_a_search_is_indexed_before_the_next_one(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data:
        with data.open("s", "gpt-4o") as session:
            session.add(says("first"))
            assert data.open_search().search("first")
            session.add(says("The zanzibar port is 8080."))
            assert wait_until(is_indexed(data, "s", session.log.head))
            assert data.count_unindexed_events() == 0
            session.add(says("last"))
        assert data.count_unindexed_events() == 0, "what is left is indexed when the session is closed"
    with DataFolder(tmp_path, secrets=[]) as data:
        assert [hit.name for hit in data.open_search().search("zanzibar last", kind="session")] == ["s", "s"]


def test_an_index_does_not_get_back_what_was_forgotten(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data:
        with data.open("s", "gpt-4o") as session:
            session.add(says("first"))
            data.open_search().search("first")
            session.add(says("The word zanzibar is secret."))
        forget_words(data, "s", "zanzibar is secret")
        with data.open("s", "gpt-4o") as session:
            session.add(says("more"))
            session.add(says("still more"))
            data.search_feed.finish("s")
        assert data.open_search().search("zanzibar") == []
        assert data.open_search().search("more")


def test_the_feed_indexes_again_after_a_failure() -> None:
    indexed: list[str] = []
    fails = threading.Event()
    fails.set()

    def index(name: str) -> None:
        if fails.is_set():
            from tidegate.store.errors import StoreUnreachable

            fails.clear()
            raise StoreUnreachable("The server is away.", "Wait.")
        indexed.append(name)

    feed = SearchFeed(index, lambda: True, lambda: True, pause=0.0)
    feed.add("s")
    assert wait_until(lambda: not fails.is_set())
    feed.add("t")
    assert wait_until(lambda: "t" in indexed)
    feed.close()


def test_a_command_indexes_what_is_there(tmp_path: Path, capsys: object) -> None:
    with DataFolder(tmp_path, secrets=[]) as data, data.open("s", "gpt-4o") as session:
        session.add(says("The zanzibar port is 8080."))
    assert main(["memory", "index", "--data", str(tmp_path)]) == 0
    with DataFolder(tmp_path, secrets=[]) as data:
        assert data.count_unindexed_events() == 0
        assert len(data.open_search().indexed_heads()) == 1
