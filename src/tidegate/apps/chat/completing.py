"""What may be meant by what is typed: commands of the registry, files of the workspace."""

import asyncio
import time
from pathlib import Path
from typing import Final

from tidegate.apps.chat.backstage import Backstage
from tidegate.apps.chat.composer import Composer, Token
from tidegate.apps.chat.mentions import files_in, fitting
from tidegate.apps.chat.menu import Menu

FRESH: Final = 5.0
"""Seconds for which a list of the files is good enough."""


class Completing:
    def __init__(self, composer: Composer, menu: Menu, backstage: Backstage, workspace: Path) -> None:
        self._composer = composer
        self._menu = menu
        self._backstage = backstage
        self._workspace = workspace
        self._files: list[str] = []
        self._looked = -FRESH

    async def suggest(self) -> None:
        """Whatever takes time is waited for: meanwhile one goes on typing, and what then comes too late is left."""
        token = self._composer.token()
        choices = [] if token is None else await self._choices(token)
        if token == self._composer.token():
            self._menu.show(token, choices)
            self._composer.suggesting = bool(choices)

    async def _choices(self, token: Token) -> list[str]:
        if token.kind == "file":
            if time.monotonic() - self._looked > FRESH:
                self._files = await asyncio.to_thread(files_in, self._workspace)
                self._looked = time.monotonic()
            return fitting(self._files, token.text)
        if " " not in token.text:
            names = self._backstage.commands.complete(token.text)
            return [] if names == [token.text] else names
        lines = await asyncio.wrap_future(self._backstage.complete(token.text))
        return [line for line in lines if line != token.text]

    def key(self, key: str) -> None:
        """A key while the menu is open. Enter sends what is a whole command already."""
        if key in ("up", "down"):
            self._menu.move(-1 if key == "up" else 1)
        elif key == "close":
            self.close()
        elif key == "enter" and self._whole():
            self.close()
            self._composer.send()
        else:
            self._take()

    def _whole(self) -> bool:
        token = self._composer.token()
        if token is None or token.kind != "command":
            return False
        found = self._backstage.commands.find(token.text).command
        return found is not None and (" " in token.text or token.text == f"/{found.name}")

    def _take(self) -> None:
        token, chosen = self._composer.token(), self._menu.chosen
        self.close()
        if token is None or not chosen:
            return
        quoted = f'@"{chosen}"' if " " in chosen else f"@{chosen}"
        self._composer.complete(token, f"{quoted} " if token.kind == "file" else f"{chosen} ")

    def close(self) -> None:
        self._menu.close()
        self._composer.suggesting = False
