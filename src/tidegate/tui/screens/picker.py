"""A screen to choose one of many: type to search, arrow keys and enter to take one."""

from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tidegate.core.text.terminal_text import clean_line
from tidegate.tui.conversation.block_renderer import shorten_cells

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
