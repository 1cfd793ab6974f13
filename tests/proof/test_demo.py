"""The demonstration: by itself, at a terminal, and the one that is made up."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_server import FinishedCommand, shared_command_server
from tests.models.embedded_model import ABSENT, needs_model
from tests.tui.stage import Stage
from tests.tui.tmux import Terminal
from tidegate import DataFolder
from tidegate.agent.config.launch import LaunchOptions
from tidegate.models.provider import Provider
from tidegate.models.scripted_provider import ScriptedProvider, ScriptStep
from tidegate.proof.chat_proof import ChatObserver, prove_chat
from tidegate.proof.demo.chat_demo import DEMO_SESSION, DEMO_WINDOW, create_demo_launch
from tidegate.proof.demo.guided_app import TAKEOVER_HINT, GuidedApp
from tidegate.proof.demo.script import DEMO_SCRIPT, TAKEOVER_TEXT, ScriptedInput, make_demo_script
from tidegate.tui.agent_thread import AgentOpened, EventLogged
from tidegate.tui.plain.plain_chat import PlainChat

TIDEGATE = [sys.executable, "-m", "tidegate.cli.main"]
TALKED = [step for step in DEMO_SCRIPT if not step.message.startswith("/")]


class Place:
    """A folder for a demonstration, with a model that speaks from a script."""

    def __init__(self, folder: Path, steps: list[ScriptStep], window: int = DEMO_WINDOW) -> None:
        self.folder = folder
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.data = DataFolder(folder / "data", secrets=[])
        self.opening = create_demo_launch(self.workspace, "default", window)
        self.seen = ChatObserver(DEMO_SESSION, window)
        self._provider = ScriptedProvider("openai_chat", steps, count=lambda raw: len(raw) // 5)

    def provider_for(self, _: LaunchOptions) -> Provider:
        return self._provider


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path, [f"Yes, I see {number}." for number in range(20)])
    yield found
    found.data.close()


def play(place: Place) -> int:
    async def played() -> int:
        lines = ScriptedInput(make_demo_script(place.seen.window, lambda: place.seen.has_compacted))
        plain = PlainChat(
            place.data,
            place.opening,
            place.workspace,
            lines,
            provider_for=place.provider_for,
            listen=place.seen.observe,
        )
        return await plain.run()

    return asyncio.run(played())


def test_the_script_plays_and_everything_is_kept(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert play(place) == 0
    out, err = capsys.readouterr()
    assert all(f"> {step.message}" in out for step in DEMO_SCRIPT)
    assert out.count("\nYes, I see ") == len(TALKED)
    assert " user: Hello, my name is Ada." in out
    assert "\n1. Never restart db7 before 18:00." in out
    assert "compacted: " in err
    told = prove_chat(place.seen, place.folder / "data")
    assert told.holds, told.text
    assert told.text.count("\n  yes  ") == 5
    assert f"{len(TALKED)} answers came, {len(TALKED)} in the log" in told.text
    assert "compaction" in told.text


def test_what_was_lost_would_be_seen(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The proof is none that cannot fail: another log, another answer, another request."""
    play(place)
    seen = place.seen
    for spoilt in ("messages", "answers", "request_hashes"):
        whole = getattr(seen, spoilt)
        for other in (whole[:-1], [*whole[:-1], whole[0]]):
            setattr(seen, spoilt, other)
            told = prove_chat(seen, place.folder / "data")
            assert not told.holds, spoilt
            assert "NOT PROVED" in told.text
        setattr(seen, spoilt, whole)
    assert prove_chat(seen, place.folder / "data").holds
    seen.largest_request = DEMO_WINDOW + 1
    assert not prove_chat(seen, place.folder / "data").holds
    capsys.readouterr()


def test_a_model_that_fails_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty answers, nonsense and no answer at all: the script goes on, and what was said is kept."""
    place = Place(tmp_path, ["", "", "\x00\x1b]0;x\x07", "ok"])
    try:
        play(place)
        told = prove_chat(place.seen, place.folder / "data")
    finally:
        place.data.close()
    out, _ = capsys.readouterr()
    assert f"> {DEMO_SCRIPT[-1].message}" in out
    assert told.holds, told.text


def test_a_large_window_shows_a_compaction_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pages of the script do not fill it, so more follow."""
    large = Place(tmp_path, [f"Yes, I see {number}." for number in range(20)], window=8_000)
    assert play(large) == 0
    assert "# The window is not full yet." in capsys.readouterr().out
    told = prove_chat(large.seen, large.folder / "data")
    large.data.close()
    assert told.holds, told.text
    assert "what was done to the window: 0" not in told.text
    assert "proves nothing" not in told.text


def test_a_check_that_proved_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model fails at once: no message left the window."""
    place = Place(tmp_path, [])
    data = place.data
    with data.open(DEMO_SESSION, window=8_000) as session:
        session.history.observe(lambda event: place.seen.observe(EventLogged(event)))
        place.seen.observe(AgentOpened(DEMO_SESSION, "", "", is_new=True))
        session.add({"role": "user", "content": "Hello."})
    data.close()
    told = prove_chat(place.seen, place.folder / "data")
    assert told.holds, told.text
    assert "  --   0 messages left the window" in told.text
    assert told.text.count("there was nothing to check, so this proves nothing") == 4
    assert told.text.count("\n  yes  ") == 1
    capsys.readouterr()


# --- at a terminal ----------------------------------------------------------------------------------------------------


def guided(place: Place, *, reading: float) -> GuidedApp:
    return GuidedApp(
        place.data, place.opening, place.workspace, place.seen, provider_for=place.provider_for, reading=reading
    )


def test_on_a_screen_it_plays_to_its_end(place: Place) -> None:
    async def watched() -> None:
        app = guided(place, reading=0.01)
        async with app.run_test(size=(80, 24)) as pilot:
            stage = Stage(app, pilot)
            await stage.sees(TAKEOVER_TEXT.split(". ")[0])
            assert len(place.seen.answers) == len(TALKED)
            assert "Never restart db7 before 18:00.  (pinned by you in" in stage.text()

    asyncio.run(watched())
    assert prove_chat(place.seen, place.folder / "data").holds


@pytest.mark.parametrize(
    "key", ["x", "f2", *(pytest.param(key, marks=pytest.mark.exhaustive) for key in ("escape", "enter"))]
)
def test_any_key_takes_over(place: Place, key: str) -> None:
    async def watched() -> None:
        app = guided(place, reading=3600.0)
        async with app.run_test(size=(80, 24)) as pilot:
            stage = Stage(app, pilot)
            await stage.sees("Any key ends the script")
            assert TAKEOVER_HINT.split(",")[0] in stage.text()
            await stage.press(key)
            if key == "x":
                await stage.until(lambda: app.composer.text == "x", "the key is the user's first")
                await stage.press("backspace")
            if key == "f2":
                await stage.press("escape")
            await stage.sees("The chat is yours.")
            assert place.seen.answers == []
            await stage.say("Hello.")
            await stage.until(lambda: bool(place.seen.answers), "an answer")
            assert place.seen.answers == ["Yes, I see 0."]

    asyncio.run(watched())
    assert prove_chat(place.seen, place.folder / "data").holds


# --- as a command -----------------------------------------------------------------------------------------------------


@needs_model
@pytest.mark.exhaustive
def test_it_plays_with_the_embedded_model_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path), "OPENAI_API_KEY": "sk-none"}
    command = [*TIDEGATE, "demo", "--model"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "nothing was lost" in done.stdout
    assert done.stdout.count("\n  yes  ") == 5
    assert " user: Hello, my name is Ada." in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tidegate")] == []


@pytest.mark.skipif(bool(ABSENT) or shutil.which("tmux") is None, reason="no tmux, or no embedded model")
def test_in_a_real_terminal_any_key_takes_over(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.start("demo", "--model", stay=True)
        terminal.sees("Any key ends the script")
        terminal.keys("x")
        terminal.sees("The chat is yours.")
        assert "› x" in terminal.screen()
        terminal.keys("C-q")
        terminal.sees("status 0")
        assert "There were no messages, so nothing was stored." in terminal.screen()
    finally:
        terminal.close()


def demo(*arguments: object, **variables: str) -> FinishedCommand:
    """Run the command in a process of its own: it hides the environment of its process."""
    return shared_command_server().run(["demo", *arguments], Path.cwd(), {**os.environ, **variables})


def test_without_a_model_it_says_what_to_do(tmp_path: Path) -> None:
    done = demo("--model", TMPDIR=str(tmp_path), TIDEGATE_GGUF=str(tmp_path / "none.gguf"))
    assert (done.status, done.out) == (2, "")
    assert "Without a model: `tidegate demo`." in done.err
