"""The short list of completions above the input."""

from collections.abc import Callable
from typing import Final

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from tidegate.core.text.terminal_text import clean_line
from tidegate.tui.composer.composer import CompletionToken

_MAX_ROWS: Final = 6


class CompletionMenu(Widget):
    """Never has the focus: the composer forwards the keys. `was_moved`: the user selected a line with the arrows."""

    DEFAULT_CSS = """
    CompletionMenu { height: auto; max-height: 6; display: none; background: $panel; padding: 0 1; }
    CompletionMenu.open { display: block; }
    CompletionMenu { text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.token: CompletionToken | None = None
        self.choices: list[str] = []
        self.was_moved = False
        self._describe: Callable[[str], str] = lambda _: ""
        self._selected_index = 0

    @property
    def is_open(self) -> bool:
        return bool(self.choices)

    @property
    def chosen(self) -> str:
        return self.choices[self._selected_index] if self.choices else ""

    def show_choices(
        self, token: CompletionToken | None, choices: list[str], about: Callable[[str], str] = lambda _: ""
    ) -> None:
        """Show these choices. `about` describes a choice in a few words."""
        same = self.token is not None and token is not None and self.chosen in choices
        self._selected_index = choices.index(self.chosen) if same and self.choices else 0
        self.was_moved = same and self.was_moved
        self.token, self.choices, self._describe = token, choices, about
        self.set_class(bool(choices), "open")
        self.refresh(layout=True)

    def close(self) -> None:
        self.show_choices(None, [])

    def move(self, step: int) -> None:
        if self.choices:
            self._selected_index = (self._selected_index + step) % len(self.choices)
            self.was_moved = True
            self.refresh()

    def render(self) -> Text:
        first = max(0, min(self._selected_index - _MAX_ROWS // 2, len(self.choices) - _MAX_ROWS))
        rows = self.choices[first : first + _MAX_ROWS]
        column = max(cell_len(clean_line(choice)) for choice in self.choices) if self.choices else 0
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        for place, choice in enumerate(rows, first):
            is_chosen, name, about = place == self._selected_index, clean_line(choice), self._describe(choice)
            text.append("\n" if place > first else "")
            text.append(("› " if is_chosen else "  ") + name, style="bold" if is_chosen else "dim")
            text.append(" " * (column - cell_len(name) + 2) + about if about else "", style="" if is_chosen else "dim")
        return text
