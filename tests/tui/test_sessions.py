"""Sessions in the chat: titles, the sessions of a folder, names, and the first thing on the screen."""

import os
import pty
import re
import sys
from pathlib import Path

from tests.tui.stage import on_stage, played
from tidegate.datafolder.session_names import make_session_name
from tidegate.datafolder.workspaces import note_workspace


def test_the_picker_lists_the_sessions_of_this_folder_by_title(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, name="now") as stage:
            data = stage.app.data
            for name, words, folder in (
                ("mine", "Why is the \x1b[31mbuild slow?", tmp_path / "work"),
                ("theirs", "Paint the pier.", tmp_path / "elsewhere"),
            ):
                with data.open(name, "gpt-4o") as session:
                    session.add({"role": "user", "content": words})
                note_workspace(data, name, folder)
            await stage.press("f3")
            await stage.sees("Why is the build slow?")
            assert "Paint the pier." not in stage.text()
            await stage.type("pier")
            await stage.sees("Paint the pier.")
            await stage.sees("in elsewhere")
            await stage.press("enter")
            await stage.sees("Continuing: Paint the pier.")
            assert stage.app.session_name == "theirs"

    played(play)


def test_the_picker_and_the_command_cut_titles_to_the_width_of_the_screen(tmp_path: Path) -> None:
    title = "Why is the build slow? Look at the files and tell me what to change first, please."

    async def play() -> None:
        async with on_stage(tmp_path, ["Because."], size=(140, 40)) as stage:
            await stage.say(title)
            await stage.idle()
            await stage.press("f3")
            await stage.sees("(here)  build")
            row = next(line for line in stage.lines() if "(here)" in line)
            assert title in row
            await stage.resize(80, 24)
            await stage.until(lambda: any("…" in line and "(here)" in line for line in stage.lines()))
            await stage.resize(140, 40)
            await stage.until(lambda: any(title in line and "(here)" in line for line in stage.lines()))
            await stage.press("escape")
            await stage.say("/sessions")
            await stage.sees(f"{title[:59]}…  (this one)")

    played(play)


def test_a_name_has_a_time_and_no_process_id() -> None:
    name = make_session_name("tidegate")
    assert re.fullmatch(r"tidegate-\d{8}-\d{6}-[a-z]{4}", name)
    assert str(os.getpid()) not in name
    assert re.fullmatch(r"tidegate-\d{8}-\d{6}-[a-z]{4}", make_session_name(name)), "a name does not grow"
    assert len({make_session_name("a") for _ in range(20)}) > 1


def test_loading_is_on_the_screen_before_the_app(tmp_path: Path) -> None:
    """It is the first thing written, and it is erased: nothing but the app comes after it."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.environ |= {"HOME": str(tmp_path), "TERM": "xterm-256color"}
        os.execv(sys.executable, [sys.executable, "-m", "tidegate.cli.main", "chat", "--data", "data"])
    written = b""
    try:
        while b"\x1b[?1049h" not in written:  # the app's screen
            written += os.read(terminal, 4096)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)
    before, _, _ = written.partition(b"\x1b[?1049h")
    assert before.startswith("tidegate chat: loading…".encode())
    assert b"\r\x1b[K" in before
