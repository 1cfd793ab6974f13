"""The whole thing in a real terminal: chat with the model on this machine, compact, be killed, come back."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.calling import called
from tests.tui.stage import DEADLINE
from tests.tui.tmux import Terminal
from tidegate import DataFolder
from tidegate.core.events import MessageAdded, ViewEdited
from tidegate.core.messages import text_of
from tidegate.models.embedded.weights import SMOLLM2

ABSENT = [name for name in ("xllamacpp", SMOLLM2.module) if find_spec(name) is None]
ABSENT += [] if shutil.which("tmux") else ["tmux"]
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)}")
PLACE = ("--config", "tidegate.yaml", "--data", "data")
CONFIG = "window: 2048\nagents: [{id: main, model: {max_output: 8}}]\n"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "tidegate.yaml").write_text(CONFIG)
    with closing(Terminal(tmp_path)) as terminal:
        yield terminal


def kept(folder: Path) -> list[MessageAdded | ViewEdited]:
    data = DataFolder(folder / "data", secrets=[])
    try:
        return [
            event.payload
            for event in data.open_log("talk").read()
            if isinstance(event.payload, MessageAdded | ViewEdited)
        ]
    finally:
        data.close()


def answers(folder: Path) -> int:
    return sum(isinstance(what, MessageAdded) and what.message.role == "assistant" for what in kept(folder))


def pasted_and_said(terminal: Terminal) -> None:
    terminal.paste("pasted \x1b[31mred\nand more\x1b[0m\n/quit\n")
    terminal.sees("› pasted red\n   and more\n   /quit\n")  # and nothing was sent
    terminal.keys("C-c")
    for number, text in enumerate(("The port is 8443. " + "It is so today. " * 40, "The host is db7.", "Why?"), 1):
        terminal.say(text)
        terminal.until(lambda _, number=number: answers(terminal.folder) >= number)  # type: ignore[misc] # bound now
        terminal.idle()


@pytest.mark.exhaustive
def test_chat_compact_be_killed_and_come_back(terminal: Terminal) -> None:
    terminal.start("chat", "--session", "talk", *PLACE)
    terminal.sees("Say something.")
    terminal.idle()
    pasted_and_said(terminal)
    terminal.say("/compact")
    terminal.sees("takes it back")
    before = kept(terminal.folder)
    assert any(isinstance(what, ViewEdited) for what in before)
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.gone()
    doctor = [sys.executable, "-m", "tidegate.cli.main", "doctor", "--data", str(terminal.folder / "data")]
    assert subprocess.run(doctor, capture_output=True, check=False, timeout=DEADLINE).returncode == 0

    terminal.start("chat", "--last", *PLACE, stay=True)
    terminal.sees("▌ The host is db7.")
    terminal.sees("▸ compacted")
    terminal.sees("1 compacted")  # once the agent is open, too
    terminal.idle()
    assert kept(terminal.folder) == before
    terminal.keys("F2")
    terminal.sees("what was done to it")
    terminal.keys("Tab")
    terminal.sees("4 out")
    terminal.keys("Enter")
    terminal.sees("The port is 8443.")
    terminal.keys("q")
    terminal.until(lambda screen: "The port is 8443." not in screen)
    terminal.keys("u")
    terminal.sees("undone")
    terminal.keys("q")
    terminal.sees("0 compacted")
    terminal.say("And now?")
    terminal.until(lambda _: answers(terminal.folder) == 4)
    terminal.idle()
    terminal.keys("C-q")
    assert "\n  tidegate chat --session talk --data data" in terminal.sees("status 0\n")
    messages = [what.message for what in kept(terminal.folder) if isinstance(what, MessageAdded)]
    asked = [text_of(message) for message in messages if message.role == "user"]
    assert asked[1:] == ["The host is db7.", "Why?", "And now?"]


def test_the_list_of_sessions_fits_a_terminal_of_80_columns(terminal: Terminal) -> None:
    with (
        DataFolder(terminal.folder / "data", secrets=[]) as data,
        data.open("tidegate-20261116-170406-wccp") as session,
    ):
        session.add({"role": "user", "content": "Find out why the build of the gateway takes so long, and fix it."})
    terminal.start("sessions", "--data", "data", stay=True)
    lines = terminal.sees("status 0").splitlines()
    assert lines[0].split() == ["session", "last", "used", "title"]
    assert lines[1].startswith("tidegate-20261116-170406-wccp  20")
    assert lines[1].endswith("Find out why the build of the …")  # 80 columns, and nothing on the next line
    assert lines[2] == "status 0"


@pytest.mark.exhaustive
def test_the_end_of_the_tour_is_wrapped_between_words(terminal: Terminal) -> None:
    terminal.start("demo", "--fast", stay=True)
    shown = terminal.sees("status 0\n")
    assert "nothing was lost" in shown
    assert max(map(len, shown.splitlines())) <= 80
    whole_words = called("demo", "--fast").stdout.split()  # lines that go into a pipe are not broken
    assert {*shown[shown.index("what it cost") :].split()} <= {*whole_words, "status", "0"}


def test_one_notice_says_which_model_answers(terminal: Terminal) -> None:
    terminal.start("chat", "--session", "talk", *PLACE)
    terminal.sees("You have not chosen a model.")
    terminal.say("The port is 8443.")
    terminal.until(lambda _: answers(terminal.folder) == 1)
    shown = " ".join(terminal.idle().split())
    assert shown.count("a model") + shown.count("small model") == 2, shown  # the sentence above, and how to connect one
    assert "runs on this machine with a window of 2,048 tokens. It gets no tools." in shown
