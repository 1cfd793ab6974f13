"""`tidegate chat` where there is no screen, as scripts and people run it: pipes, signals, a bare terminal."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.calling import called
from tests.cli.test_run import TIDEGATE, Desk, asked
from tests.fake.server import KEY, Fake, Hang
from tests.tui.stage import DEADLINE
from tidegate import DataFolder
from tidegate.cli.main import main
from tidegate.core.events import MessageAdded
from tidegate.core.messages import Call, text_of
from tidegate.models.scripted_provider import ScriptedAnswer

LONG = "It is the linker, because of the flags. " * 40
LAST = re.compile(r"Session (\S+) is kept\. To continue it:\n  tidegate chat --session \1\n\Z")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def heeding() -> Iterator[None]:
    """A shell starts what runs in its background deaf to Ctrl-C, and children inherit that: not these."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def said(desk: Desk, name: str) -> list[str]:
    data = DataFolder(desk.folder / "data", secrets=[])
    try:
        return [
            text_of(event.payload.message)
            for event in data.open_log(name).read()
            if isinstance(event.payload, MessageAdded)
        ]
    finally:
        data.close()


def test_without_a_terminal_it_is_plain_and_the_session_is_kept(desk: Desk) -> None:
    async def act(server: Fake) -> None:
        first = await desk.run("chat", "--session", "ports", stdin="The port is 8443.\n")
        assert (first.status, first.err) == (0, "")
        assert first.out == "Noted.\nSession ports is kept. To continue it:\n  tidegate chat --session ports\n"
        again = await desk.run("chat", "--plain", "--last", stdin="Which port?")
        assert (again.status, again.out.splitlines()[0]) == (0, "8443.")

    server = desk.serve(["Noted.", "8443."], act)
    assert "The port is 8443." in json.dumps(asked(server)[-1]["messages"])
    assert server.refused == []


@pytest.mark.exhaustive
def test_wrong_calls_and_a_reader_that_leaves(desk: Desk) -> None:
    async def act(server: Fake) -> None:
        wrong = called("chat", "--plain", "--policy", "defualt", "--data", desk.folder / "data")
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert "remedy: " in wrong.stderr
        reader, writer = os.pipe()
        process = await desk.start("chat", "--plain", "--session", "left", stdout=writer)
        os.close(writer)
        os.close(reader)  # as `| head` does
        assert process.stdin is not None
        process.stdin.write(b"Hello.\nAnd on.\n")
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), DEADLINE) == 0
        assert process.stderr is not None
        assert b"Traceback" not in await process.stderr.read()

    desk.serve([LONG, LONG], act)
    assert "Hello." in said(desk, "left")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("heeding")
def test_ctrl_c_interrupts_once_and_ends_twice(desk: Desk) -> None:
    """The first answer is interrupted and the next line is said; in the next one all ends."""

    async def act(server: Fake) -> None:
        process = await desk.start("chat", "--plain", "--session", "slow")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"Why is it slow?\nAnd now?\nNever said.\n")
        for answer in (b"It is the linker", b"The flags"):
            await asyncio.wait_for(process.stdout.readuntil(answer), DEADLINE)
            process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert process.returncode == 130
        assert LAST.search(out.decode())
        assert "Interrupted. The answer so far is kept." in err.decode()
        assert "Traceback" not in err.decode()
        assert main(["doctor", "--data", str(desk.folder / "data")]) == 0

    server = desk.serve(
        [Hang(ScriptedAnswer(text=LONG), 2048), Hang(ScriptedAnswer(text="The flags, again. " * 40), 2048)], act
    )
    assert server.hung_up == 2
    kept = said(desk, "slow")
    assert [text for text in kept if text.endswith("?")] == ["Why is it slow?", "And now?"]
    assert sum("[interrupted]" in text for text in kept) == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.exhaustive)]
)
def test_told_to_end_it_ends_as_a_whole(desk: Desk, number: signal.Signals, status: int) -> None:
    async def act(server: Fake) -> None:
        process = await desk.start("chat", "--plain", "--session", "slow")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"Why is it slow?\n")
        await asyncio.wait_for(process.stdout.readuntil(b"It is the linker"), DEADLINE)
        process.send_signal(number)
        _, err = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert (process.returncode, err.decode()) == (status, "tidegate: stopped\n")

    desk.serve([Hang(ScriptedAnswer(text=LONG), 2048)], act)
    assert any("[interrupted]" in text for text in said(desk, "slow"))


def test_killed_in_the_middle_it_goes_on_with_everything(desk: Desk) -> None:
    """What was acknowledged is there: both messages, the first answer; of the second nobody was told the end."""

    async def act(server: Fake) -> None:
        process = await desk.start("chat", "--plain", "--session", "cut")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"The port is 8443.\nWhy is it slow?\n")
        await asyncio.wait_for(process.stdout.readuntil(b"It is the linker"), DEADLINE)
        process.kill()
        await asyncio.wait_for(process.communicate(), DEADLINE)
        assert process.returncode == -signal.SIGKILL
        assert main(["doctor", "--data", str(desk.folder / "data")]) == 0
        again = await desk.run("chat", "--last", stdin="Go on.\n/recall 8443\n")
        assert again.status == 0
        assert again.out.startswith("The flags.\n")
        assert "The port is 8443." in again.out

    server = desk.serve(["Noted.", Hang(ScriptedAnswer(text=LONG), 2048), "The flags."], act)
    assert server.refused == []
    assert said(desk, "cut")[:3] == ["The port is 8443.", "Noted.", "Why is it slow?"]
    assert said(desk, "cut")[-2:] == ["Go on.", "The flags."]


class Screen:
    """A terminal that a person sits at: what stands on it, and what they type."""

    def __init__(self, desk: Desk, *words: str) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*TIDEGATE, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=desk.folder,
            env={**desk.environment, "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(self.ours, False)
        self.text = ""

    async def sees(self, words: str, times: int = 1) -> None:
        until = time.monotonic() + DEADLINE
        while self.text.count(words) < times:
            try:
                self.text += os.read(self.ours, 65_536).decode()
            except BlockingIOError:
                assert time.monotonic() < until, self.text
                await asyncio.sleep(0.02)
            except OSError:
                raise AssertionError(f"it ended: {self.text}") from None

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    async def ended(self) -> int:
        status = await asyncio.to_thread(self.process.wait, DEADLINE)
        os.close(self.ours)
        return status


@pytest.mark.exhaustive
@pytest.mark.usefixtures("heeding")
def test_on_a_terminal_without_a_screen_a_person_is_asked(desk: Desk) -> None:
    shell = ScriptedAnswer(calls=(Call("c1", "shell", '{"command": "echo it ran"}'),))

    async def act(server: Fake) -> None:
        screen = Screen(desk, "chat", "--session", "by-hand")
        await screen.sees("> ")
        screen.type("Run it.\n")
        await screen.sees("n no: ")
        screen.type("y\n")
        await screen.sees("It did.")
        await screen.sees("> ", 2)
        screen.type("Why?\n")
        await screen.sees("It is the linker")
        os.kill(screen.process.pid, signal.SIGINT)
        await screen.sees("Interrupted.")
        await screen.sees("> ", 3)
        os.kill(screen.process.pid, signal.SIGINT)
        status = await screen.ended()
        assert status == 130
        assert "\x1b" not in screen.text
        assert "loading" not in screen.text

    server = desk.serve([shell, "It did.", Hang(ScriptedAnswer(text=LONG), 2048)], act)
    assert "it ran" in json.dumps(asked(server)[1]["messages"])


@pytest.mark.exhaustive
def test_garbage_is_collected_again_once_a_new_chat_has_begun(tmp_path: Path) -> None:
    """While the chat loads there is none. The input ends only after that: a chat that collects none would not end."""
    code = """
import gc, os, sys, threading, time
reading, writing = os.pipe()
os.dup2(reading, 0)

def end_input():
    while not (gc.get_freeze_count() and gc.isenabled()):
        time.sleep(0.01)
    os.close(writing)

threading.Thread(target=end_input, daemon=True).start()
from tidegate.cli.main import main
sys.exit(main(["chat"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "TIDEGATE_DATA": str(tmp_path / "data"), "OPENAI_API_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Nothing was said, so no session is kept.\n"
