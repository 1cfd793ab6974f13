"""What may be meant by what is typed, in a short list above it."""

from typing import Final

from rich.text import Text
from textual.widget import Widget

from tidegate.apps.chat.composer import Token
from tidegate.apps.chat.safe import one_line

ROWS: Final = 6


class Menu(Widget):
    """It never has the focus: the keys come through the composer."""

    DEFAULT_CSS = """
    Menu { height: auto; max-height: 6; display: none; background: $panel; padding: 0 1; }
    Menu.open { display: block; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.token: Token | None = None
        self.choices: list[str] = []
        self._place = 0

    @property
    def is_open(self) -> bool:
        return bool(self.choices)

    @property
    def chosen(self) -> str:
        return self.choices[self._place] if self.choices else ""

    def show(self, token: Token | None, choices: list[str]) -> None:
        same = self.token is not None and token is not None and self.chosen in choices
        self._place = choices.index(self.chosen) if same and self.choices else 0
        self.token, self.choices = token, choices
        self.set_class(bool(choices), "open")
        self.refresh(layout=True)

    def close(self) -> None:
        self.show(None, [])

    def move(self, step: int) -> None:
        if self.choices:
            self._place = (self._place + step) % len(self.choices)
            self.refresh()

    def render(self) -> Text:
        first = max(0, min(self._place - ROWS // 2, len(self.choices) - ROWS))
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        for place, choice in list(enumerate(self.choices))[first : first + ROWS]:
            chosen = place == self._place
            text.append(("› " if chosen else "  ") + one_line(choice), style="bold" if chosen else "dim")
            text.append("\n" if place < min(len(self.choices), first + ROWS) - 1 else "")
        return text
