"""The scripted tour: it says that it is scripted, and shows cards, questions, a diff and a compaction."""

import asyncio
import os
from pathlib import Path

from tests.cli.command_server import shared_command_server
from tests.tui.stage import on_stage, played, screen_lines
from tidegate import DataFolder
from tidegate.agent.config.launch import LaunchOptions
from tidegate.models.scripted_provider import ScriptedProvider
from tidegate.proof.chat_proof import ChatObserver
from tidegate.proof.demo.chat_demo import DEMO_SESSION, create_demo_launch
from tidegate.proof.demo.guided_app import GuidedApp
from tidegate.proof.demo.tour import TOUR_SCRIPT, TOUR_WINDOW, list_tour_answers


def test_without_a_terminal_it_plays_to_its_end_and_proves_it() -> None:
    done = shared_command_server().run(["demo", "--tour"], Path.cwd(), os.environ)
    assert done.status == 0, done.err
    assert done.out.startswith("This is a scripted tour: no model answers here.")
    for seen in ("* read ports.py", "  - PORT = 8443\n  + PORT = 9000", "May shell run?", "nothing was lost"):
        assert seen in done.out
    assert "compacted: manual" in done.err
    assert done.out.count("\n  yes  ") == 5


def watch_tour(folder: Path, reading: float) -> tuple[str, ChatObserver]:
    """Play the tour with so many seconds to read a screen. Return what was on the screens that were looked at."""
    workspace = folder / "work"
    workspace.mkdir(parents=True)
    (workspace / "ports.py").write_text("HOST = 'db7'\nPORT = 8443\n")
    observer = ChatObserver(DEMO_SESSION, TOUR_WINDOW)
    launch = create_demo_launch(workspace, "default", TOUR_WINDOW, {"provider": "openai", "model": "scripted"})
    provider = ScriptedProvider("openai_chat", list_tour_answers())

    def provider_for(_: LaunchOptions) -> ScriptedProvider:
        return provider

    async def watch(data: DataFolder) -> str:
        app = GuidedApp(
            data, launch, workspace, observer, script=TOUR_SCRIPT, provider_for=provider_for, reading=reading
        )
        seen = ""
        async with app.run_test(size=(100, 40)) as pilot:
            while "The tour is over" not in seen:
                await pilot.pause(0.01)
                seen += "\n".join(screen_lines(app))
        return seen

    with DataFolder(folder / "data", secrets=[]) as data:
        seen = asyncio.run(watch(data))
    assert (workspace / "ports.py").read_text() == "HOST = 'db7'\nPORT = 9000\n"
    return seen, observer


def test_on_a_screen_it_asks_shows_the_diff_and_compacts(tmp_path: Path) -> None:
    words = {"This is a scripted tour", "May edit run?", "- PORT = 8443", "May shell run?", "The tour is over"}
    seconds = 0.05
    seen, observer = watch_tour(tmp_path / "quick", seconds)
    while seconds < 10 and not all(each in seen for each in words):  # a screen came and went before it was looked at
        seconds *= 8
        seen, observer = watch_tour(tmp_path / f"slower-{seconds:g}", seconds)
    assert {each for each in words if each not in seen} == set()
    assert observer.has_compacted


def test_the_chat_says_how_to_connect_a_model(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["Hello."], size=(100, 30)) as stage:
            assert "ollama/qwen3:8b" not in stage.text()
            await stage.press("f4")
            for words in ("export ANTHROPIC_API_KEY", "--model ollama/qwen3:8b", "TIDEGATE_OPENAI_BASE_URL"):
                await stage.sees(words)

    played(play)
