"""The scripted tour: it says that it is scripted, and shows cards, questions, a diff and a compaction."""

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.tui.stage import on_stage, played, screen_lines
from tidegate import DataFolder
from tidegate.agent.config.launch import LaunchOptions
from tidegate.models.scripted_provider import ScriptedProvider
from tidegate.proof.chat_proof import ChatObserver
from tidegate.proof.demo.chat_demo import DEMO_SESSION, create_demo_launch
from tidegate.proof.demo.guided_app import GuidedApp
from tidegate.proof.demo.tour import TOUR_SCRIPT, TOUR_WINDOW, list_tour_answers


def test_without_a_terminal_it_plays_to_its_end_and_proves_it() -> None:
    command = [sys.executable, "-m", "tidegate.cli.main", "demo", "--tour"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("This is a scripted tour: no model answers here.")
    for seen in ("* read ports.py", "  - PORT = 8443\n  + PORT = 9000", "May shell run?", "nothing was lost"):
        assert seen in done.stdout
    assert "compacted: manual" in done.stderr
    assert done.stdout.count("\n  yes  ") == 5


def test_on_a_screen_it_asks_shows_the_diff_and_compacts(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "ports.py").write_text("HOST = 'db7'\nPORT = 8443\n")
    data = DataFolder(tmp_path / "data", secrets=[])
    observer = ChatObserver(DEMO_SESSION, TOUR_WINDOW)
    launch = create_demo_launch(workspace, "default", TOUR_WINDOW, {"provider": "openai", "model": "scripted"})
    provider = ScriptedProvider("openai_chat", list_tour_answers())

    def provider_for(_: LaunchOptions) -> ScriptedProvider:
        return provider

    async def watched() -> str:
        app = GuidedApp(data, launch, workspace, observer, script=TOUR_SCRIPT, provider_for=provider_for, reading=0.2)
        seen = ""
        async with app.run_test(size=(100, 40)) as pilot:
            for _ in range(1200):
                screen = "\n".join(screen_lines(app))
                seen += screen
                if "The tour is over" in screen:
                    break
                await pilot.pause(0.02)
        return seen

    try:
        seen = asyncio.run(watched())
    finally:
        data.close()
    assert (workspace / "ports.py").read_text() == "HOST = 'db7'\nPORT = 9000\n"
    for words in ("This is a scripted tour", "May edit run?", "- PORT = 8443", "May shell run?", "The tour is over"):
        assert words in seen, words
    assert observer.has_compacted


def test_the_chat_says_how_to_connect_a_model(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["Hello."], size=(100, 30)) as stage:
            assert "ollama/qwen3:8b" not in stage.text()
            await stage.press("f4")
            for words in ("export ANTHROPIC_API_KEY", "--model ollama/qwen3:8b", "TIDEGATE_OPENAI_BASE_URL"):
                await stage.sees(words)

    played(play)
