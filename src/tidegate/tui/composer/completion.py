"""Completion of the input: commands of the registry and files of the workspace."""

import asyncio
import time
from pathlib import Path
from typing import Final

from tidegate.tui.agent_thread import AgentThread
from tidegate.tui.composer.completion_menu import CompletionMenu
from tidegate.tui.composer.composer import CompletionToken, Composer
from tidegate.tui.composer.file_mentions import list_workspace_files, match_files, measure_file
from tidegate.tui.status.status_bar import format_token_count

_FILE_LIST_SECONDS: Final = 5.0
"""Seconds for which a list of files is reused."""
_MAX_MEASURED: Final = 12
"""Files in the menu whose tokens are estimated; more would take too long."""


class InputCompletion:
    def __init__(self, composer: Composer, menu: CompletionMenu, agent_thread: AgentThread, workspace: Path) -> None:
        self._composer = composer
        self._menu = menu
        self._agent_thread = agent_thread
        self._workspace = workspace
        self._files: list[str] = []
        self._listed_at = -_FILE_LIST_SECONDS
        self._file_sizes: dict[str, int | None] = {}

    async def suggest(self) -> None:
        """Show completions for the current token. If the input changed while they were computed, drop them."""
        token = self._composer.find_token()
        choices = [] if token is None else await self._list_choices(token)
        if token == self._composer.find_token():
            self._menu.show_choices(token, choices, self._describe_choice)
            self._composer.menu_is_open = bool(choices)

    async def _list_choices(self, token: CompletionToken) -> list[str]:
        if token.kind == "file":
            if time.monotonic() - self._listed_at > _FILE_LIST_SECONDS:
                self._files = await asyncio.to_thread(list_workspace_files, self._workspace)
                self._listed_at = time.monotonic()
                self._file_sizes = {}
            files = await asyncio.to_thread(match_files, self._files, token.text)
            await asyncio.to_thread(self._measure_files, files[:_MAX_MEASURED])
            return files
        if " " not in token.text:
            names = self._agent_thread.commands.complete(token.text)
            return [] if names == [token.text] else names
        lines = await asyncio.wrap_future(self._agent_thread.complete_command(token.text))
        return [line for line in lines if line != token.text]

    def _measure_files(self, names: list[str]) -> None:
        for name in names:
            if name not in self._file_sizes:
                self._file_sizes[name] = measure_file(self._workspace / name)

    def _describe_choice(self, choice: str) -> str:
        """Return the description of a command, or the size of a file. Arguments need none."""
        if (tokens := self._file_sizes.get(choice)) is not None:
            return f"about {format_token_count(tokens)} tokens"
        call = self._agent_thread.commands.find(choice) if choice.startswith("/") else None
        return call.command.description if call is not None and call.command is not None and not call.arguments else ""

    def handle_key(self, key: str) -> None:
        """Handle a key while the menu is open.

        Enter sends a command that is typed in full, or the selected one if it needs no arguments. An argument is
        inserted by enter only if the user moved to it.
        """
        if key in ("up", "down"):
            self._menu.move(-1 if key == "up" else 1)
        elif key == "close":
            self.close()
        elif key == "enter" and self._is_complete_command():
            self.close()
            self._composer.send()
        else:
            whole = key == "enter" and self._takes_no_argument(self._menu.chosen)
            self._insert_choice()
            if whole:
                self._composer.send()

    def _is_complete_command(self) -> bool:
        token = self._composer.find_token()
        if token is None or token.kind != "command" or self._menu.was_moved:
            return False
        command = self._agent_thread.commands.find(token.text).command
        return command is not None and (" " in token.text or token.text == f"/{command.name}")

    def _takes_no_argument(self, choice: str) -> bool:
        call = self._agent_thread.commands.find(choice) if choice.startswith("/") else None
        command = call.command if call is not None and not call.arguments else None
        return command is not None and (not command.usage or command.usage.startswith("["))

    def _insert_choice(self) -> None:
        token, choice = self._composer.find_token(), self._menu.chosen
        self.close()
        if token is None or not choice:
            return
        mention = f'@"{choice}"' if " " in choice else f"@{choice}"
        self._composer.insert_completion(token, f"{mention} " if token.kind == "file" else f"{choice} ")

    def close(self) -> None:
        self._menu.close()
        self._composer.menu_is_open = False
