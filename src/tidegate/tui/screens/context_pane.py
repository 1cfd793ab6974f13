"""The screen of F2: what fills the window and what was removed; entries can be shown, recalled and undone."""

import asyncio
from concurrent.futures import Future
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tidegate.commands.registry import CommandContext
from tidegate.core.errors import TidegateError
from tidegate.core.events import NoteAdded
from tidegate.core.notes import StateNote
from tidegate.session.recall import recall_text
from tidegate.session.reports.state_note_report import StateNoteReport, split_note
from tidegate.session.reports.timeline import Timeline, TimelineEntry, read_timeline
from tidegate.session.reports.window_usage import WindowUsage, measure_window_usage
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.agent_thread import AgentThread
from tidegate.tui.screens.context_table import (
    MESSAGE_HEADER,
    FillStyles,
    clip_details,
    describe_timeline_entry,
    format_category_header,
    format_next_trigger,
    format_timeline_header,
    measure_name_column,
    render_category_row,
    render_fill_bar,
    render_fill_title,
    render_legend,
    render_message_row,
    render_timeline_row,
)
from tidegate.tui.themes import make_palette


class TextScreen(ModalScreen[None]):
    """A screen that shows a long text."""

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


_MAX_SHOWN_CHARS = 60_000
_SOURCE_CHARS = 4_000
"""Of a message that a state note cites."""
_DETAIL_LINES = 3
"""Lines below the list."""


class ContextFigures(NamedTuple):
    filling: WindowUsage
    timeline: Timeline


class ContextPane(Screen[str]):
    """Returns a command line to run in the conversation, or nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f2,q", "leave", "Close"),
        Binding("tab,left,right", "turn", "Other list"),
        Binding("u", "undo", "Undo down to here"),
        Binding("y", "redo", "Redo"),
        Binding("r", "recall", "Recall"),
        Binding("a", "again", "Refresh"),
    ]

    def __init__(self, agent_thread: AgentThread, sanitizer: TextSanitizer) -> None:
        super().__init__()
        self._agent_thread = agent_thread
        self._sanitizer = sanitizer
        self.figures: ContextFigures | None = None
        self.listing = "fills"

    def compose(self) -> ComposeResult:
        yield Static("loading…", id="title", markup=False)
        yield Static("", id="bar", markup=False)
        yield Static("", id="legend", markup=False)
        yield Static("", id="trigger", markup=False)
        yield Static("", id="tabs", markup=False)
        yield Static("", id="head", markup=False)
        yield OptionList(id="list", markup=False)
        yield Static("", id="about", markup=False)
        yield Static(
            "tab list · enter show · r recall · u undo · y redo · a refresh · esc close", id="keys", markup=False
        )

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self.app.theme_changed_signal.subscribe(self, lambda _: self._update_widgets())
        self.action_again()

    @work(exclusive=True)
    async def action_again(self) -> None:
        try:
            self.figures = await asyncio.wrap_future(self._agent_thread.run_with_context(_read_figures))
        except TidegateError as bad:
            self.query_one("#title", Static).update(Text(self._sanitizer(str(bad))))
            return
        self._update_widgets()

    def on_resize(self) -> None:
        self._update_widgets()

    # --- showing --------------------------------------------------------------------------------------------------

    def _update_widgets(self) -> None:
        if self.figures is None:
            return
        usage, width = self.figures.filling, max(40, self.size.width - 2)
        palette = make_palette(self.app.theme_variables, dark=self.app.current_theme.dark)
        styles = FillStyles(palette.success, palette.warning, palette.error, palette.accent, palette.faint)
        for name, text in (
            ("title", render_fill_title(usage, width, styles)),
            ("bar", render_fill_bar(usage, width, styles)),
            ("legend", render_legend(usage, width + 2, styles)),
            ("trigger", Text(self._sanitizer.sanitize_line(format_next_trigger(usage)))),
            ("tabs", self._render_tabs()),
            ("head", Text(self._format_header(width), no_wrap=True)),
        ):
            self.query_one(f"#{name}", Static).update(text)
        self._update_list(width)
        self._update_details()

    def _update_list(self, width: int) -> None:
        """Fill the list. The selected row stays selected if it still exists."""
        option_list = self.query_one(OptionList)
        selected_id, context = self._selected_option_id(), option_list.highlighted or 0
        options = self._make_options(width)
        option_list.clear_options()
        option_list.add_options(options)
        there = [number for number, option in enumerate(options) if option.id == selected_id and selected_id]
        if options:
            option_list.highlighted = there[0] if there else min(context, len(options) - 1)

    def _render_tabs(self) -> Text:
        text = Text()
        names = (("fills", "what fills the window"), ("timeline", "what was done to it"))
        for name, words in names:
            text.append(f" {words} ", style="reverse" if name == self.listing else "dim")
            text.append("  ")
        return text

    def _format_header(self, width: int) -> str:
        assert self.figures is not None
        entries = self.figures.timeline.entries
        if self.listing == "fills":
            return format_category_header(width)
        return format_timeline_header(measure_name_column(entries, width, self._sanitizer)) if entries else ""

    def _make_options(self, width: int) -> list[Option]:
        assert self.figures is not None
        usage, timeline = self.figures
        if self.listing == "timeline":
            column = measure_name_column(timeline.entries, width, self._sanitizer)
            lines = [
                Option(render_timeline_row(entry, column, self._sanitizer), id=f"t{entry.change.seq}")
                for entry in timeline.entries
            ]
            return lines or [_make_disabled_option("nothing yet")]
        shares = [
            Option(render_category_row(share, usage, width, self._sanitizer), id=f"s{context}")
            for context, share in enumerate(usage.categories)
        ]
        pieces = [
            Option(render_message_row(piece, width, self._sanitizer), id=f"p{piece.id}") for piece in usage.messages
        ]
        head = [_make_disabled_option(MESSAGE_HEADER)] if pieces else []
        rest = (
            [_make_disabled_option(f"    and {usage.omitted_count:,} smaller messages")] if usage.omitted_count else []
        )
        return [*shares, *head, *pieces, *rest]

    def on_option_list_option_highlighted(self) -> None:
        self._update_details()

    def _update_details(self) -> None:
        self.query_one("#about", Static).update(
            Text(clip_details(self._list_details(), max(40, self.size.width - 2), _DETAIL_LINES))
        )

    def _list_details(self) -> list[str]:
        """Return the details of the selected row."""
        entry = self._selected_entry()
        if entry is not None:
            return describe_timeline_entry(entry, self._sanitizer)
        pieces = self.figures.filling.messages if self.figures is not None else ()
        return [
            self._sanitizer.sanitize_line(piece.reason) for piece in pieces if piece.id == self._selected_message_id()
        ]

    def _selected_option_id(self) -> str:
        option = self.query_one(OptionList).highlighted_option
        return option.id or "" if option is not None else ""

    def _selected_message_id(self) -> str:
        selected_id = self._selected_option_id()
        return selected_id[1:] if selected_id.startswith("p") else ""

    def _selected_entry(self) -> TimelineEntry | None:
        selected_id = self._selected_option_id()
        if self.figures is None or not selected_id.startswith("t"):
            return None
        return next((each for each in self.figures.timeline.entries if f"t{each.change.seq}" == selected_id), None)

    # --- keys -----------------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        _ = self.dismiss("")

    def action_turn(self) -> None:
        self.listing = "timeline" if self.listing == "fills" else "fills"
        self._update_widgets()

    def on_option_list_option_selected(self) -> None:
        entry, ident = self._selected_entry(), self._selected_message_id()
        if entry is not None and entry.change.name == StateNote.topic:
            self._show_state_note(entry.change.seq)
        elif entry is not None:
            name = entry.change.rule or entry.change.title
            self._show_messages(f"removed or shortened by {name}", [*entry.removed_ids, *entry.shortened_ids])
        elif ident:
            self._show_messages(ident, [ident])

    @work(exclusive=True)
    async def _show_messages(self, name: str, ids: list[str]) -> None:
        async def read_texts(context: CommandContext) -> str:
            texts, room = list[str](), _MAX_SHOWN_CHARS
            for ident in ids:
                texts.append(recall_text(context.session.log, ident, max_chars=max(400, room)).text)
                room -= len(texts[-1])
                if room <= 0:
                    break
            left = len(ids) - len(texts)
            return "\n".join(texts) + (f"\n… and {left:,} more" if left else "")

        about = "\n".join(self._list_details())
        text = (
            await asyncio.wrap_future(self._agent_thread.run_with_context(read_texts))
            or "Nothing left the window here."
        )
        _ = self.app.push_screen(TextScreen(name, f"{about}\n\n{text}" if about else text, self._sanitizer))

    @work(exclusive=True)
    async def _show_state_note(self, seq: int) -> None:
        """Show a state note, and below it the messages that it cites."""

        async def describe(context: CommandContext) -> str:
            log = context.session.log
            text = str(await asyncio.to_thread(StateNoteReport, log, seq))
            payload = next(iter(log.read(seq))).payload
            parts = split_note(payload.text) if isinstance(payload, NoteAdded) else None
            texts, room = [text], _MAX_SHOWN_CHARS - len(text)
            for ident in parts.list_sources() if parts else ():
                if room <= 0:
                    break
                texts.append(recall_text(log, ident, max_chars=max(400, min(room, _SOURCE_CHARS))).text)
                room -= len(texts[-1])
            return "\n\n".join(texts)

        text = await asyncio.wrap_future(self._agent_thread.run_with_context(describe))
        _ = self.app.push_screen(TextScreen("the state note and the messages that it cites", text, self._sanitizer))

    def action_recall(self) -> None:
        """Run /recall: the text is shown in the conversation."""
        entry = self._selected_entry()
        ids = [*entry.removed_ids, *entry.shortened_ids] if entry is not None else [self._selected_message_id()]
        numbers = sorted(int(ident[1:]) for ident in ids if ident[:1] == "m" and ident[1:].isdigit())
        if numbers:
            _ = self.dismiss(f"/recall m{numbers[0]}" + (f"..m{numbers[-1]}" if numbers[-1] != numbers[0] else ""))

    @work(exclusive=True)
    async def action_undo(self) -> None:
        """Undo compactions, newest first, down to the selected one."""
        entry = self._selected_entry()

        async def undone(context: CommandContext) -> int:
            context.require_idle()
            count = 0
            while entry is not None and not entry.change.is_undone:
                seq = context.session.history.undo()
                count += seq is not None
                if seq is None or seq <= entry.change.seq:
                    break
            return count

        await self._report_change(self._agent_thread.run_with_context(undone), "undone")

    @work(exclusive=True)
    async def action_redo(self) -> None:
        async def redone(context: CommandContext) -> int:
            context.require_idle()
            return int(context.session.history.redo() is not None)

        await self._report_change(self._agent_thread.run_with_context(redone), "redone")

    async def _report_change(self, count_future: "Future[int]", words: str) -> None:
        try:
            count = await asyncio.wrap_future(count_future)
        except TidegateError as bad:
            self.notify(self._sanitizer(str(bad)), severity="error", markup=False)
            return
        self.notify(f"{count} {words}." if count else f"Nothing to be {words}.", markup=False)
        self.action_again()


def _make_disabled_option(words: str) -> Option:
    """Return a line that cannot be selected."""
    return Option(Text(words, style="dim", no_wrap=True, overflow="ellipsis", end=""), disabled=True)


async def _read_figures(context: CommandContext) -> ContextFigures:
    usage = measure_window_usage(
        context.session, prompt_parts=context.prompt_parts, model_overrides=context.model_overrides
    )
    return ContextFigures(usage, read_timeline(context.session.log, model_overrides=context.model_overrides))
