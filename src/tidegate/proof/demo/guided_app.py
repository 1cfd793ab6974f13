"""The demonstration on a terminal: the chat app, driven by a script that explains its steps.

Any key ends the script and hands the chat to the user.
"""

import asyncio
from pathlib import Path
from typing import Final

from textual import events, work

from tidegate.agent.config.launch import LaunchOptions
from tidegate.datafolder.data_folder import DataFolder
from tidegate.proof.chat_proof import ChatObserver
from tidegate.proof.demo.script import TAKEOVER_TEXT, DemoStep, make_demo_script
from tidegate.terminal.exit_codes import EXIT_OK
from tidegate.tui.agent_thread import AgentOpened, ProviderFactory, ThreadEvent, use_configured_provider
from tidegate.tui.app import ChatApp
from tidegate.tui.composer.draft import MessageDraft

_READING_SECONDS: Final = 2.5
"""Seconds to read the narration before the script continues."""
_POLL_SECONDS: Final = 0.05
TAKEOVER_HINT: Final = "Any key ends the script, and the chat is yours."


def run_guided_demo(
    data: DataFolder,
    launch: LaunchOptions,
    workspace: Path,
    observer: ChatObserver,
) -> int:
    app = GuidedApp(data, launch, workspace, observer)
    app.run()
    if app.failure is not None:
        raise app.failure
    return app.return_code or EXIT_OK


class GuidedApp(ChatApp):
    def __init__(
        self,
        data: DataFolder,
        launch: LaunchOptions,
        workspace: Path,
        observer: ChatObserver,
        *,
        provider_for: ProviderFactory = use_configured_provider,
        reading: float = _READING_SECONDS,
    ) -> None:
        self.observer = observer
        self._script = make_demo_script(observer.window, lambda: observer.has_compacted)
        self._reading = reading
        self._is_playing = False
        self._taken_over = asyncio.Event()
        super().__init__(data, launch, workspace, provider_for=provider_for)

    def _receive_event(self, news: ThreadEvent) -> None:
        self.observer.observe(news)
        super()._receive_event(news)

    def _handle_opened(self, news: AgentOpened) -> None:
        super()._handle_opened(news)
        if not self._is_playing:
            self._is_playing = True
            self._play_script()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and self._is_playing and not self._taken_over.is_set():
            self._taken_over.set()
            self.composer.replace_text(MessageDraft())
            self._narrate(TAKEOVER_TEXT)
        await super().on_event(event)

    @work(group="guide")
    async def _play_script(self) -> None:
        self._narrate(f"{self._script.intro}\n{TAKEOVER_HINT}")
        for step in self._script.steps:
            if not await self._play_step(step):
                return
        await self._pause()
        if not self._taken_over.is_set():
            self._taken_over.set()
            self._narrate(TAKEOVER_TEXT)

    async def _play_step(self, step: DemoStep) -> bool:
        """Play one step. Return False if the user has taken over."""
        await self._pause()
        if self._taken_over.is_set():
            return False
        if step.narration:
            self._narrate(step.narration)
        self.composer.replace_text(MessageDraft(step.message))
        await self._pause()
        if self._taken_over.is_set():
            return False
        self.composer.replace_text(MessageDraft())
        self.on_composer_sent(self.composer.Sent(MessageDraft(step.message)))
        while not self._taken_over.is_set() and self._is_working():
            if self.approvals.is_open:
                await self._approve()
            await asyncio.sleep(_POLL_SECONDS)
        return not self._taken_over.is_set()

    async def _approve(self) -> None:
        """Show the question for a while, then allow it, unless the user has answered it."""
        await self._pause()
        if not self._taken_over.is_set():
            self.action_approve("once")

    def _is_working(self) -> bool:
        commands = any(each.group == "command" and each.is_running for each in self.workers)
        return commands or self.turn_state.is_busy or bool(self.turn_state.queue)

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._taken_over.wait(), self._reading)
        except TimeoutError:
            return

    def _narrate(self, text: str) -> None:
        self.turn_state.add_remark(text)
        self._show_live_blocks()
