"""A real terminal for tests: tmux, without a window."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.tui.stage import DEADLINE


class Terminal:
    """A tmux server of its own; nobody's sessions are touched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = str(folder / "tmux")

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self.socket, "-f", os.devnull, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE).stdout

    def start(self, *words: str, stay: bool = False) -> None:
        """Run `tidegate` with these words, alone; or, to `stay`, in a shell that says how it ended and waits."""
        python = f"{sys.executable} -m tidegate.cli.main {' '.join(words)}"
        command = f"{python}; echo status $?; exec sleep 600" if stay else f"exec {python}"
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

    def paste(self, text: str) -> None:
        """As a terminal does it: between marks, so that the app can tell it from keys."""
        self.tmux("set-buffer", "--", text)
        self.tmux("paste-buffer", "-p")

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def until(self, holds: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + DEADLINE
        while not holds(screen := self.screen()):
            assert time.monotonic() < deadline, f"it never came:\n{screen}"
            time.sleep(0.05)
        return screen

    def sees(self, words: str) -> str:
        return self.until(lambda screen: words in screen)

    def gone(self) -> None:
        """Wait until the program has ended, and tmux with it."""
        deadline = time.monotonic() + DEADLINE
        command = ["tmux", "-S", self.socket, "list-sessions"]
        while not subprocess.run(command, capture_output=True, check=False, timeout=DEADLINE).returncode:
            assert time.monotonic() < deadline, "it is still there"
            time.sleep(0.05)

    def idle(self) -> str:
        return self.until(lambda screen: "working" not in screen and "opening" not in screen and "ctx " in screen)

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, check=False, timeout=DEADLINE)
