"""The app on a screen that nobody sees: real keys, a real agent, a model that speaks from a script."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip

from tidegate import BadInput, DataFolder
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.runtime import OpenAgent
from tidegate.models.provider import Provider
from tidegate.models.scripted_provider import ScriptedProvider, ScriptStep
from tidegate.tui.app import ChatApp
from tidegate.tui.composer.draft import MessageDraft

CONFIG = """\
agents: [{id: main, brain: {provider: openai, model: scripted}}]
window: 8000
models: {scripted: {input: 2, output: 8, cache_read: 0.2}}
"""
LOOKS = 300


def screen_strips(app: App[Any]) -> list[Strip]:
    """The lines of the screen with their styles. Textual has no public way to read them back but an SVG picture."""
    return app.screen._compositor.render_strips()


def screen_lines(app: App[Any]) -> list[str]:
    """The text on the screen."""
    return [strip.text.rstrip() for strip in screen_strips(app)]


class Stage:
    """The app, its keys, and what stands on its screen."""

    def __init__(self, app: ChatApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def agent(self) -> OpenAgent:
        agent = self.app.agent_thread.agent
        assert agent is not None
        return agent

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        names = {
            " ": "space",
            "/": "slash",
            "@": "at",
            ".": "full_stop",
            "?": "question_mark",
            "-": "minus",
            "!": "exclamation_mark",
        }
        await self.pilot.press(*(names.get(letter, letter) for letter in text))

    async def say(self, text: str) -> None:
        self.app.composer.replace_text(MessageDraft(text))
        await self.pilot.press("enter")

    async def until(self, holds: Callable[[], bool], what: str = "") -> None:
        """Wait for what another thread does. What never comes is a failure, with the screen as it then is."""
        for look in range(LOOKS):
            if holds():
                return
            await self.pilot.pause(min(0.1, 0.005 * 1.25**look))
        raise AssertionError(f"it never came: {what or holds}\n{self.text()}")

    async def sees(self, words: str) -> None:
        await self.until(lambda: words in self.text(), words)

    async def idle(self) -> None:
        await self.until(lambda: self.app.agent_ready and not self.app.turn_state.is_busy, "idle")
        await self.pilot.pause()

    def lines(self) -> list[str]:
        return screen_lines(self.app)

    def text(self) -> str:
        return "\n".join(self.lines())


@asynccontextmanager
async def on_stage(
    folder: Path,
    steps: Sequence[ScriptStep] | Provider = (),
    *,
    name: str = "build",
    config: str = CONFIG,
    size: tuple[int, int] = (80, 24),
    open_now: bool = True,
    models: Mapping[str, Provider] | None = None,
    theme: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Stage]:
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    (workspace / "tidegate.yaml").write_text(config)
    environment = {"HOME": str(folder), "OPENAI_API_KEY": "sk-none"}
    opening = LaunchOptions(
        locate_config_files(workspace, environment, explicit_file=str(workspace / "tidegate.yaml")),
        environment,
        session_name=name,
    )
    provider = ScriptedProvider("openai_chat", steps) if isinstance(steps, Sequence) else steps

    def provider_for(asked: LaunchOptions) -> Provider:
        if asked.model.endswith("broken"):
            raise BadInput("It cannot be reached.", "Choose another.")
        return (models or {}).get(asked.model, provider)

    data = DataFolder(folder / "data", secrets=[])
    app = ChatApp(data, opening, workspace, provider_for=provider_for, theme=theme, clock=clock)
    try:
        async with app.run_test(size=size) as pilot:
            stage = Stage(app, pilot)
            if open_now:
                await stage.idle()
            yield stage
    finally:
        app.agent_thread.close()
        data.close()


def played(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(play())
