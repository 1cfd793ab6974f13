"""The input field: several lines, history and completion."""

import re
from typing import Final, NamedTuple

from textual import events
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult

from tidegate.core.text.terminal_text import clean_text
from tidegate.terminal.output import TAB_WIDTH
from tidegate.tui.composer.draft import MAX_TYPED_CHARS, MessageDraft
from tidegate.tui.composer.file_mentions import find_pasted_image
from tidegate.tui.composer.input_history import InputHistory

NEW_LINE_KEYS: Final = ("ctrl+j", "alt+enter", "shift+enter", "ctrl+enter")
"""Handled in `_on_key` and not bound: a binding runs only after the key passed every widget, and a fast typist's next
letters would overtake it."""


class CompletionToken(NamedTuple):
    """The word being typed that can be completed: where it begins in its line, and its text."""

    kind: str
    row: int
    start: int
    text: str


class Composer(TextArea):
    """The input field. Enter sends; ctrl+j, alt+enter and shift+enter start a new line.

    While a menu is open it takes some of the keys.
    """

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

    class MenuKeyPressed(Message):
        """A key for the menu: up, down, take, enter or close."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class QueueRecalled(Message):
        """Up was pressed in an empty input, or on a queued message that was taken back and not changed: the queued
        message before it may be taken back."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            compact=True,
            highlight_cursor_line=False,
            tab_behavior="focus",
        )
        self.input_history: InputHistory | None = None
        self.menu_is_open = False
        self.has_queued_messages = False
        self.left_keys: frozenset[str] = frozenset()
        """Keys that are not typed but left to the app: the answers to a question."""
        self.recalled_text = ""
        """The queued message that was taken back, as the input showed it at first."""
        self._folds = FoldedPastes()
        self._is_history_text = False
        self._draft = MessageDraft()
        self._unsent_draft: MessageDraft | None = None  # what was being written when the walk through the history began

    @property
    def draft(self) -> MessageDraft:
        """The current text as it is shown, with the ranges of it that were pasted."""
        return self._draft.with_text(self.text)

    @property
    def full_draft(self) -> MessageDraft:
        """The current text as it would be sent, with folded pastes in full."""
        return self._folds.expand_draft(self.draft)

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        return key not in self.left_keys and super().check_consume_key(key, character)

    async def _on_key(self, event: events.Key) -> None:
        key = event.key
        if self.menu_is_open and key in ("up", "down", "tab", "escape", "enter"):
            self._consume_key(event)
            self.post_message(self.MenuKeyPressed({"tab": "take", "enter": "enter", "escape": "close"}.get(key, key)))
        elif key == "enter":
            self._consume_key(event)
            self.send()
        elif key in NEW_LINE_KEYS:
            self._consume_key(event)
            self.insert("\n")
        elif key in ("tab", "backspace") and self._change_label(key):
            self._consume_key(event)
        elif key == "up" and self.cursor_location[0] == 0:
            self._consume_key(event)
            self._show_older()
        elif key == "down" and self.cursor_location[0] == self.document.line_count - 1:
            self._consume_key(event)
            self._show_newer()
        else:
            await super()._on_key(event)

    def _consume_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()

    def send(self) -> None:
        draft = self.full_draft
        text = draft.text.rstrip()
        if self.input_history is not None and text.strip():
            self.input_history.add(text)
        self.post_message(self.Sent(draft._replace(text=text)))
        self.replace_text(MessageDraft())

    def _change_label(self, key: str) -> bool:
        """Open the folded paste before the cursor (tab), or delete it (backspace). Return whether there is one."""
        row, column = self.cursor_location
        label = self._folds.find_label_before(self.document.get_line(row)[:column]) if self.selection.is_empty else ""
        if label:
            text = self._folds.get_text(label) if key == "tab" else ""
            self.move_cursor(self.replace(text, (row, column - len(label)), (row, column)).end_location)
        return bool(label)

    async def _on_paste(self, event: events.Paste) -> None:
        """Insert pasted text. It never sends, and control characters are removed. The path of an image, which a
        terminal pastes when a file is dropped on it, becomes a mention."""
        event.stop()
        event.prevent_default()
        text = clean_text(event.text).expandtabs(TAB_WIDTH)
        self.insert_block(find_pasted_image(text) or text)

    def insert_block(self, text: str, name: str = "pasted") -> None:
        """Insert text that was not typed. A long one is folded; its label begins with `name`."""
        start, end = self.selection
        result = self.replace(self._folds.fold_text(clean_text(text).expandtabs(TAB_WIDTH), name), start, end)
        self.move_cursor(result.end_location)

    def edit(self, edit: Edit) -> EditResult:
        self._draft = self.draft.replace_range(self._text_offset(edit.top), self._text_offset(edit.bottom), edit.text)
        result = super().edit(edit)
        self._update_draft()
        return result

    def _text_offset(self, location: tuple[int, int]) -> int:
        """Return the offset of a row and column in the text."""
        row, column = location
        return sum(len(self.document.get_line(above)) + 1 for above in range(row)) + column

    def undo(self) -> None:
        super().undo()
        self._update_draft()

    def redo(self) -> None:
        super().redo()
        self._update_draft()

    def _update_draft(self) -> None:
        self._draft, self._unsent_draft = self.draft, None

    # --- what was typed before ------------------------------------------------------------------------------------

    def _show_older(self) -> None:
        if self.has_queued_messages and self.text in ("", self.recalled_text):
            self.post_message(self.QueueRecalled())
            return
        text = self.input_history.older(self.text) if self.input_history is not None else None
        if text is not None:
            self._unsent_draft = self._unsent_draft or self.draft
            self.replace_text(MessageDraft().with_text(text), walking=True)

    def _show_newer(self) -> None:
        text = self.input_history.newer() if self.input_history is not None else None
        if text is not None:
            own = self._unsent_draft if self._unsent_draft is not None and self._unsent_draft.text == text else None
            self.replace_text(own or MessageDraft().with_text(text), walking=True)

    def replace_text(self, draft: MessageDraft, *, walking: bool = False) -> None:
        self._is_history_text = walking
        self.recalled_text = ""
        if not walking:
            self._unsent_draft, self._folds = None, FoldedPastes()
            draft = self._folds.fold_draft(draft)
        self.load_text(clean_text(draft.text).expandtabs(TAB_WIDTH))
        self._draft = draft if draft.text == self.text else MessageDraft.from_pasted(self.text)
        self.move_cursor(self.document.end)

    def on_text_area_changed(self) -> None:
        if not self._is_history_text and self.input_history is not None:
            self.input_history.reset()
        self._is_history_text = False

    # --- what may be meant ----------------------------------------------------------------------------------------

    def find_token(self) -> CompletionToken | None:
        """Return the token at the cursor: a command at the start of the first line, or a file after an `@`."""
        row, column = self.cursor_location
        line = self.document.get_line(row)[:column]
        if row == 0 and line.startswith("/") and self.document.line_count == 1:
            return CompletionToken("command", 0, 0, line)
        start = line.rfind("@")
        if start < 0 or (start and not line[start - 1].isspace()) or any(sign.isspace() for sign in line[start:]):
            return None
        return CompletionToken("file", row, start, line[start + 1 :])

    def insert_completion(self, token: CompletionToken, text: str) -> None:
        _, column = self.cursor_location
        result = self.replace(text, (token.row, token.start), (token.row, column))
        self.move_cursor(result.end_location)


_MIN_LINES: Final = 8
"""Lines from which a paste is folded: the input shows at most eight lines."""
_MIN_CHARS: Final = 1_000
_MAX_NAME_CHARS: Final = 40


class FoldedPastes:
    """Long pastes: each is shown as a short label, such as `[pasted 60 lines]`, and sent in full."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold_text(self, text: str, name: str = "pasted") -> str:
        """Return a label for a long text, or a short text unchanged. `name` says where the text is from."""
        lines = text.removesuffix("\n").count("\n") + 1
        if lines < _MIN_LINES and len(text) < _MIN_CHARS:
            return text
        name = name[:_MAX_NAME_CHARS].translate({ord("["): "(", ord("]"): ")"})
        size = f"{lines:,} lines" if lines >= _MIN_LINES else f"{len(text):,} characters"
        label, number = f"[{name} {size}]", 1
        while self._texts.get(label, text) != text:
            number += 1
            label = f"[{name} {size}, number {number}]"
        self._texts[label] = text
        return label

    def fold_draft(self, draft: MessageDraft) -> MessageDraft:
        """Return the draft with a label for each long pasted range."""
        for start, end in reversed(draft.pasted):
            label = self.fold_text(draft.text[start:end])
            if len(label) < end - start and len(label) <= MAX_TYPED_CHARS:
                draft = draft.replace_range(start, end, label)
        return draft

    def expand_draft(self, draft: MessageDraft) -> MessageDraft:
        """Return the draft with each label replaced by its text, which counts as pasted."""
        if not self._texts:
            return draft
        labels = re.compile("|".join(map(re.escape, self._texts)))
        for match in reversed(list(labels.finditer(draft.text))):
            draft = draft.replace_range(match.start(), match.end(), self._texts[match[0]])
        return draft

    def find_label_before(self, text: str) -> str:
        """Return the label that this text ends with, or ""."""
        return next((label for label in self._texts if text.endswith(label)), "")

    def get_text(self, label: str) -> str:
        return self._texts[label]
