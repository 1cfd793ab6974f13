"""The frame around the input. Its title shows the session, the position in it, and the size of mentioned files."""

import asyncio
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static, TextArea

from tidegate.tui.composer.composer import Composer
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.composer.file_mentions import measure_mentions
from tidegate.tui.status.status_bar import format_token_count


class InputFrame(Vertical):
    def __init__(self, workspace: Path, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._workspace = workspace
        self._session_name = ""
        self._position: int | None = None
        self._attached_tokens = 0

    def compose(self) -> ComposeResult:
        with Horizontal(id="line"):
            yield Static("›", id="sign", markup=False)
            yield Composer(id="composer")

    def show_place(self, session_name: str, position: int | None) -> None:
        """Show the session (a sanitized name) and the position in percent, or None at the end of the conversation."""
        self._session_name, self._position = session_name.replace("[", "("), position
        self._update_title()

    def _update_title(self) -> None:
        place = f"↑ at {self._position}% · ctrl+end · " if self._position is not None else ""
        size = f"files: about {format_token_count(self._attached_tokens)} tokens · " if self._attached_tokens else ""
        self.border_title = f"{place}{size}{self._session_name}"

    @on(TextArea.Changed, "#composer")
    def _follow_typing(self) -> None:
        self._measure_mentions(self.query_one(Composer).draft)

    @work(group="measure", exclusive=True)
    async def _measure_mentions(self, draft: MessageDraft) -> None:
        """Show how many tokens the mentioned files would add."""
        tokens = await asyncio.to_thread(measure_mentions, draft, self._workspace) if "@" in draft.text else 0
        if tokens != self._attached_tokens:
            self._attached_tokens = tokens
            self._update_title()
