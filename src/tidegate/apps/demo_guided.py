"""The demonstration on a terminal: the app itself, with someone at the keys who tells what they do.

Whatever key is pressed, the script is over and the chat is the user's.
"""

import asyncio
from pathlib import Path
from typing import Final

from textual import events, work

from tidegate.agent.commands_opening import Opening
from tidegate.apps.chat.app import ChatApp
from tidegate.apps.chat.backstage import News, Opened, ProviderFor, _own
from tidegate.apps.chat.draft import Draft
from tidegate.apps.choices import OK
from tidegate.apps.demo_kept import Seen
from tidegate.apps.demo_script import INTRO, SCRIPT, YOURS, Step
from tidegate.keep.data import DataFolder

READING: Final = 2.5
"""Seconds to read what stands there before the script goes on."""
LOOK: Final = 0.05
LEAVE: Final = "Any key ends the script, and the chat is yours."


def guided(data: DataFolder, opening: Opening, workspace: Path, seen: Seen) -> int:
    app = GuidedApp(data, opening, workspace, seen)
    app.run()
    if app.failure is not None:
        raise app.failure
    return app.return_code or OK


class GuidedApp(ChatApp):
    def __init__(
        self,
        data: DataFolder,
        opening: Opening,
        workspace: Path,
        seen: Seen,
        *,
        provider_for: ProviderFor = _own,
        reading: float = READING,
    ) -> None:
        self.seen = seen
        self._reading = reading
        self._guide = False
        self._left = asyncio.Event()
        super().__init__(data, opening, workspace, provider_for=provider_for)

    def _tell(self, news: News) -> None:
        self.seen.take(news)
        super()._tell(news)

    def _opened(self, news: Opened) -> None:
        super()._opened(news)
        if not self._guide:
            self._guide = True
            self._play()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and self._guide and not self._left.is_set():
            self._left.set()
            self.composer.put(Draft())
            self._say(YOURS)
        await super().on_event(event)

    @work(group="guide")
    async def _play(self) -> None:
        self._say(f"{INTRO.format(window=self.seen.window)}\n{LEAVE}")
        for step in SCRIPT:
            if not await self._played(step):
                return
        await self._pause()
        if not self._left.is_set():
            self._left.set()
            self._say(YOURS)

    async def _played(self, step: Step) -> bool:
        """False: someone else plays on."""
        await self._pause()
        if self._left.is_set():
            return False
        if step.why:
            self._say(step.why)
        self.composer.put(Draft(step.says))
        await self._pause()
        if self._left.is_set():
            return False
        self.composer.put(Draft())
        self.on_composer_sent(self.composer.Sent(Draft(step.says)))
        while not self._left.is_set() and self._works():
            await asyncio.sleep(LOOK)
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
