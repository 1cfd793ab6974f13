"""State notes of a stored session: opened again, forgotten, and shown by the commands."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.session.compacting import TOOLS, Claude, list_block_places, play_until_sweep
from tests.session.noted import REQUEST, add_work, fill, fill_until_sweep, note_message, take, write_answer
from tidegate import DataFolder, Session
from tidegate.commands.catalog import create_command_registry
from tidegate.commands.registry import CommandContext
from tidegate.core.events import MessageAdded, NoteAdded, ViewEdited
from tidegate.core.messages import STATE_NOTE, compaction_of, result_of, text_of
from tidegate.core.state_note.note import write_sections
from tidegate.datafolder.forget.forget import forget_message, forget_words
from tidegate.session.reports.state_note_report import StateNoteReport
from tidegate.session.summaries.model_question import CompactingModel

ANSWER = write_answer(
    [{"why": "to be called", "find": "def step_0_3()", "before": 1, "after": 2}],
    goal=f'- user: "{REQUEST}" [m2]',
    state="- `step_0_7` is in `src/part_0.py` [m5]\n- `src/part_1.py` was read [m6]\n- 4711 was found [m999]",
)


def open_session(data: DataFolder) -> Session:
    return data.open("work", "gpt-4o", window=16_000, reserve=2_000, count="chars/4")


def fill_with_note(session: Session) -> int:
    session.add({"role": "user", "content": REQUEST})
    number = fill(session, session.state_notes)
    take(session.state_notes, ANSWER)
    return number


def test_a_session_that_is_opened_again_continues_with_its_note(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data:
        with open_session(data) as session:
            number = fill_with_note(session)
        with open_session(data) as session:
            assert session.state_notes.newest is not None
            assert fill_until_sweep(session, number) == "note_sweep"
            sent = session.prepare().to_bytes()
        with open_session(data) as session:
            assert session.prepare().to_bytes() == sent


def test_a_secret_in_a_note_is_not_in_the_snapshot(tmp_path: Path) -> None:
    secret = "correct-horse-battery-staple-99"
    with DataFolder(tmp_path, secrets=[secret]) as data:
        with open_session(data) as session:
            session.add({"role": "user", "content": f"{REQUEST} The key is {secret}."})
            fill(session, session.state_notes)
            take(session.state_notes, write_answer(facts=f"- the key is {secret} [m2]"))
            note = session.state_notes.newest
        for path in data.session_files("work").root.rglob("*"):
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path
        with open_session(data) as session:
            assert session.state_notes.newest == note


def test_forgetting_a_message_reaches_the_note_and_its_passages(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data:
        with open_session(data) as session:
            number = fill_with_note(session)
            fill_until_sweep(session, number)
            shown = note_message(session)
            assert shown is not None
            assert "return 4" in text_of(shown)
        forget_message(data, "work", "m5")
        with open_session(data) as session:
            shown, note = note_message(session), session.state_notes.newest
            assert shown is not None
            assert note is not None
            for text in (text_of(shown), write_sections(note)):
                assert "step_0_7" not in text
                assert "- `src/part_1.py` was read [m6]" in text
            assert "return 4" not in text_of(shown)
            assert note.passages == ()
            session.prepare()


def test_forgetting_words_reaches_the_note(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data:
        with open_session(data) as session:
            number = fill_with_note(session)
            fill_until_sweep(session, number)
        forget_words(data, "work", "step_0_3")
        with open_session(data) as session:
            shown, note = note_message(session), session.state_notes.newest
            assert shown is not None
            assert note is not None
            assert "step_0_3" not in text_of(shown)
            assert "step_0_3" not in repr(note)
            assert "step_0_4" in text_of(shown)


def test_the_command_shows_the_note_and_takes_a_correction(tmp_path: Path) -> None:
    registry = create_command_registry()

    def says(session: Session, line: str) -> str:
        return asyncio.run(registry.answer(line, CommandContext(session, "work", None))).text

    with DataFolder(tmp_path, secrets=[]) as data, open_session(data) as session:
        assert says(session, "/state").startswith("There is no state note yet.")
        number = fill_with_note(session)
        shown = says(session, "/state")
        assert shown.startswith("State note up to m")
        assert "3 lines held, 1 marked, 0 dropped, 2 passages." in shown
        assert "named in State; added by tidegate" in shown
        assert "- `src/part_1.py` was read [m6]" in shown
        assert "  m5 Read src/part_0.py, lines 3-6: to be called" in shown
        assert "4711 was found [m999] (not found in the log: m999, 4711)" in shown
        assert says(session, "/state The parser is in C.").startswith("Added as m")
        assert text_of(session.view.items[-1].message).endswith("The parser is in C.")
        fill_until_sweep(session, number)
        assert "State note up to" in says(session, "/explain")
        for extra in range(200, 230):
            add_work(session, extra)
            if session.state_notes.is_due():
                break
        take(session.state_notes, write_answer(state="- all was read"))
        report = StateNoteReport(session.log)
        assert "+- all was read" in report.list_changes()
        assert "-- `src/part_1.py` was read [m6]" in report.list_changes()


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.datafolder.test_state_notes import fill_with_note, open_session
from tests.session.compacting import TOOLS, Claude, list_block_places, play_until_sweep
from tests.session.noted import add_work
from tidegate import DataFolder
with DataFolder(Path(sys.argv[1]), secrets=[]) as data, open_session(data) as session:
    number = fill_with_note(session)
    print(number, flush=True)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.exhaustive
def test_a_note_is_there_after_the_process_was_killed_before_its_sweep(tmp_path: Path) -> None:
    """Once, with the same bytes as without the kill, and the next sweep shows it."""
    sent: list[bytes] = []
    for end in ("killed", "closed"):
        folder = tmp_path / end
        done = subprocess.run([sys.executable, "-c", KILLED, folder, end], capture_output=True, text=True, check=False)
        assert done.returncode == (-signal.SIGKILL if end == "killed" else 0), done.stderr
        with DataFolder(folder, secrets=[]) as data, open_session(data) as session:
            noted = [event.payload for event in session.log.read() if isinstance(event.payload, NoteAdded)]
            assert [each.topic for each in noted].count(STATE_NOTE) == 1
            sent.append(session.prepare().to_bytes())
            assert fill_until_sweep(session, int(done.stdout)) == "note_sweep"
            sent.append(session.prepare().to_bytes())
    assert sent[:2] == sent[2:]


WRITER = """
import sys, time
from pathlib import Path
from tests.datafolder.test_state_notes import ANSWER, open_session
from tidegate import DataFolder
with DataFolder(Path(sys.argv[1]), secrets=[]) as data, open_session(data) as session:
    question = session.state_notes.make_question()
    print("asked", flush=True)
    sys.stdin.readline()
    report = session.state_notes.take(question.task, ANSWER)
    print("stored" if report.note else report.why, flush=True)
"""


def test_of_two_processes_that_write_a_note_one_stores_it(tmp_path: Path) -> None:
    with DataFolder(tmp_path, secrets=[]) as data, open_session(data) as session:
        session.add({"role": "user", "content": REQUEST})
        number = fill(session, session.state_notes)
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    assert [writer.stdout.readline() for writer in writers] == ["asked\n"] * 2
    said = [writer.communicate("go\n")[0].strip() for writer in writers]
    assert sorted(said) == ["another note came first", "stored"]
    with DataFolder(tmp_path, secrets=[]) as data, open_session(data) as session:
        assert fill_until_sweep(session, number) == "note_sweep"


def test_forgetting_a_message_takes_out_the_block_that_stands_for_it(tmp_path: Path) -> None:
    """Nothing in a block can be changed, and it may have any word of the messages."""
    claude = Claude()
    with DataFolder(tmp_path, secrets=[]) as data:
        with open_claude(data, claude) as session:
            session.add({"role": "user", "content": REQUEST})
            play_until_sweep(claude, session)
            assert compaction_of(session.view.items[0].message) is not None
            added = (event.payload for event in session.log.read())
            read = next(what.message.id for what in added if isinstance(what, MessageAdded) and result_of(what.message))
        forget_message(data, "work", read)
        with open_claude(data, claude) as session:
            note = session.state_notes.newest
            assert note is not None
            assert note.block is None
            body = session.prepare().to_bytes().decode()
            claude.judge(json.loads(body))
            assert "compaction" not in body
            assert "sealed-" not in body
            assert "def step_0_3()" not in body


def test_a_stored_session_continues_with_its_block_and_a_rewind_shows_the_messages(tmp_path: Path) -> None:
    claude = Claude()
    with DataFolder(tmp_path, secrets=[]) as data:
        with open_claude(data, claude) as session:
            session.add({"role": "user", "content": REQUEST})
            play_until_sweep(claude, session)
            sent = session.prepare().to_bytes()
            horizon = compaction_of(session.view.items[0].message)
        assert horizon is not None
        with open_claude(data, claude) as session:
            assert session.prepare().to_bytes() == sent
            swept = next(event for event in session.log.read() if isinstance(event.payload, ViewEdited))
            earlier = claude.open(log=session.history.fork(swept.seq - 1))
            body = json.loads(earlier.render_request().to_bytes())
            claude.judge(body)
            assert list_block_places(body) == []
            assert "def step_0_3()" in json.dumps(body)


def open_claude(data: DataFolder, claude: Claude) -> Session:
    return data.open(
        "work",
        claude.model,
        window=24_000,
        reserve=2_000,
        count="chars/4",
        tools=TOOLS,
        system="You are a careful engineer.",
        request_options={"thinking": {"type": "adaptive"}},
        summarizer=CompactingModel(claude.ask),
    )
