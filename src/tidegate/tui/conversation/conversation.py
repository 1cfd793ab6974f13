"""The scrolling conversation. It shows a part of the log: its cost depends on the screen, not on the session."""

from collections.abc import Iterable
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from tidegate.core.events import Event
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.conversation.block_renderer import BlockRenderer
from tidegate.tui.conversation.log_pages import LogPager
from tidegate.tui.conversation.row_cache import MAX_CACHED_ROWS, LinePosition, RowCache, RowPainter
from tidegate.tui.conversation.transcript_blocks import TranscriptBlock
from tidegate.tui.themes import make_palette


class Conversation(ScrollView, can_focus=False):
    """`toggled_keys` are the cards that differ from `all_open`. Both belong to the screen: no model ever sees them."""

    ALLOW_SELECT = True
    DEFAULT_CSS = """
    Conversation { background: $background; overflow-x: hidden; padding: 0 1; }
    Conversation { scrollbar-size-vertical: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,super+c", "screen.copy_text", "Copy", show=False)]

    all_open: var[bool] = var(False)
    selected_key: var[str] = var("")

    class Moved(Message):
        """The screen shows another part of the log. A scrollbar would only reflect the part in memory."""

    def __init__(self, pager: LogPager, sanitizer: TextSanitizer, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._sanitizer = sanitizer
        self._block_renderer: BlockRenderer | None = None
        self._is_scrolling = False
        self._sticky = True
        self._content_width = 0
        self._background_style: Style | None = None
        self.toggled_keys: set[str] = set()
        self.row_cache = RowCache(pager, self._make_painter())

    def show_session(self, pager: LogPager, sanitizer: TextSanitizer) -> None:
        """Show another session."""
        self._sanitizer = sanitizer
        self._block_renderer = None
        self.row_cache = RowCache(pager, self._make_painter())
        self.toggled_keys, self.selected_key, self.all_open = set(), "", False
        if self._content_width:
            self.show_end()

    # --- what happens ---------------------------------------------------------------------------------------------

    @property
    def is_following(self) -> bool:
        """Whether the screen stays at the end as text arrives. It does until the user scrolls away."""
        return self.row_cache.at_tail and self._sticky

    def add_event(self, event: Event) -> None:
        following = self.is_following
        self.row_cache.add_event(event)
        self._scroll_to_tail() if following else self._update_size()

    def add_remarks(self, blocks: Iterable[TranscriptBlock]) -> None:
        following = self.is_following
        for block in blocks:
            self.row_cache.add_remark(block)
        self._scroll_to_tail() if following else self._update_size()

    def set_live_blocks(self, blocks: Iterable[TranscriptBlock]) -> None:
        following = self.is_following
        self.row_cache.set_live_blocks(blocks)
        self._scroll_to_tail() if following else self._update_size()

    @property
    def position(self) -> int | None:
        """Position of the screen in the log in percent; None at its end."""
        spot = self.row_cache.locate_line(self.scroll_offset.y + self.size.height - 1)
        if self.is_following or spot is None or not self.row_cache.log_head:
            return None
        return min(99, 100 * self.row_cache.visible_rows[spot.row_index].seq // self.row_cache.log_head)

    def _scroll_to_tail(self) -> None:
        self.row_cache.trim_top()
        self._update_size()
        self._scroll(self.max_scroll_y)

    def show_end(self) -> None:
        self.row_cache.show_end(self._page_rows)
        self._sticky = True
        self._update_size()
        self._scroll(self.max_scroll_y)

    def show_start(self) -> None:
        self.row_cache.show_start(self._page_rows)
        self._sticky = False
        self._update_size()
        self._scroll(0)

    def show_head(self, key: str) -> None:
        """Scroll to the beginning of a block that is longer than the screen; otherwise the end stays in view."""
        places = [index for index, each in enumerate(self.row_cache.visible_rows) if each.block.key == key]
        top = self.row_cache.line_number(LinePosition(places[0], 0)) if places else self.max_scroll_y
        if top < self.max_scroll_y:
            self.scroll_to(y=top, animate=False, immediate=True, force=True)

    @property
    def _page_rows(self) -> int:
        return max(12, self.size.height)

    def _update_size(self) -> None:
        self.virtual_size = Size(self._content_width, self.row_cache.height + 1)
        self.refresh()

    def _scroll(self, y: float) -> None:
        self._is_scrolling = True
        try:
            self.scroll_to(y=max(0, y), animate=False, immediate=True, force=True)
        finally:
            self._is_scrolling = False
        self.post_message(self.Moved())

    # --- drawing --------------------------------------------------------------------------------------------------

    def _make_painter(self) -> RowPainter:
        return RowPainter(
            lambda block: self._render_block(block, growing=False),
            lambda block: self._render_block(block, growing=True),
        )

    def _render_block(self, block: TranscriptBlock, *, growing: bool) -> list[Strip]:
        if self._block_renderer is None:
            palette = make_palette(self.app.theme_variables, dark=self.app.current_theme.dark)
            self._block_renderer = BlockRenderer(self._content_width, palette, self._sanitizer)
        is_open = self.all_open != (block.key in self.toggled_keys)
        return self._block_renderer.render_block(
            block, is_open=is_open, is_chosen=block.key == self.selected_key, growing=growing
        )

    def on_resize(self, event: events.Resize) -> None:
        width = max(20, self.scrollable_content_region.width)
        self.row_cache.max_rows = max(MAX_CACHED_ROWS, 6 * self.size.height)
        if width == self._content_width:
            self._scroll_to_tail() if self.is_following else self._update_size()
            return
        first, self._content_width = not self._content_width, width
        if first:
            self._block_renderer = None
            self.show_end()
        else:
            self.redraw()

    def redraw(self) -> None:
        """Render again after a change of width or theme. Rows far from the screen are dropped and read again when
        needed."""
        if not self._content_width:
            return
        following = self.is_following
        spot = self.row_cache.locate_line(self.scroll_offset.y) or LinePosition(0, 0)
        self._block_renderer = None
        index = min(spot.row_index, max(0, len(self.row_cache.rows) - 1))
        rows = self.row_cache.drop_far_rows(index, 2 * self._page_rows)
        self.row_cache.redraw(self._make_painter())
        self._update_size()
        self._scroll(
            self.max_scroll_y
            if following
            else self.row_cache.line_number(LinePosition(max(0, spot.row_index - rows), 0))
        )

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._background_style = None

    def render_line(self, y: int) -> Strip:
        if self._background_style is None:
            self._background_style = self.rich_style
        width, style = self.scrollable_content_region.width, self._background_style
        line = self.scroll_offset.y + y
        strip = self.row_cache.get_line(line)
        if strip is None:
            return Strip.blank(width, style)
        selection = self.text_selection
        if selection is not None:
            strip = self._highlight_selection(strip, selection, line)
        return strip.apply_style(style).crop_extend(0, width, style).apply_offsets(0, line)

    def _highlight_selection(self, strip: Strip, selection: Selection, line: int) -> Strip:
        span = selection.get_span(line)
        if span is None:
            return strip
        length = strip.cell_length
        start, end = span[0], length if span[1] == -1 else min(span[1], length)
        style = self.screen.get_component_rich_style("screen--selection")
        middle = Strip([part._replace(style=(part.style or Style()) + style) for part in strip.crop(start, end)])
        return Strip.join([strip.crop(0, start), middle, strip.crop(end, length)])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        lines = [self.row_cache.get_line(number) for number in range(self.row_cache.height)]
        return selection.extract("\n".join("" if line is None else line.text.rstrip() for line in lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    # --- scrolling ------------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._is_scrolling and self._content_width:
            self._sticky = round(new_value) >= self.max_scroll_y
            self._load_near(round(new_value))
            self.post_message(self.Moved())

    def _load_near(self, y: int) -> None:
        screen = max(1, self.size.height)
        if y < screen and self.row_cache.first_seq > 1:
            line_count = self.row_cache.load_before(self._page_rows)
            self._update_size()
            self._scroll(y + line_count)
        elif y > self.max_scroll_y - screen and not self.row_cache.at_tail:
            line_count = self.row_cache.load_after(self._page_rows)
            self._update_size()
            self._scroll(y - line_count)

    def page(self, direction: int) -> None:
        self.scroll_relative(y=direction * max(1, self.size.height - 2), animate=False)

    # --- cards ----------------------------------------------------------------------------------------------------

    def choose(self, direction: int) -> None:
        """Select the next card up or down from the selected one, or from the end of the screen."""
        cards = [index for index, each in enumerate(self.row_cache.visible_rows) if each.block.is_card]
        if not cards:
            return
        places = {self.row_cache.visible_rows[index].block.key: index for index in cards}
        current = places.get(self.selected_key)
        if current is None:
            bottom = self.row_cache.locate_line(self.scroll_offset.y + self.size.height - 1)
            current = len(self.row_cache.visible_rows) if bottom is None else bottom.row_index + 1
        candidates = [index for index in cards if (index < current if direction < 0 else index > current)]
        if candidates:
            index = candidates[-1] if direction < 0 else candidates[0]
            self.selected_key = self.row_cache.visible_rows[index].block.key
            self._scroll_into_view(index)
        elif direction > 0:
            self.selected_key = ""

    def _scroll_into_view(self, index: int) -> None:
        line, top = self.row_cache.line_number(LinePosition(index, 0)), self.scroll_offset.y
        if not top <= line < top + self.size.height - 1:
            self.scroll_to(y=max(0, line - self.size.height // 2), animate=False, immediate=True)

    def watch_selected_key(self, old: str, new: str) -> None:
        if self._content_width:
            self.row_cache.redraw(self._make_painter(), frozenset({old, new}))
            self._update_size()

    def toggle(self, key: str = "") -> None:
        """Open or close one card, or all of them."""
        following = self.is_following
        if key:
            self.toggled_keys ^= {key}
        else:
            self.all_open, self.toggled_keys = not self.all_open, set()
        spot = self.row_cache.locate_line(self.scroll_offset.y)
        cards = frozenset(each.block.key for each in self.row_cache.visible_rows if each.block.is_card)
        self.row_cache.redraw(self._make_painter(), frozenset({key}) if key else cards)
        self._update_size()
        self._scroll(self.max_scroll_y if following else self.row_cache.line_number(spot) if spot else 0)

    def on_click(self, event: events.Click) -> None:
        spot = self.row_cache.locate_line(self.scroll_offset.y + event.y)
        if spot is not None and spot.line_index == 0 and self.row_cache.block_at(spot).is_card:
            self.toggle(self.row_cache.block_at(spot).key)
