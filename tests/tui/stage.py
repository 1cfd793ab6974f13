"""The app on a screen that nobody sees: real keys, a real agent, a model that speaks from a script."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual import events
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
agents: [{id: main, model: {provider: openai, model: scripted}}]
window: 8000
models: {scripted: {input: 2, output: 8, cache_read: 0.2}}
execution: {state_notes: false}
"""
"""Without state notes: a scripted model answers in order, and would take a question for a note for the next step."""
DEADLINE = 300
"""Seconds after which a test that waits has failed. Nothing is measured with it: it only ends a test that hangs."""
KEY_NAMES = {" ": "space", "/": "slash", "@": "at", ".": "full_stop", "?": "question_mark", "!": "exclamation_mark"}


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
        """Press keys, each when the app has handled the one before. A key is a character or Textual's name of one."""
        for key in keys:
            self.app.post_message(events.Key(KEY_NAMES.get(key, key), key if len(key) == 1 else None))
            await self.settle()

    async def type(self, text: str) -> None:
        await self.press(*text)

    async def say(self, text: str) -> None:
        self.app.composer.replace_text(MessageDraft(text))
        await self.press("enter")

    async def resize(self, width: int, height: int) -> None:
        await self.pilot.resize_terminal(width, height)
        await self.settle()

    async def settle(self) -> None:
        """Wait until the app has handled all that was sent to it and has drawn its screen.

        A message can cause others, so it is done when no widget got one while the last two rounds were made. Textual's
        own `pause` guesses by the CPU time of the process.
        """
        calm_rounds = 0
        while calm_rounds < 2 and self.app.is_running:
            await self.pilot.pause(0)
            pumps = [self.app, *self.app.screen.walk_children(with_self=True)]
            calm_rounds = 0 if any(pump.message_queue_size for pump in pumps) else calm_rounds + 1

    async def until(self, holds: Callable[[], bool], what: str = "") -> None:
        """Wait for what another thread does. If it never comes, fail with the screen as it then is."""
        deadline, pause = time.monotonic() + DEADLINE, 0.004
        await self.settle()
        while not holds():
            assert time.monotonic() < deadline, f"it never came: {what or holds}\n{self.text()}"
            await asyncio.sleep(pause)
            pause = min(0.05, 1.25 * pause)
            await self.settle()

    async def sees(self, words: str) -> None:
        await self.until(lambda: words in self.text(), words)

    async def idle(self) -> None:
        """Wait until the agent is open and does nothing, and the status bar shows it."""

        def is_idle() -> bool:
            app = self.app
            return app.agent_ready and not app.turn_state.is_busy and app.status.figures.cost_is_complete

        await self.until(is_idle, "idle")

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
    wall_clock: Callable[[], float] = time.time,
) -> AsyncIterator[Stage]:
    """The app with a data folder and a workspace in `folder`. It measures times with `clock` and dates its records with
    `wall_clock`."""
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

    data = DataFolder(folder / "data", secrets=[], clock=wall_clock)
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
