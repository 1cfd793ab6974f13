"""A screen that shows a long text."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from tidegate.terminal.output import TextSanitizer


class TextScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "leave", "Close")]

    def __init__(self, name: str, text: str, sanitizer: TextSanitizer) -> None:
        super().__init__()
        self._title = sanitizer.sanitize_line(name)
        self._text = sanitizer(text)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="reading"):
            yield Static(Text(self._text, overflow="fold"), markup=False)

    def on_mount(self) -> None:
        reading = self.query_one(VerticalScroll)
        reading.border_title = Text(self._title).markup
        reading.border_subtitle = "↑↓ pgup pgdn scroll · esc closes"
        reading.focus()

    def action_leave(self) -> None:
        _ = self.dismiss(None)
