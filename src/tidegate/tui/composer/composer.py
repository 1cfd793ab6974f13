"""Where the user writes: several lines, what was typed before, and what may be meant."""

from typing import Final, NamedTuple

from textual import events
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult

from tidegate.core.text.terminal_text import clean_text
from tidegate.terminal.output import TAB_WIDTH
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.composer.input_history import InputHistory

NEW_LINE_KEYS: Final = ("ctrl+j", "alt+enter", "shift+enter", "ctrl+enter")
"""Not bound: a binding has its turn when a key has been everywhere, and a fast writer's next letters would pass it."""


class CompletionToken(NamedTuple):
    """What is being typed that something may complete: where it begins in its line, and its text."""

    kind: str
    row: int
    start: int
    text: str


class Composer(TextArea):
    """Enter sends; ctrl+j, alt+enter and shift+enter begin a new line. `suggesting`: a menu is open, with some keys."""

    DEFAULT_CSS = """
    Composer { height: auto; min-height: 1; max-height: 8; border: none; padding: 0; background: $surface; }
    Composer:focus { border: none; background: $surface; background-tint: transparent; }
    Composer .text-area--cursor-line { background: transparent; }
    Composer .text-area--placeholder { color: $foreground 45%; }
    """

    class Sent(Message):
        def __init__(self, draft: MessageDraft) -> None:
            super().__init__()
            self.draft = draft

    class Menu(Message):
        """A key for the menu: up, down, take or close."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Recalled(Message):
        """Up was pressed where nothing is typed: what waits may be taken back."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            compact=True,
            highlight_cursor_line=False,
            tab_behavior="focus",
        )
        self.before: InputHistory | None = None
        self.suggesting = False
        self.waiting = False
        self._walking = False
        self._draft = MessageDraft()
        self._own: MessageDraft | None = None  # what was being written when the walk through the history began

    @property
    def draft(self) -> MessageDraft:
        """What is written now, with what of it was pasted."""
        return self._draft.changed(self.text)

    async def _on_key(self, event: events.Key) -> None:
        key = event.key
        if self.suggesting and key in ("up", "down", "tab", "escape", "enter"):
            self._taken(event)
            self.post_message(self.Menu({"tab": "take", "enter": "enter", "escape": "close"}.get(key, key)))
        elif key == "enter":
            self._taken(event)
            self.send()
        elif key in NEW_LINE_KEYS:
            self._taken(event)
            self.insert("\n")
        elif key == "up" and self.cursor_location[0] == 0:
            self._taken(event)
            self._back()
        elif key == "down" and self.cursor_location[0] == self.document.line_count - 1:
            self._taken(event)
            self._on()
        else:
            await super()._on_key(event)

    def _taken(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()

    def send(self) -> None:
        text = self.text.rstrip()
        if self.before is not None and text.strip():
            self.before.add(text)
        self.post_message(self.Sent(self.draft._replace(text=text)))
        self.put(MessageDraft())

    async def _on_paste(self, event: events.Paste) -> None:
        """What is pasted is text: it sends nothing, and whatever a terminal would obey is left out."""
        event.stop()
        event.prevent_default()
        start, end = self.selection
        result = self.replace(clean_text(event.text).expandtabs(TAB_WIDTH), start, end)
        self.move_cursor(result.end_location)

    def edit(self, edit: Edit) -> EditResult:
        self._draft = self.draft.replaced(self._place(edit.top), self._place(edit.bottom), edit.text)
        result = super().edit(edit)
        self._edited()
        return result

    def _place(self, location: tuple[int, int]) -> int:
        """Where in the text a row and column are."""
        row, column = location
        return sum(len(self.document.get_line(above)) + 1 for above in range(row)) + column

    def undo(self) -> None:
        super().undo()
        self._edited()

    def redo(self) -> None:
        super().redo()
        self._edited()

    def _edited(self) -> None:
        self._draft, self._own = self.draft, None

    # --- what was typed before ------------------------------------------------------------------------------------

    def _back(self) -> None:
        if self.waiting and not self.text:
            self.post_message(self.Recalled())
            return
        text = self.before.back(self.text) if self.before is not None else None
        if text is not None:
            self._own = self._own or self.draft
            self.put(MessageDraft().changed(text), walking=True)

    def _on(self) -> None:
        text = self.before.on() if self.before is not None else None
        if text is not None:
            own = self._own if self._own is not None and self._own.text == text else None
            self.put(own or MessageDraft().changed(text), walking=True)

    def put(self, draft: MessageDraft, *, walking: bool = False) -> None:
        self._walking = walking
        self._own = self._own if walking else None
        self.load_text(clean_text(draft.text).expandtabs(TAB_WIDTH))
        self._draft = draft if draft.text == self.text else MessageDraft.of_block(self.text)
        self.move_cursor(self.document.end)

    def on_text_area_changed(self) -> None:
        if not self._walking and self.before is not None:
            self.before.leave()
        self._walking = False

    # --- what may be meant ----------------------------------------------------------------------------------------

    def token(self) -> CompletionToken | None:
        """A command at the beginning of the first line, or a file behind an @."""
        row, column = self.cursor_location
        line = self.document.get_line(row)[:column]
        if row == 0 and line.startswith("/") and self.document.line_count == 1:
            return CompletionToken("command", 0, 0, line)
        start = line.rfind("@")
        if start < 0 or (start and not line[start - 1].isspace()) or any(sign.isspace() for sign in line[start:]):
            return None
        return CompletionToken("file", row, start, line[start + 1 :])

    def complete(self, token: CompletionToken, text: str) -> None:
        _, column = self.cursor_location
        result = self.replace(text, (token.row, token.start), (token.row, column))
        self.move_cursor(result.end_location)
