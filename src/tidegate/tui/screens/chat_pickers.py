"""The pickers of the chat: each shows its screen and returns what the user picked, or None."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tidegate.commands.agent_commands import CONNECT_TEXT
from tidegate.core.errors import TidegateError
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.session_names import make_session_name, read_session_title
from tidegate.datafolder.workspaces import find_workspace
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.agent_thread import AgentThread
from tidegate.tui.composer.input_history import InputHistory, read_inputs_backwards
from tidegate.tui.conversation.block_renderer import shorten_cells
from tidegate.tui.screens.context_table import format_age
from tidegate.tui.themes import list_theme_names

_MAX_CHOICES: Final = 200
_MIN_DESCRIPTION_CELLS: Final = 14
_MIN_NAME_CELLS: Final = 44
"""Cells of a name on a wide screen, if its description would fill the row."""


class PickerChoice(NamedTuple):
    """`about` is shown after the name, dimmed. Both are sanitized."""

    value: str
    name: str
    description: str = ""


ChoiceSource = Callable[[str], Awaitable[list[PickerChoice]]]
"""Returns the choices for the typed text, best first."""


class Picker(ModalScreen[str | None]):
    """Returns the value of the choice, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close", priority=True),
        Binding("up", "move(-1)", priority=True),
        Binding("down", "move(1)", priority=True),
        Binding("pageup", "move(-8)", priority=True),
        Binding("pagedown", "move(8)", priority=True),
    ]

    def __init__(
        self, name: str, source: ChoiceSource, *, free: bool = False, hint: str = "type to search", notes: str = ""
    ) -> None:
        """With `free`, the typed text itself can be taken, too. `hint` is shown until something is typed, `notes` below
        the choices."""
        super().__init__()
        self._title = name
        self._source = source
        self._accepts_typed = free
        self._hint = hint
        self._notes = notes
        self._shown_query: str | None = None
        self.choices: list[PickerChoice] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Input(placeholder=self._hint + ", or any other name" * self._accepts_typed, id="search")
            yield OptionList(id="list", markup=False)
            if self._notes:
                yield Static(self._notes, id="notes", markup=False)
            yield Static("↑↓ pgup pgdn choose · enter take · esc close", id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#picker").border_title = self._title
        self.query_one(Input).focus()
        self._search("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._search(event.value)

    @work(exclusive=True)
    async def _search(self, words: str) -> None:
        await self._update_choices(words)

    async def _update_choices(self, words: str) -> None:
        choices = (await self._source(words))[:_MAX_CHOICES]
        if words != self.query_one(Input).value:
            return
        value = words.strip()
        if self._accepts_typed and value and value not in [each.value for each in choices]:
            choices.append(PickerChoice(value, clean_line(value), "as typed"))
        self.choices, self._shown_query = choices, words
        self._show_choices(0)

    def _show_choices(self, highlighted: int) -> None:
        listed = self.query_one(OptionList)
        width = listed.size.width - (len(self.choices) > listed.size.height)  # one cell for the scrollbar
        listed.clear_options()
        listed.add_options(
            [Option(_format_choice(each, width), id=str(place)) for place, each in enumerate(self.choices)]
        )
        listed.highlighted = highlighted if self.choices else None

    def on_resize(self) -> None:
        """Cut the names again for the new width."""
        if self.choices:
            self.call_after_refresh(self._show_choices, self.query_one(OptionList).highlighted or 0)

    def action_move(self, step: int) -> None:
        listed = self.query_one(OptionList)
        if listed.option_count and listed.highlighted is not None:
            listed.highlighted = min(max(listed.highlighted + step, 0), listed.option_count - 1)

    @work(group="take", exclusive=True)
    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the choice for the current text, not for an older one that the list still shows."""
        if self._shown_query != event.value:
            await self._update_choices(event.value)
        place = self.query_one(OptionList).highlighted
        if self._shown_query == event.value and place is not None:
            _ = self.dismiss(self.choices[place].value)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take a choice by mouse."""
        _ = self.dismiss(self.choices[event.option_index].value)

    def action_leave(self) -> None:
        _ = self.dismiss(None)


def _format_choice(choice: PickerChoice, width: int) -> Text:
    """Return the row of a choice. The name is cut so that the description is seen, on a narrow screen its start."""
    described = cell_len(choice.description)
    room = max(width - described - 3, min(_MIN_NAME_CELLS, width - min(described, _MIN_DESCRIPTION_CELLS) - 3))
    name = choice.name
    if choice.description and 1 < room < cell_len(name):
        name = shorten_cells(name, room)
    text = Text(name, no_wrap=True, overflow="ellipsis", end="")
    return text.append(f"   {choice.description}", style="dim") if choice.description else text


# --- the pickers of the chat ------------------------------------------------------------------------------------------


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
        choice = await self._app.push_screen_wait(Picker("go back to a message of yours; the session is kept", source))
        if choice is None:
            return None
        seq, _, text = choice.partition(" ")
        return PickedRequest(int(seq), text)


NEW_SESSION: Final = "\n"
"""The value of the choice to start a new session: no session has this name."""
_MAX_SESSIONS: Final = 300
_MAX_REQUESTS: Final = 300
_MIN_SEARCH_CHARS: Final = 3


def create_session_source(data: DataFolder, workspace: Path, sanitizer: TextSanitizer, current: str) -> ChoiceSource:
    """Offer the sessions of this folder. Search them and those of other folders by name and title, then all by their
    whole text."""
    choices: list[PickerChoice] = []
    elsewhere: list[PickerChoice] = []

    async def search(words: str) -> list[PickerChoice]:
        if not choices and not elsewhere:
            for choice, is_here in await asyncio.to_thread(_list_sessions, data, workspace, sanitizer, current):
                (choices if is_here else elsewhere).append(choice)
        query_words = words.casefold().split()
        fit = [
            each
            for each in ([*choices, *elsewhere] if words else choices)
            if all(word in f"{each.name} {each.description}".casefold() for word in query_words)
        ]
        if not words:
            return [PickerChoice(NEW_SESSION, "+ a new session"), *fit]
        if len(words) >= _MIN_SEARCH_CHARS:
            inside = await asyncio.to_thread(_search_sessions, data, sanitizer, words)
            fit += [each for each in inside if each.value not in {other.value for other in fit}]
        return fit

    return search


def _list_sessions(
    data: DataFolder, workspace: Path, sanitizer: TextSanitizer, current: str
) -> list[tuple[PickerChoice, bool]]:
    """Return the sessions, the latest first, each with whether it was used in this folder."""
    sessions: list[tuple[PickerChoice, bool]] = []
    now, here = data.clock(), str(workspace.resolve())
    for info in data.store.sessions()[:_MAX_SESSIONS]:
        if ".task-" in info.name:
            continue
        folder = find_workspace(data, info.name)
        is_here = folder == here or info.name == current
        mark = " (here)" if info.name == current else ""
        name = sanitizer.sanitize_line(info.name)
        title = sanitizer.sanitize_line(read_session_title(data, info.name)) or name
        place = "" if is_here or not folder else f"  in {sanitizer.sanitize_line(Path(folder).name)}"
        about = f"{format_age(now - info.used)} ago{mark}{f'  {name}' if title != name else ''}{place}"
        sessions.append((PickerChoice(info.name, title, about), is_here))
    return sessions


def _search_sessions(data: DataFolder, sanitizer: TextSanitizer, words: str) -> list[PickerChoice]:
    try:
        hits = data.open_search().search(words, 40, kind="session")
    except TidegateError:
        return []
    choices: dict[str, PickerChoice] = {}
    for hit in hits:
        if ".task-" not in hit.name:
            choices.setdefault(
                hit.name,
                PickerChoice(hit.name, sanitizer.sanitize_line(hit.name), sanitizer.sanitize_line(hit.snippet)[:160]),
            )
    return list(choices.values())


def create_model_source(agent_thread: AgentThread, sanitizer: TextSanitizer) -> ChoiceSource:
    """Offer the completions of the command /model; the first is the model in use."""
    models: list[str] = []

    async def search(words: str) -> list[PickerChoice]:
        if not models:
            lines = await asyncio.wrap_future(agent_thread.complete_command("/model "))
            models.extend(line.removeprefix("/model ") for line in lines)
        query_words = words.casefold().split()
        return [
            PickerChoice(each, f"{sanitizer.sanitize_line(each)}{'  (in use)' if each == models[0] else ''}")
            for each in models
            if all(word in each.casefold() for word in query_words)
        ]

    return search


def create_history_source(history: InputHistory, sanitizer: TextSanitizer) -> ChoiceSource:
    """Search the earlier inputs. The value of a choice is the input."""

    async def search(words: str) -> list[PickerChoice]:
        inputs = await asyncio.to_thread(history.search, words)
        return [PickerChoice(text, _format_input(text, sanitizer)) for text in inputs]

    return search


def create_request_source(data: DataFolder, session: str, sanitizer: TextSanitizer) -> ChoiceSource:
    """Search the user's messages in a session. The value of a choice is the record number, a blank and the message."""
    choices: list[PickerChoice] = []

    def read() -> list[PickerChoice]:
        inputs = islice(read_inputs_backwards(data.open_log(session)), _MAX_REQUESTS)
        return [PickerChoice(f"{each.seq} {each.text}", _format_input(each.text, sanitizer)) for each in inputs]

    async def search(words: str) -> list[PickerChoice]:
        if not choices:
            choices.extend(await asyncio.to_thread(read))
        return [each for each in choices if all(word in each.value.casefold() for word in words.casefold().split())]

    return search


def _format_input(text: str, sanitizer: TextSanitizer) -> str:
    return sanitizer.sanitize_line(text[:4000])[:160]
