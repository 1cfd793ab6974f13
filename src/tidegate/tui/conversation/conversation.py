"""The conversation on the screen: a scrolling window on the log. Its cost does not know the session's length."""

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
    """`opened` are the cards that differ from `all_open`. Both are of the screen: no model ever hears of them."""

    ALLOW_SELECT = True
    DEFAULT_CSS = """
    Conversation { background: $background; overflow-x: hidden; padding: 0 1; }
    Conversation { scrollbar-size-vertical: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,super+c", "screen.copy_text", "Copy", show=False)]

    all_open: var[bool] = var(False)
    chosen: var[str] = var("")

    class Moved(Message):
        """What is on the screen is another part of the log. A scrollbar could only tell of the part that is held."""

    def __init__(self, paging: LogPager, shown: TextSanitizer, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._shown = shown
        self._drawing: BlockRenderer | None = None
        self._busy = False
        self._sticky = True
        self._wide = 0
        self._ground: Style | None = None
        self.opened: set[str] = set()
        self.held = RowCache(paging, self._draw())

    def turn_to(self, paging: LogPager, shown: TextSanitizer) -> None:
        """Another session."""
        self._shown = shown
        self._drawing = None
        self.held = RowCache(paging, self._draw())
        self.opened, self.chosen, self.all_open = set(), "", False
        if self._wide:
            self.show_end()

    # --- what happens ---------------------------------------------------------------------------------------------

    @property
    def following(self) -> bool:
        """Does the screen stay at the end, whatever comes? It does until someone scrolls away from it."""
        return self.held.at_tail and self._sticky

    def say(self, event: Event) -> None:
        following = self.following
        self.held.say(event)
        self._follow() if following else self._sized()

    def remark(self, blocks: Iterable[TranscriptBlock]) -> None:
        following = self.following
        for block in blocks:
            self.held.remark(block)
        self._follow() if following else self._sized()

    def grow(self, blocks: Iterable[TranscriptBlock]) -> None:
        following = self.following
        self.held.grow(blocks)
        self._follow() if following else self._sized()

    @property
    def position(self) -> int | None:
        """How far into the log the screen is, of a hundred; None at its end."""
        spot = self.held.spot(self.scroll_offset.y + self.size.height - 1)
        if self.following or spot is None or not self.held.head:
            return None
        return min(99, 100 * self.held.shown[spot.place].seq // self.held.head)

    def _follow(self) -> None:
        self.held.trim_top()
        self._sized()
        self._scroll(self.max_scroll_y)

    def show_end(self) -> None:
        self.held.show_end(self._page)
        self._sticky = True
        self._sized()
        self._scroll(self.max_scroll_y)

    def show_start(self) -> None:
        self.held.show_start(self._page)
        self._sticky = False
        self._sized()
        self._scroll(0)

    def show_head(self, key: str) -> None:
        """The beginning of a block that is too long for the screen; else the end stays in view."""
        places = [place for place, each in enumerate(self.held.shown) if each.block.key == key]
        top = self.held.number(LinePosition(places[0], 0)) if places else self.max_scroll_y
        if top < self.max_scroll_y:
            self.scroll_to(y=top, animate=False, immediate=True)

    @property
    def _page(self) -> int:
        return max(12, self.size.height)

    def _sized(self) -> None:
        self.virtual_size = Size(self._wide, self.held.height + 1)
        self.refresh()

    def _scroll(self, y: float) -> None:
        self._busy = True
        try:
            self.scroll_to(y=max(0, y), animate=False, immediate=True, force=True)
        finally:
            self._busy = False
        self.post_message(self.Moved())

    # --- drawing --------------------------------------------------------------------------------------------------

    def _draw(self) -> RowPainter:
        return RowPainter(
            lambda block: self._lines(block, growing=False), lambda block: self._lines(block, growing=True)
        )

    def _lines(self, block: TranscriptBlock, *, growing: bool) -> list[Strip]:
        if self._drawing is None:
            palette = make_palette(self.app.theme_variables, dark=self.app.current_theme.dark)
            self._drawing = BlockRenderer(self._wide, palette, self._shown)
        opened = self.all_open != (block.key in self.opened)
        return self._drawing.lines(block, opened=opened, chosen=block.key == self.chosen, growing=growing)

    def on_resize(self, event: events.Resize) -> None:
        wide = max(20, self.scrollable_content_region.width)
        self.held.most = max(MAX_CACHED_ROWS, 6 * self.size.height)
        if wide == self._wide:
            self._follow() if self.following else self._sized()
            return
        first, self._wide = not self._wide, wide
        if first:
            self._drawing = None
            self.show_end()
        else:
            self.redraw()

    def redraw(self) -> None:
        """Everything looks different now. Only what is near the screen is drawn again; the rest is read when needed."""
        if not self._wide:
            return
        following = self.following
        spot = self.held.spot(self.scroll_offset.y) or LinePosition(0, 0)
        self._drawing = None
        place = min(spot.place, max(0, len(self.held.rows) - 1))
        gone = self.held.keep_around(place, 2 * self._page)
        self.held.redraw(self._draw())
        self._sized()
        self._scroll(self.max_scroll_y if following else self.held.number(LinePosition(max(0, spot.place - gone), 0)))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._ground = None

    def render_line(self, y: int) -> Strip:
        if self._ground is None:
            self._ground = self.rich_style
        width, style = self.scrollable_content_region.width, self._ground
        number = self.scroll_offset.y + y
        strip = self.held.line(number)
        if strip is None:
            return Strip.blank(width, style)
        selection = self.text_selection
        if selection is not None:
            strip = self._selected(strip, selection, number)
        return strip.apply_style(style).crop_extend(0, width, style).apply_offsets(0, number)

    def _selected(self, strip: Strip, selection: Selection, number: int) -> Strip:
        span = selection.get_span(number)
        if span is None:
            return strip
        length = strip.cell_length
        start, end = span[0], length if span[1] == -1 else min(span[1], length)
        style = self.screen.get_component_rich_style("screen--selection")
        middle = Strip([part._replace(style=(part.style or Style()) + style) for part in strip.crop(start, end)])
        return Strip.join([strip.crop(0, start), middle, strip.crop(end, length)])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        lines = [self.held.line(number) for number in range(self.held.height)]
        return selection.extract("\n".join("" if line is None else line.text.rstrip() for line in lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    # --- scrolling ------------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._busy and self._wide:
            self._sticky = round(new_value) >= self.max_scroll_y
            self._reach_out(round(new_value))
            self.post_message(self.Moved())

    def _reach_out(self, y: int) -> None:
        screen = max(1, self.size.height)
        if y < screen and self.held.first > 1:
            grown = self.held.reach_back(self._page)
            self._sized()
            self._scroll(y + grown)
        elif y > self.max_scroll_y - screen and not self.held.at_tail:
            lost = self.held.reach_on(self._page)
            self._sized()
            self._scroll(y - lost)

    def page(self, direction: int) -> None:
        self.scroll_relative(y=direction * max(1, self.size.height - 2), animate=False)

    # --- cards ----------------------------------------------------------------------------------------------------

    def choose(self, direction: int) -> None:
        """The next card up or down from the one that is chosen, or from the end of what is on the screen."""
        cards = [place for place, each in enumerate(self.held.shown) if each.block.is_card]
        if not cards:
            return
        places = {self.held.shown[place].block.key: place for place in cards}
        here = places.get(self.chosen)
        if here is None:
            bottom = self.held.spot(self.scroll_offset.y + self.size.height - 1)
            here = len(self.held.shown) if bottom is None else bottom.place + 1
        beyond = [place for place in cards if (place < here if direction < 0 else place > here)]
        if beyond:
            place = beyond[-1] if direction < 0 else beyond[0]
            self.chosen = self.held.shown[place].block.key
            self._into_view(place)
        elif direction > 0:
            self.chosen = ""

    def _into_view(self, place: int) -> None:
        line, top = self.held.number(LinePosition(place, 0)), self.scroll_offset.y
        if not top <= line < top + self.size.height - 1:
            self.scroll_to(y=max(0, line - self.size.height // 2), animate=False, immediate=True)

    def watch_chosen(self, old: str, new: str) -> None:
        if self._wide:
            self.held.redraw(self._draw(), frozenset({old, new}))
            self._sized()

    def toggle(self, key: str = "") -> None:
        """One card, or all of them."""
        following = self.following
        if key:
            self.opened ^= {key}
        else:
            self.all_open, self.opened = not self.all_open, set()
        spot = self.held.spot(self.scroll_offset.y)
        cards = frozenset(each.block.key for each in self.held.shown if each.block.is_card)
        self.held.redraw(self._draw(), frozenset({key}) if key else cards)
        self._sized()
        self._scroll(self.max_scroll_y if following else self.held.number(spot) if spot else 0)

    def on_click(self, event: events.Click) -> None:
        spot = self.held.spot(self.scroll_offset.y + event.y)
        if spot is not None and spot.inside == 0 and self.held.block_at(spot).is_card:
            self.toggle(self.held.block_at(spot).key)
