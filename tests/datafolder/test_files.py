"""What a policy saves is on disk before it leaves the view, masked, once, and where the view says it is."""

import hashlib
import re
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest

from tidegate import Flush, Log, MemoryLog, Session, SessionStorage, SummaryRequest
from tidegate.core.errors import BadInput, NotKept
from tidegate.core.messages import text_of, user_message
from tidegate.core.outcome import Effect, Spill, make_spill
from tidegate.core.text.secrets import SecretMask
from tidegate.datafolder.data_folder import DataFolder, DataFolderEffects
from tidegate.disk.folder import Folder
from tidegate.memory.notes import Notes
from tidegate.store.memory import MemoryStore
from tidegate.store.session_log import KeptLog

KEY = "sk-ant-" + "aB3" * 12
VALUE = "a configured value"
NOON = 1_763_208_000.0
DAY = "2025-11-15.md"


def files_in(tmp_path: Path, *, max_file: int = 10_000_000, max_session: int = 10_000_000) -> DataFolderEffects:
    folder = Folder(tmp_path / "sessions" / "s", max_file=max_file)
    mask = SecretMask([VALUE])
    notes = Notes(tmp_path / "memory", zone=UTC, mask=mask, clock=lambda: NOON)
    return DataFolderEffects(folder, notes, "s", mask, max_session=max_session)


def session_with(
    effects: Callable[[Effect], None], mask: Callable[[str], str] = str, log: Log | None = None, **options: object
) -> Session:
    storage = SessionStorage(log or MemoryLog(), effects, mask)
    return Session("gpt-4o", policy="jutul", window=32_000, count="estimate", log=storage, **options)  # type: ignore[arg-type]


def called(session: Session, text: str, ident: str = "c1") -> str:
    session.add({"role": "user", "content": "read it"})
    call = {"id": ident, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    session.add({"role": "assistant", "content": None, "tool_calls": [call]})
    return session.add({"role": "tool", "tool_call_id": ident, "content": text})[0]


def shown(session: Session, ident: str) -> str:
    return next(text_of(item.message) for item in session.view.items if item.message.id == ident)


LONG = "\n".join(f"line {number} of a very long result" for number in range(20_000))


@pytest.mark.parametrize("secret", ["", KEY, VALUE])
def test_the_notice_and_the_file_agree(tmp_path: Path, secret: str) -> None:
    """Also where the file was masked: the model that checks what it reads finds what it was told."""
    files = files_in(tmp_path)
    session = session_with(files, files.mask)
    ident = called(session, LONG[:100_000] + (secret and f" {secret} ") + LONG[100_000:])
    session.prepare()
    path, sha = re.findall(r"Saved to (\S+) \(SHA-256 (\w{64})\)", shown(session, ident))[0]
    data = (files.folder.root / path).read_bytes()
    assert hashlib.sha256(data).hexdigest() == sha
    assert path == f"large_tool_results/{ident}"
    assert (data.decode() == LONG) == (not secret)
    assert not secret or secret not in data.decode()
    assert b"line 19999 of a very long result" in data
    assert text_of(session.recall(ident)).count(secret or "line 7 ") >= 1, "the log keeps what was said"


def test_only_the_notice_is_changed_not_the_words_of_the_tool(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    session = session_with(files, files.mask)
    ident = called(session, f"{KEY} is the first line\n{LONG}")
    session.prepare()
    assert shown(session, ident).startswith(f"{KEY} is the first line"), "the view is not masked"


def talk(session: Session, first: int, last: int) -> None:
    for number in range(first, last):
        session.add({"role": "user", "content": f"question {number}: {VALUE if number == 3 else 'why'} " + "x " * 1500})
        session.prepare(lambda _: "a summary")
        session.add({"role": "assistant", "content": f"answer {number}"})


def test_the_turns_are_in_the_file_before_they_leave_the_view(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    session = session_with(files, files.mask)
    talk(session, 0, 60)
    text = files.folder.read("conversation_history/main.md") or ""
    headings = re.findall(r"^## (m\d+) (?:user|assistant)$", text, re.MULTILINE)
    there = {item.message.id for item in session.view.items}
    assert len(headings) > 30
    assert len(headings) == len(set(headings)), "each message once"
    gone = [f"m{event.seq}" for event in session.log.read() if hasattr(event.payload, "message")]
    assert set(gone) == set(headings) | {ident for ident in there if ident.startswith("m")}
    assert VALUE not in text
    assert "question 3: [masked]" in text


def test_a_crash_between_the_file_and_the_edit_writes_nothing_twice(tmp_path: Path) -> None:
    """The file was written, the edit was not; more is said, and the same messages leave with others."""
    store = MemoryStore()
    files = files_in(tmp_path)

    def crash(effect: Effect) -> None:
        files(effect)
        raise KeyboardInterrupt

    session = session_with(crash, log=KeptLog(store, "s"))
    with pytest.raises(KeyboardInterrupt):
        talk(session, 0, 60)
    before = files.folder.read("conversation_history/main.md") or ""
    assert before.count("## m") > 3
    again = session_with(files_in(tmp_path), log=KeptLog(store, "s"))
    again.add({"role": "user", "content": "and more"}, {"role": "assistant", "content": "yes"})
    talk(again, 100, 140)
    text = files.folder.read("conversation_history/main.md") or ""
    assert text.startswith(before)
    headings = re.findall(r"^## (m\d+) ", text, re.MULTILINE)
    assert len(headings) == len(set(headings)) > before.count("## m")


def test_what_is_refused_is_not_lost(tmp_path: Path) -> None:
    files = files_in(tmp_path, max_file=10_000)
    session = session_with(files)
    ident = called(session, LONG[:100_000])
    session.compact()
    session.run_rules("turn_end")
    assert shown(session, ident) == LONG[:100_000]
    session.fit()
    refused = [decision.reason for decision in session.last_decisions if "saving failed" in decision.reason]
    assert "100,000 bytes, more than 10,000" in refused[0]
    assert files.folder.names() == []


def test_the_cap_of_a_session(tmp_path: Path) -> None:
    files = files_in(tmp_path, max_session=1000)
    files(make_spill("a/1", "x" * 600))
    for _ in range(3):
        files(make_spill("a/1", "x" * 600))
    with pytest.raises(BadInput, match=r"take 600 bytes; with 500 more they would be over 1,000. a/2 was not written"):
        files(make_spill("a/2", "x" * 500))
    (files.folder.root / "a" / "1").unlink()
    files(make_spill("a/2", "x" * 500))
    files(make_spill("b.md", "y" * 300, append=True))
    with pytest.raises(BadInput, match="take 800 bytes"):
        files_in(tmp_path, max_session=1000)(make_spill("b.md", "z" * 300, append=True))
    assert files.folder.names() == ["a/2", "b.md"]


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", ".hidden", "", "a//b", "a\\b", "a\0b"])
def test_paths_stay_inside(tmp_path: Path, path: str) -> None:
    files = files_in(tmp_path)
    for append in (True, False):
        with pytest.raises(BadInput):
            files(Spill(path, "x", "", append))
    assert [each for each in tmp_path.rglob("*") if each.is_file() and each.name != ".lock"] == []


def test_a_flush_is_masked_in_text_and_title(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    flush = Flush(SummaryRequest((user_message(f"use {KEY}\nplease"),), "", 100), f"they gave {VALUE}")
    files(flush)
    files(flush)
    notes = Notes(tmp_path / "memory", zone=UTC)
    (entry,) = notes.read_entries(DAY)
    assert (entry.source, entry.title, entry.text) == ("s", "use sk-ant-…[masked]", "they gave [masked]")
    files(Flush(SummaryRequest((user_message("a note", "note"),), "", 100), "another"))
    assert notes.read_entries(DAY)[1].title == "1 message"


def test_no_disk_no_loss(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("no folder")
    with pytest.raises(NotKept):
        files_in(tmp_path)(make_spill("a", "b"))


@pytest.mark.parametrize("policy", ["jutul", "cowagent"])
def test_no_file_of_a_data_folder_shows_a_secret(tmp_path: Path, policy: str) -> None:
    """But the log itself, its large records and the snapshot made of it, which are what was said."""
    data = DataFolder(tmp_path, secrets=[VALUE])
    session = data.open("s", "gpt-4o", policy=policy, window=32_000, count="estimate")
    called(session, f"{LONG[:100_000]} {KEY} {VALUE} {LONG[:200_000]}")
    for number in range(40):
        session.add({"role": "user", "content": f"{number}: use {KEY} and {VALUE} " + "x " * 1500})
        session.prepare(lambda _: f"they use {KEY} and {VALUE}")
        call = {"id": f"k{number}", "type": "function", "function": {"name": "go", "arguments": f'{{"key":"{KEY}"}}'}}
        session.add({"role": "assistant", "content": None, "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"k{number}", "content": VALUE})
    session.close()
    data.close()
    own = {"tidegate.db", "tidegate.db-wal", "search.db", "views", "blobs"}
    seen = {}
    for path in tmp_path.rglob("*"):
        place = path.relative_to(tmp_path)
        if path.is_file() and place.parts[0] not in own:
            seen[str(place)] = path.read_bytes()
    assert {name.split("/")[0] for name in seen} >= {"traces", "sessions" if policy == "jutul" else "memory"}
    assert [name for name, held in seen.items() if KEY.encode() in held or VALUE.encode() in held] == []
    assert sum(held.count(b"[masked]") for held in seen.values()) > 40
