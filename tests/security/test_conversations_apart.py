"""Threat: an agent of one user reads what another user said, because the conversations of both are in one session.
The ids of a framework name a session, and different ids never have the same name. Without an id that is its own, a
conversation has a session only if it begins with all that the session has. Recall reads its own branch.

`tests/integrations` has the same attacks with each framework and its own runner.
"""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integrations.test_host_messages import Turn, TurnFormat, turn
from tidegate import DataFolder, Session
from tidegate.core.messages import Message, Text
from tidegate.integrations.model_calls import CallPreparer
from tidegate.integrations.session_names import SessionName, name_session
from tidegate.integrations.threads import ThreadSessions
from tidegate.session.conversation_log import ConversationLog
from tidegate.session.following import FollowedRequest, FollowingSession, HostItem, make_host_item
from tidegate.session.recall import recall_text
from tidegate.session.recall_index import RecallIndex
from tidegate.store.log import LogReader, MemoryLog

SECRET = "heliotrope-7731"
TOLD, QUESTION = f"My passphrase is {SECRET}.", "What is my passphrase?"
QUERIES = ["m1..m99", *(f"m{number}" for number in range(1, 30)), "passphrase", SECRET, "my is heliotrope"]


def say(role: str, text: str) -> Turn:
    return turn(role, Text(text))


ALICE = [say("user", "Hello."), say("assistant", "Good day."), say("user", TOLD)]
BOB = [say("user", "Hello."), say("assistant", "Good day."), say("user", QUESTION)]


# --- names ------------------------------------------------------------------------------------------------------------

IDS = st.text(max_size=90) | st.sampled_from(
    ["1", "a", "A", "a.b", "a/b", "a@b", "a~b", "b@1", "é", "\udc80", "a" * 90]
)
NAMED = st.tuples(IDS.filter(bool), st.none() | IDS, st.sampled_from(["", "a", "b"]), IDS)


@given(NAMED, NAMED)
def test_different_ids_never_have_the_same_name(first: Any, second: Any) -> None:
    def name(thread: str, user: str | None, application: str, agent: str) -> str:
        return name_session(thread, user=user, application=application, agent=agent)

    assert (name(*first) == name(*second)) == (first == second)


@pytest.mark.parametrize(
    ("one", "other"), [("a b", "a/b"), ("a b", "a-b"), ("é", "è"), ("x" * 90, "x" * 91), ("a\u202eb", "a\u200bb")]
)
def test_ids_that_differ_in_what_no_name_shows_are_told_apart(one: str, other: str) -> None:
    assert name_session(one) != name_session(other)
    assert name_session("1", user=one) != name_session("1", user=other)
    assert name_session("1", agent=one) != name_session("1", agent=other)


def test_a_name_that_is_used_is_not_the_one_of_another_thread(tmp_path: Path) -> None:
    """Nor can a thread id be chosen so that it is the name of another session."""
    threads = ThreadSessions(tmp_path)
    alice = threads.name("adk", "1", user="alice", application="shop").name
    assert threads.name("adk", alice).name != alice
    assert threads.name("adk", "1", user="alice").name != threads.name("adk", "alice@1").name
    assert threads.name("adk", "main.reader").name != threads.name("adk", "main", agent="reader").name


PROGRAM = """
import sys
from tidegate.integrations.threads import ThreadSessions
print(ThreadSessions(*sys.argv[1:]).name("langchain", "1").name)
"""


def test_programs_that_share_the_default_folder_do_not_share_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("TIDEGATE_STORE", raising=False)
    for name in ("a/agent.py", "b/agent.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(PROGRAM)

    def run(name: str, folder: str, *arguments: str) -> str:
        command = [sys.executable, str(tmp_path / name), *arguments]
        return subprocess.run(command, cwd=tmp_path / folder, capture_output=True, text=True, check=True).stdout.strip()

    first = run("a/agent.py", "a")
    assert first.startswith("agent~")
    assert first.endswith("/1")
    assert run("a/agent.py", "b") == first, "the program counts, not where it was started"
    assert run("b/agent.py", "a") != first
    assert run("a/agent.py", "a", "own") == run("b/agent.py", "a", "own") == "1", "a folder of its own needs no more"
    monkeypatch.setenv("TIDEGATE_STORE", "postgresql://example.org/all")
    assert run("a/agent.py", "a", "own") == first, "but a common store does"


def test_a_program_that_runs_the_code_of_others_is_one_for_each_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a web server, or the program that runs these tests."""
    names = set()
    for folder in ("a", "b", "a"):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        names.add(ThreadSessions().name("langchain", "1").name)
    assert sorted(name.partition("~")[0] for name in names) == ["a", "b"]
    assert ThreadSessions(app="shop").name("langchain", "1").name == "shop/1"


# --- recall -----------------------------------------------------------------------------------------------------------


def items_of(turns: list[Turn]) -> list[HostItem[Turn]]:
    return [make_host_item(each, Message(each["role"], tuple(each["parts"]))) for each in turns]


def recall_everything(log: LogReader) -> str:
    """All that can be read of a log, in every way in which it can be asked for."""
    answers = [recall_text(log, query).text for query in QUERIES]
    index = RecallIndex(log.whole if isinstance(log, ConversationLog) else log)
    return "\n".join([*answers, *(recall_text(log, query, index=index).text for query in QUERIES)])


def follow_both() -> tuple[FollowingSession[Turn], FollowedRequest[Turn], FollowedRequest[Turn]]:
    """Both conversations in one log, as if their session had been found by the messages that they begin with.

    An answer to Alice comes when Bob has gone on: it is kept, but on Bob's branch.
    """
    following = FollowingSession[Turn](Session("gpt-4o", log=MemoryLog(), clock=lambda: 1.0))
    alice = following.prepare(items_of(ALICE))
    bob = following.prepare(items_of(BOB))
    following.record_reply(alice, Message("assistant", (Text(f"I will remember {SECRET}."),)))
    following.record_reply(bob, Message("assistant", (Text("I do not know it."),)))
    return following, alice, bob


def test_recall_stays_in_the_conversation_that_asks() -> None:
    following, alice, bob = follow_both()
    log = following.session.log
    assert SECRET in recall_everything(log), "the log has it"
    assert SECRET in recall_everything(ConversationLog(log, alice.last_id))
    found = recall_everything(ConversationLog(log, bob.last_id))
    assert SECRET not in found
    assert QUESTION in found
    assert SECRET not in recall_everything(ConversationLog(log)), "the current branch is that of Bob"
    assert recall_text(ConversationLog(log, following.prepare([]).last_id), "m1..m99").ids == ()


def test_the_conversation_that_asks_need_not_be_the_current_one() -> None:
    """Between the call of a model and its tool, another conversation may have gone on."""
    following, _, bob = follow_both()
    following.prepare(items_of([*ALICE, say("assistant", "Yes."), say("user", "Thank you.")]))
    assert SECRET not in recall_everything(ConversationLog(following.session.log, bob.last_id))


def test_recall_of_an_adapter_reads_the_list_that_asks(tmp_path: Path) -> None:
    """Two users share a thread id, which the program gave both: the session is one, what recall returns is not."""
    preparer = CallPreparer(TurnFormat(), tmp_path, model="gpt-4o")
    name = SessionName("support")
    alice, bob = (preparer.prepare(name, turns) for turns in (ALICE, BOB))
    assert alice.session == bob.session == "support"
    for query in QUERIES:
        assert SECRET not in preparer.threads.recall_at(bob.place, query)
        assert SECRET not in preparer.threads.recall("support", query), "the current branch is that of Bob"
    assert SECRET in preparer.threads.recall_at(alice.place, "passphrase")
    preparer.threads.close()


# --- conversations without an id that is their own --------------------------------------------------------------------


@pytest.mark.parametrize("name", [SessionName("", True, "agent"), SessionName("support", True, "support")])
def test_conversations_that_begin_alike_have_sessions_of_their_own(name: SessionName, tmp_path: Path) -> None:
    preparer = CallPreparer(TurnFormat(), tmp_path, model="gpt-4o")
    for turns in (ALICE, BOB):
        preparer.prepare(name, turns[:1]).record(say("assistant", "Good day."))
    calls = [preparer.prepare(name, turns) for turns in (ALICE, BOB)]
    assert calls[0].session != calls[1].session
    assert len(preparer.threads.data.store.sessions()) == 2
    assert SECRET in preparer.threads.recall_at(calls[0].place, "passphrase")
    assert SECRET not in preparer.threads.recall(calls[1].session, "m1..m99")
    preparer.threads.close()


def test_conversations_that_begin_at_the_same_time_have_sessions_of_their_own(tmp_path: Path) -> None:
    preparer = CallPreparer(TurnFormat(), tmp_path, model="gpt-4o")
    users, name = 8, SessionName("", True, "agent")
    histories = [[*BOB[:2], say("user", f"I am user {number}.")] for number in range(users)]
    start = threading.Barrier(users)

    def talk(turns: list[Turn]) -> str:
        start.wait(60)
        first = preparer.prepare(name, turns[:1])
        first.record(turns[1])
        start.wait(60)
        return preparer.prepare(name, turns).session

    with ThreadPoolExecutor(users) as pool:
        sessions = list(pool.map(talk, histories))
    assert len(set(sessions)) == users
    for number, session in enumerate(sessions):
        logged = preparer.threads.recall(session, "m1..m99")
        assert [f"user {each}." in logged for each in range(users)] == [each == number for each in range(users)]
    preparer.threads.close()


@pytest.mark.parametrize("name", [SessionName("", True, "agent"), SessionName("support", True, "support")])
def test_a_conversation_that_goes_on_keeps_its_session(name: SessionName, tmp_path: Path) -> None:
    """Also if the host lost the newest answer, or sends a list again."""
    preparer = CallPreparer(TurnFormat(), tmp_path, model="gpt-4o")
    turns = [say("user", "Hello.")]
    sessions = set()
    for number in range(20):
        call = preparer.prepare(name, turns)
        call.record(say("assistant", f"Answer {number}."))
        sessions.add(call.session)
        turns = [*turns, say("assistant", f"Answer {number}."), say("user", f"Question {number}.")]
    sessions.add(preparer.prepare(name, turns[:-2]).session)
    sessions.add(preparer.prepare(name, [*turns[:-2], say("assistant", "Another."), say("user", "Go on.")]).session)
    assert len(sessions) == 1
    preparer.threads.close()


def test_a_stored_session_is_continued_by_its_own_conversation_only(tmp_path: Path) -> None:
    """A name that others may have, in a new process; and the name that version 0.1.0 gave a conversation."""
    shared = SessionName("support", True, "support")
    with DataFolder(tmp_path) as data:
        first = CallPreparer(TurnFormat(), data, model="gpt-4o")
        first.prepare(SessionName("1"), ALICE).record(say("assistant", "Noted."))
        first.prepare(shared, ALICE).record(say("assistant", "Noted."))
        first.threads.close()
    with DataFolder(tmp_path) as data:
        again = CallPreparer(TurnFormat(), data, model="gpt-4o")
        longer = [*ALICE, say("assistant", "Noted."), say("user", "Thank you.")]
        for turns, expected in ((BOB, False), (BOB[:1], False), (longer, True)):
            assert (again.prepare(shared, turns).session == "support") == expected
        bob = SessionName("shop/bob@1", old_name="1")
        assert again.prepare(bob, BOB).session == "shop/bob@1"
        assert again.prepare(SessionName("shop/alice@1", old_name="1"), longer).session == "1"
        assert again.prepare(bob, BOB).session == "shop/bob@1"
        again.threads.close()
