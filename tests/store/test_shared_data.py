"""Two hosts with data folders of their own and one PostgreSQL: what one of them writes, the other one has."""

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.store.conftest import run_sql
from tidegate import DataFolder
from tidegate.agent.spending import DailySpending, SpendTotal
from tidegate.core.errors import BadInput, NotKept
from tidegate.core.outcome import Spill
from tidegate.datafolder.data_folder import DataFolderEffects
from tidegate.datafolder.forget.forget import forget_session, forget_words
from tidegate.datafolder.removal import get_retention_days
from tidegate.datafolder.retention import DAY_SECONDS, remove_expired_sessions, set_retention
from tidegate.disk.folder import TextFolder
from tidegate.session.recall import recall_text

OpenHost = Callable[..., DataFolder]


@pytest.fixture
def open_host(store_url: str, tmp_path: Path) -> Iterator[OpenHost]:
    opened: list[DataFolder] = []

    def open_host(url: str = store_url, **options: object) -> DataFolder:
        data = DataFolder(tmp_path / f"host{len(opened)}", store=url, secrets=[], **options)  # type: ignore[arg-type]
        opened.append(data)
        return data

    yield open_host
    for data in opened:
        data.close()


def says(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def test_a_session_continues_on_another_host_with_the_same_bytes(open_host: OpenHost) -> None:
    one, other = open_host(), open_host()
    with one.open("build", "gpt-4o") as session:
        session.add(says("Keep the port at 8080."), says("x" * 400_000))
        expected = session.prepare().body
    with other.open("build", "gpt-4o") as session:
        assert session.prepare().body == expected
        session.add({"role": "assistant", "content": "Done."})
    with one.open("build", "gpt-4o") as session:
        assert "Done." in str(session.prepare().body["messages"])
    assert not list(one.root.glob("**/*.db")), "the logs and the index are in the database"


def test_two_hosts_that_have_a_session_open_see_each_other(open_host: OpenHost) -> None:
    one, other = open_host().open("s", "gpt-4o"), open_host().open("s", "gpt-4o")
    one.add(says("first"))
    other.add(says("second"))
    one.add(says("third"))
    for session in (one, other):
        texts = str(session.prepare().body["messages"])
        assert [texts.count(word) for word in ("first", "second", "third")] == [1, 1, 1]
    one.close()
    other.close()


def test_notes_spending_windows_and_files_are_shared(open_host: OpenHost) -> None:
    one, other = open_host(), open_host()
    one.notes.write("deploy.md", "The port is 8080.", about="how to deploy")
    one.notes.add_entry("The build needs libfoo.", source="s")
    assert other.notes.read("deploy.md") == "The port is 8080.\n"
    assert "deploy.md" in other.notes.render_index()
    assert [entry.text for entry in other.notes.read_entries(other.notes.daily_names()[0])] == [
        "The build needs libfoo."
    ]
    for data in (one, other):
        DailySpending(data.spending_folder).add(SpendTotal(10, 0.5))
    assert DailySpending(one.spending_folder).read_today() == SpendTotal(20, 1.0)
    one.state_folder.write("windows.json", "[]")
    assert other.state_folder.read("windows.json") == "[]"
    spill = Spill("out/m1", "a long result", hashlib.sha256(b"a long result").hexdigest())
    DataFolderEffects(one.session_files("s"), one.notes, "s", one.mask)(spill)
    assert (one.session_files("s").root / "out/m1").read_text() == "a long result", "a tool reads it as a file"
    with other.open("s", "gpt-4o"):
        assert (other.session_files("s").root / "out/m1").read_text() == "a long result"


def test_both_hosts_search_the_same_index(open_host: OpenHost) -> None:
    one, other = open_host(), open_host()
    with one.open("talk", "gpt-4o") as session:
        session.add(says("The variable maxContextTokens is read in config.py."), says("日本語の設定"))
    one.notes.write("ports.md", "# Ports\nThe gateway listens on 8484.\n")
    for data in (one, other):
        search = data.open_search()
        assert [(hit.kind, hit.name) for hit in search.search("max_context_tokens")] == [("session", "talk")]
        assert [hit.place for hit in search.search("gateway list", kind="note")] == [2]
        assert [hit.name for hit in search.search("設定")] == ["talk"]
        assert [hit.step for hit in search.search("ontextTok")] == [3], "inside a word only a scan finds it"
        assert search.search("port tokens unheard")[0].step == 4
        assert search.search("' & | ! :* \\ <->") == []
    forget_words(one, "talk", "maxContextTokens")
    assert other.open_search().search("max_context_tokens") == []
    one.notes.remove("ports.md")
    assert other.open_search().search("gateway", kind="note") == []


def test_a_rare_word_counts_more_than_a_common_one(open_host: OpenHost) -> None:
    data = open_host()
    with data.open("talk", "gpt-4o") as session:
        session.add(*(says(f"server server server number {number}") for number in range(30)), says("zebra crossing"))
    hits = data.open_search().search("server zebra missingword")
    assert "zebra" in hits[0].snippet


def test_a_session_that_is_being_removed_cannot_be_opened_elsewhere(open_host: OpenHost) -> None:
    one, other = open_host(), open_host()
    one.open("s", "gpt-4o").close()
    with one.open("s", "gpt-4o") as session:
        session.add(says("hello"))
    with one.locks.exclusive("s"):
        with pytest.raises(NotKept, match="being removed"):
            other.open("s", "gpt-4o")
        with pytest.raises(BadInput, match="in use"), other.locks.exclusive("s"):
            pass
    with other.locks.exclusive("s"):
        pass
    forget_session(other, "s")
    assert one.store.head("s") == 0
    assert '"session":"s"' in (one.state_folder.read("removed.jsonl") or "")


def remove_expired(open_host: OpenHost, count: int, most: int = 500) -> list[int]:
    """Expired sessions of one host, removed by another: how many at each call."""
    one = open_host()
    later = open_host(clock=lambda: time.time() + 3 * DAY_SECONDS)
    for number in range(count):
        one.store.append(f"s{number}", 0, [b"\x00"])
        one.retention_folder.write(f"s{number}.json", f'{{"session":"s{number}","days":1}}')
    set_retention(one, "kept", 30)
    assert get_retention_days(later, "s5") == 1
    removed: list[int] = []
    while one.store.sessions():
        removed.append(len(remove_expired_sessions(later, most=most)))
    assert get_retention_days(one, "kept") == 30
    return removed


def test_retention_marks_hold_for_every_host(open_host: OpenHost, store_url: str) -> None:
    assert remove_expired(open_host, 9) == [9]
    assert run_sql(store_url, "select count(*) from tidegate_records") == [(0,)]


@pytest.mark.exhaustive
def test_one_call_removes_a_bounded_number(open_host: OpenHost, store_url: str) -> None:
    assert remove_expired(open_host, 22, most=10) == [10, 10, 2]
    assert run_sql(store_url, "select count(*) from tidegate_records") == [(0,)]


@pytest.mark.exhaustive
def test_a_file_can_be_appended_to_and_repeated(open_host: OpenHost) -> None:
    folder: TextFolder = open_host().state_folder
    assert folder.append("log.jsonl", "one\n")
    assert folder.append("log.jsonl", "two\n")
    assert not folder.append("log.jsonl", "two\n"), "a writer that does not know how far it came can repeat it"
    assert folder.append("log.jsonl", "two\nthree\n")
    assert folder.read("log.jsonl") == "one\ntwo\nthree\n"
    assert folder.names() == ["log.jsonl"]
    assert folder.size() == folder.size("log.jsonl") == 14
    assert folder.remove("log.jsonl")
    assert not folder.has()
    for name in ("../x", "/x", ".x", ""):
        with pytest.raises(BadInput, match="not a name"):
            folder.write(name, "x")


@pytest.mark.exhaustive
def test_recall_ranks_as_with_sqlite(open_host: OpenHost) -> None:
    texts = [
        "The port is configured in server.toml.",
        "getUserById fails with a timeout.",
        "I had lunch.",
        "The ports were configured twice, in server.toml and in proxy.toml.",
    ]
    large = "x" * 300_000 + " the port at the end of a large record"
    one, other, alone = open_host(), open_host(), open_host("")
    for data in (one, alone):
        with data.open("s", "gpt-4o", count="chars/4") as session:
            session.add(*(says(text) for _ in range(30) for text in texts), says(large), says(large))
    for words in ("port configured", "user timeout", '"in server.toml"', "lunches", "confgured", "end of the record"):
        found = [
            recall_text(data.open_log("s"), words, index=data.recall_index("s")).text for data in (one, other, alone)
        ]
        assert found[0] == found[1] == found[2]
        assert found[0].startswith("m")
