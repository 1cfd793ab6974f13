"""The pickers of the chat: each shows its screen and returns what the user picked, or None."""

from pathlib import Path
from typing import Any, NamedTuple

from textual.app import App

from tidegate.commands.agent_commands import CONNECT_TEXT
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.session_names import make_session_name
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.agent_thread import AgentThread
from tidegate.tui.composer.input_history import InputHistory
from tidegate.tui.screens.picker import Picker, PickerChoice
from tidegate.tui.screens.picker_choices import (
    NEW_SESSION,
    create_history_source,
    create_model_source,
    create_request_source,
    create_session_source,
)
from tidegate.tui.themes import list_theme_names


class PickedRequest(NamedTuple):
    """A message of the user: its record number in the log, and its text."""

    seq: int
    text: str


class ChatPickers:
    def __init__(
        self, app: App[Any], data: DataFolder, workspace: Path, agent_thread: AgentThread, sanitizer: TextSanitizer
    ) -> None:
        self._app = app
        self._data = data
        self._workspace = workspace
        self._agent_thread = agent_thread
        self._sanitizer = sanitizer

    async def pick_session(self, current: str) -> str | None:
        """Return the name of a session, a new one for the first choice; None also for the current one."""
        source = create_session_source(self._data, self._workspace, self._sanitizer, current)
        hint = "type to search in the sessions of all folders"
        name = await self._app.push_screen_wait(Picker("sessions of this folder", source, hint=hint))
        return make_session_name(current) if name == NEW_SESSION else name if name != current else None

    async def pick_model(self) -> str | None:
        source = create_model_source(self._agent_thread, self._sanitizer)
        return await self._app.push_screen_wait(Picker("models", source, free=True, notes=CONNECT_TEXT))

    async def pick_theme(self) -> str | None:
        async def search(words: str) -> list[PickerChoice]:
            return [PickerChoice(name, name) for name in list_theme_names() if words.casefold() in name]

        return await self._app.push_screen_wait(Picker("themes", search))

    async def pick_input(self, history: InputHistory) -> str | None:
        return await self._app.push_screen_wait(
            Picker("earlier inputs", create_history_source(history, self._sanitizer))
        )

    async def pick_request(self, session: str) -> PickedRequest | None:
        source = create_request_source(self._data, session, self._sanitizer)
        picked = await self._app.push_screen_wait(Picker("go back to a message of yours; the session is kept", source))
        if picked is None:
            return None
        seq, _, text = picked.partition(" ")
        return PickedRequest(int(seq), text)
