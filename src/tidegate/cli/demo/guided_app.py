"""The demonstration on a terminal: the app itself, with someone at the keys who tells what they do.

Whatever key is pressed, the script is over and the chat is the user's.
"""

import asyncio
from pathlib import Path
from typing import Final

from textual import events, work

from tidegate.cli.demo.script import DEMO_SCRIPT, INTRO_TEXT, TAKEOVER_TEXT, DemoStep
from tidegate.commands.agent_launch import LaunchOptions
from tidegate.datafolder.data_folder import DataFolder
from tidegate.proof.chat_proof import ChatObserver
from tidegate.terminal.exit_codes import EXIT_OK
from tidegate.tui.agent_thread import AgentOpened, ProviderFactory, ThreadEvent, use_configured_provider
from tidegate.tui.app import ChatApp
from tidegate.tui.composer.draft import MessageDraft

_READING_SECONDS: Final = 2.5
"""Seconds to read what stands there before the script goes on."""
_POLL_SECONDS: Final = 0.05
TAKEOVER_HINT: Final = "Any key ends the script, and the chat is yours."


def run_guided_demo(data: DataFolder, opening: LaunchOptions, workspace: Path, seen: ChatObserver) -> int:
    app = GuidedApp(data, opening, workspace, seen)
    app.run()
    if app.failure is not None:
        raise app.failure
    return app.return_code or EXIT_OK


class GuidedApp(ChatApp):
    def __init__(
        self,
        data: DataFolder,
        opening: LaunchOptions,
        workspace: Path,
        seen: ChatObserver,
        *,
        provider_for: ProviderFactory = use_configured_provider,
        reading: float = _READING_SECONDS,
    ) -> None:
        self.seen = seen
        self._reading = reading
        self._guide = False
        self._left = asyncio.Event()
        super().__init__(data, opening, workspace, provider_for=provider_for)

    def _tell(self, news: ThreadEvent) -> None:
        self.seen.take(news)
        super()._tell(news)

    def _opened(self, news: AgentOpened) -> None:
        super()._opened(news)
        if not self._guide:
            self._guide = True
            self._play()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and self._guide and not self._left.is_set():
            self._left.set()
            self.composer.put(MessageDraft())
            self._say(TAKEOVER_TEXT)
        await super().on_event(event)

    @work(group="guide")
    async def _play(self) -> None:
        self._say(f"{INTRO_TEXT.format(window=self.seen.window)}\n{TAKEOVER_HINT}")
        for step in DEMO_SCRIPT:
            if not await self._played(step):
                return
        await self._pause()
        if not self._left.is_set():
            self._left.set()
            self._say(TAKEOVER_TEXT)

    async def _played(self, step: DemoStep) -> bool:
        """False: someone else plays on."""
        await self._pause()
        if self._left.is_set():
            return False
        if step.why:
            self._say(step.why)
        self.composer.put(MessageDraft(step.says))
        await self._pause()
        if self._left.is_set():
            return False
        self.composer.put(MessageDraft())
        self.on_composer_sent(self.composer.Sent(MessageDraft(step.says)))
        while not self._left.is_set() and self._works():
            await asyncio.sleep(_POLL_SECONDS)
        return not self._left.is_set()

    def _works(self) -> bool:
        commands = any(each.group == "command" and each.is_running for each in self.workers)
        return commands or self.talk.busy or bool(self.talk.queue)

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._left.wait(), self._reading)
        except TimeoutError:
            return

    def _say(self, text: str) -> None:
        self.talk.remark(text)
        self._flow()
