"""The chat as a newcomer meets it: early keys, empty sessions, the answers to a question, the last session."""

import asyncio
import json
import os
import pty
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.desk import CONFIG, Desk, ForkedDesk, asked
from tests.fake.server import Fake
from tests.scale import mark_all_but
from tests.tui.stage import DEADLINE, on_stage, played
from tests.tui.test_approving import shell
from tests.tui.test_plain_process import Screen
from tidegate import DataFolder
from tidegate.models.scripted_provider import ScriptedProvider

TIDEGATE = [sys.executable, "-m", "tidegate.cli.main"]


def test_enter_while_the_chat_is_loading_sends(tmp_path: Path) -> None:
    """What is typed before the screen is there waits in the terminal; the first widget would take the enter."""
    desk = Desk(tmp_path)

    async def act(server: Fake) -> None:
        pid, terminal = pty.fork()
        if not pid:
            os.chdir(tmp_path)
            os.execve(sys.executable, [*TIDEGATE, "chat"], {**desk.environment, "TERM": "xterm-256color"})
        arrived = threading.Event()

        def follow() -> None:
            written = b""
            try:
                while data := os.read(terminal, 65536):
                    if b"loading" in written + data and b"loading" not in written:
                        os.write(terminal, b"Which port?\r")
                    written += data
                    if b"8443" in written:
                        arrived.set()
            except OSError:  # it has ended
                pass

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        try:
            assert await asyncio.to_thread(arrived.wait, DEADLINE)
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            reader.join()
            os.close(terminal)

    server = desk.serve(["It is 8443."], act)
    assert asked(server)[0]["messages"][-1]["content"] == "Which port?"


def test_a_command_waits_until_the_agent_is_open(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, open_now=False) as stage:
            thread = stage.app.agent_thread
            await stage.idle()
            assert thread.launch_options is not None
            opening = thread.open(thread.launch_options._replace(session_name="other"))
            answer = await asyncio.wrap_future(thread.run_command("/cost"))
            assert (answer.text.splitlines()[0], answer.error, opening.done()) == ("No requests yet.", False, True)

    played(play)


def test_an_empty_session_leaves_nothing_behind(tmp_path: Path) -> None:
    desk = ForkedDesk(tmp_path)

    async def act(server: Fake) -> None:
        for lines in ("", "/help\n/cost\n"):
            ran = await desk.run("chat", "--session", "idle", stdin=lines)
            assert ran.status == 0
            assert ran.out.splitlines()[-1] == "Nothing was said, so no session is kept."
            files = [path.name for path in (tmp_path / "data").rglob("*") if path.is_file()]
            assert not [name for name in files if not name.startswith(("tidegate.db", "open"))], files
        ran = await desk.run("chat", "--session", "idle", stdin="Hello.\n")
        assert "Session idle is kept." in ran.out

    desk.serve(["Hello."], act)
    with DataFolder(tmp_path / "data", secrets=[]) as data:
        (info,) = data.store.sessions()
        assert data.trace_path("idle").read_text().count("\n") == info.head, "the trace has the opening, too"
        assert [event.seq for event in data.open_log("idle").read()] == list(range(1, info.head + 1))


@pytest.mark.parametrize(("key", "runs"), [("1", True), ("2", False), ("3", None)])
def test_answers_are_numbered_without_a_gap_and_say_why_one_is_missing(
    tmp_path: Path, key: str, runs: bool | None
) -> None:
    async def play() -> None:
        provider = ScriptedProvider("openai_chat", [shell("echo a | cat"), "Done."])
        async with on_stage(tmp_path, provider) as stage:
            await stage.say("Look.")
            await stage.sees("2 Deny (esc)")
            await stage.sees("It cannot be allowed for the session: it has operators")
            await stage.press(key)
            if runs is None:
                assert stage.app.approvals.is_open
                await stage.press("escape")
            await stage.sees("Done.")
            assert (b"The user denied this" in provider.requests[-1]) is not bool(runs)

    played(play)


@pytest.mark.exhaustive
@pytest.mark.parametrize("wish", mark_all_but(["offer", "always", "never"], "always"))
def test_a_chat_in_a_terminal_offers_the_last_session_of_this_folder(tmp_path: Path, wish: str) -> None:
    desk = Desk(tmp_path)
    desk.configure(f"{CONFIG}chat: {{continue_last: {wish}}}\n")

    async def act(server: Fake) -> None:
        await desk.run("run", "Which port?", "--session", "ports")
        screen = Screen(desk, "chat")
        await screen.sees("model gpt-4o")
        await screen.sees("> ")
        offered = "To continue 'Which port?', the last session of this folder: /resume last"
        assert (offered in screen.text) == (wish == "offer")
        assert ("session ports (Which port?)" in screen.text) == (wish == "always")
        if wish == "offer":
            screen.type("/resume last\n")
            await screen.sees("Continuing in ports.")
            await screen.sees("> ", 2)
        screen.type("Again?\n")
        await screen.sees("Again it is 8443.")
        screen.type("\x04")
        assert await screen.ended() == 0

    server = desk.serve(["It is 8443.", "Again it is 8443."], act)
    assert ("Which port?" in json.dumps(asked(server)[1]["messages"])) == (wish != "never")
