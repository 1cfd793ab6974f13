"""The whole thing in a real terminal: chat with the model on this machine, compact, be killed, come back."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tidegate import DataFolder
from tidegate.core.events import Edited, Said
from tidegate.core.messages import text_of
from tidegate.models.weights import SMOLLM2

ABSENT = [name for name in ("xllamacpp", SMOLLM2.module) if find_spec(name) is None]
ABSENT += [] if shutil.which("tmux") else ["tmux"]
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)}")
CONFIG = "window: 2048\nagents: [{id: main, brain: {max_output: 8}}]\n"


class Terminal:
    """A tmux server of its own; nobody's sessions are touched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = str(folder / "tmux")
        (folder / "tidegate.yaml").write_text(CONFIG)

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self.socket, "-f", os.devnull, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout

    def start(self) -> None:
        python = f"exec {sys.executable} -m tidegate.apps.cli chat --session talk"
        command = f"{python} --config tidegate.yaml --data data"
        home = f"HOME={self.folder}"
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", "-c", str(self.folder), "-e", home, command)

    @property
    def pid(self) -> int:
        return int(self.tmux("list-panes", "-F", "#{pane_pid}"))

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def say(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)
        self.keys("Enter")

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def until(self, holds: Callable[[str], bool]) -> str:
        for _ in range(600):
            screen = self.screen()
            if holds(screen):
                return screen
            time.sleep(0.1)
        raise AssertionError(f"it never came:\n{self.screen()}")

    def sees(self, words: str) -> str:
        return self.until(lambda screen: words in screen)

    def gone(self) -> None:
        for _ in range(600):
            command = ["tmux", "-S", self.socket, "list-sessions"]
            if subprocess.run(command, capture_output=True, check=False, timeout=30).returncode:
                return
            time.sleep(0.1)
        raise AssertionError(f"it is still there:\n{self.screen()}")

    def idle(self) -> str:
        return self.until(lambda screen: "working" not in screen and "opening" not in screen and "ctx " in screen)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    found = Terminal(tmp_path)
    try:
        yield found
    finally:
        subprocess.run(["tmux", "-S", found.socket, "kill-server"], capture_output=True, check=False, timeout=30)


def kept(folder: Path) -> list[Said | Edited]:
    data = DataFolder(folder / "data", secrets=[])
    try:
        return [event.what for event in data.log("talk").read() if isinstance(event.what, Said | Edited)]
    finally:
        data.close()


def answers(folder: Path) -> int:
    return sum(isinstance(what, Said) and what.message.role == "assistant" for what in kept(folder))


def test_chat_compact_be_killed_and_come_back(terminal: Terminal) -> None:
    terminal.start()
    terminal.sees("Say something.")
    terminal.idle()
    for number, text in enumerate(("The port is 8443. " + "Keep it in mind. " * 60, "The host is db7.", "Why?"), 1):
        terminal.say(text)
        terminal.until(lambda _, number=number: answers(terminal.folder) >= number)  # type: ignore[misc] # bound now
        terminal.idle()
    terminal.say("/compact")
    terminal.sees("takes it back")
    before = kept(terminal.folder)
    assert any(isinstance(what, Edited) for what in before)
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.gone()

    terminal.start()
    terminal.sees("▌ The host is db7.")
    terminal.sees("▸ compacted")
    assert "1 compacted" in terminal.idle()
    assert kept(terminal.folder) == before
    terminal.keys("F2")
    terminal.sees("what was done to it")
    terminal.keys("Tab")
    terminal.sees("4 left")
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
    terminal.gone()
    said = [text_of(what.message) for what in kept(terminal.folder) if isinstance(what, Said)]
    assert [text for text in said if text in ("The host is db7.", "Why?", "And now?")] == [
        *("The host is db7.", "Why?", "And now?")
    ]
