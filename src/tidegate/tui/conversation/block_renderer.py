"""Renders blocks as lines of the screen. Every text of a log passes `TextSanitizer` here, and only here."""

import io
import re
import textwrap
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cache
from typing import ClassVar, Final

from markdown_it import MarkdownIt
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from textual.strip import Strip

from tidegate.agent.tools.files.file_change import FileChange, FileDiff, compare_lines, find_file_change
from tidegate.terminal.output import TextSanitizer
from tidegate.terminal.stream_masker import MAX_HELD_CHARS, find_printable_end
from tidegate.tui.conversation.diff_lines import color_diff_lines, describe_change, sanitize_change
from tidegate.tui.conversation.transcript_blocks import TranscriptBlock, find_call_subject, format_call_arguments
from tidegate.tui.themes import Palette, make_rich_theme

_MARGIN: Final = 2
_MAX_CARD_LINES: Final = 600
"""Lines of an opened card at most. The rest is counted, and /recall shows it."""
_PREVIEW_LINES: Final = 8
"""Lines of a diff that are shown while its card is closed."""
_MAX_TEXT_CHARS: Final = 120_000
"""Characters of one text that are formatted; more would make the screen wait."""
_COLUMN: Final = re.compile(r"(\s*\S.*?\s{2,})\S")
_MAX_LIVE_MARKDOWN_CHARS: Final = 4_000
"""Characters that are formatted again with every word; a longer piece is formatted when it is complete."""
_CLOSED_MARK, _OPEN_MARK = "▸", "▾"


class BlockRenderer:
    """Renders for one width and one palette. Make another when either changes."""

    def __init__(self, width: int, palette: Palette, sanitizer: TextSanitizer) -> None:
        self.width = max(16, width)
        self.palette = palette
        self.sanitizer = sanitizer
        self._console = Console(
            file=io.StringIO(),
            width=self.width,
            force_terminal=True,
            color_system="truecolor",
            legacy_windows=False,
            theme=make_rich_theme(palette),
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},
        )
        self._live_cache: tuple[str, int, list[Strip]] = ("", 0, [])

    def render_block(
        self, block: TranscriptBlock, *, is_open: bool, is_chosen: bool, growing: bool = False
    ) -> list[Strip]:
        if block.is_card:
            return self._render_card(block, is_open, is_chosen)
        if block.kind == "user":
            return self._render_user(block)
        if block.kind in ("note", "problem"):
            return self._render_note(block)
        if block.kind == "answer":
            return self._render_answer(block)
        return self._render_live(block) if growing else self._render_markdown(self.sanitizer(block.text))

    # --- texts ----------------------------------------------------------------------------------------------------

    def _render_user(self, block: TranscriptBlock) -> list[Strip]:
        bar = Style.parse(f"{self.palette.primary} on {self.palette.surface}")
        body = Style.parse(f"{self.palette.text} on {self.palette.surface}")
        text = Text(self._clip_text(self.sanitizer(block.text.strip("\n"))), style=body)
        wrapped = self._render_segments(text, self.width - 3, body)
        return [Strip([Segment("▌ ", bar), *line, Segment(" ", body)], self.width) for line in wrapped]

    def _render_markdown(self, text: str) -> list[Strip]:
        text = self._clip_text(text)
        inner = self.width - 2 * _MARGIN
        try:
            lines = self._render_segments(create_markdown(text, self.palette.code), inner)
        except Exception:  # noqa: BLE001 - whatever a model wrote: its words are shown, if not in shape
            lines = self._render_segments(Text(text), inner)
        return [self._indent(line) for line in _trim_blank_lines(lines)]

    def _render_live(self, block: TranscriptBlock) -> list[Strip]:
        """Format again only the part that may still change. What may be the beginning of a secret is not shown yet."""
        start = max(0, len(block.text) - MAX_HELD_CHARS)
        text = self.sanitizer(block.text[: find_printable_end(block.text, self.sanitizer, start)])
        key, end_before, strips = self._live_cache
        end = find_stable_end(text)
        if key != block.key or end_before > end:
            end_before, strips = 0, []
        if end > end_before:
            strips = [*strips, *self._separator(strips), *self._render_markdown(text[end_before:end])]
            end_before = end
        self._live_cache = (block.key, end_before, strips)
        rest = text[end_before:]
        if not rest.strip():
            return strips
        tail = self._render_markdown(rest) if len(rest) <= _MAX_LIVE_MARKDOWN_CHARS else self._render_plain(rest)
        return [*strips, *self._separator(strips), *tail]

    def _render_plain(self, text: str) -> list[Strip]:
        lines = self._render_segments(Text(self._clip_text(text)), self.width - 2 * _MARGIN)
        return [self._indent(line) for line in _trim_blank_lines(lines)]

    def _separator(self, strips: list[Strip]) -> list[Strip]:
        return [Strip.blank(self.width)] if strips else []

    def _render_note(self, block: TranscriptBlock) -> list[Strip]:
        color = self.palette.error if block.kind == "problem" else self.palette.muted
        sign = "! " if block.kind == "problem" else "· "
        lines = self._render_segments(Text(self.sanitizer(block.text), style=color), self.width - 2 * _MARGIN - 2)
        head = Segment(sign, Style.parse(color))
        return [
            Strip([Segment(" " * _MARGIN), head if not place else Segment("  "), *line])
            for place, line in enumerate(_trim_blank_lines(lines))
        ]

    def _render_answer(self, block: TranscriptBlock) -> list[Strip]:
        """Render the answer of a command unchanged, so that tables stay tables."""
        bar = Segment("  ┆ ", Style.parse(self.palette.accent))
        head = Strip(
            [bar, Segment(self.sanitizer.sanitize_line(block.title)[:200], Style.parse(f"bold {self.palette.accent}"))]
        )
        text = "\n".join(
            wrap_with_indent(line, self.width - 6) for line in self._clip_text(self.sanitizer(block.text)).splitlines()
        )
        lines = self._render_segments(Text(text, style=self.palette.text), self.width - 6)
        return [head, *(Strip([bar, *line]) for line in _trim_blank_lines(lines))]

    # --- cards ----------------------------------------------------------------------------------------------------

    def _render_card(self, block: TranscriptBlock, is_open: bool, is_chosen: bool) -> list[Strip]:
        change = self._find_change(block)
        diff = None if change is None else compare_lines(change)
        strips = [self._render_card_head(block, is_open, is_chosen, change, diff)]
        lines: Iterable[list[Segment]] = []
        if change is not None and diff is not None and (is_open or not block.is_error):
            result = self._render_result(block) if is_open else []
            lines = [*self._render_diff(change.path, diff, _MAX_CARD_LINES if is_open else _PREVIEW_LINES), *result]
        elif is_open:
            lines = self._render_card_body(block)
        rail = Segment("  │ ", Style.parse(self.palette.faint))
        return [*strips, *(Strip([rail, *line]) for line in lines)]

    def _find_change(self, block: TranscriptBlock) -> FileChange | None:
        """Return the change that a call makes to a file, if it is not too long to be compared here."""
        if block.kind != "call" or len(block.text) > _MAX_TEXT_CHARS:
            return None
        change = find_file_change(block.title, block.text)
        return None if change is None else sanitize_change(change, self.sanitizer)

    def _render_diff(self, path: str, diff: FileDiff, most: int) -> Iterator[list[Segment]]:
        visible_lines = diff.lines if len(diff.lines) <= most + 1 else diff.lines[:most]
        for text in color_diff_lines(path, visible_lines, self.palette):
            style = Style.parse(str(text.style))
            yield from self._render_segments(text, self.width - _MARGIN - 4, style)
        if left := len(diff.lines) - len(visible_lines):
            yield [Segment(f"… {left:,} more lines", Style.parse(self.palette.faint))]

    def _render_card_head(
        self,
        block: TranscriptBlock,
        is_open: bool,
        is_chosen: bool,
        change: FileChange | None = None,
        diff: FileDiff | None = None,
    ) -> Strip:
        p = self.palette
        color = p.primary if is_chosen else p.faint
        problem = p.warning if block.denied_by else p.error if block.is_error else ""
        name, about, tail = self._describe_card(block)
        if change is not None and diff is not None:
            about, tail = describe_change(change, diff), tail if block.failure or block.result is None else ""
        about = "" if is_open and block.kind in ("thinking", "result") else about
        pieces = [
            ("› " if is_chosen else "  ", color),
            (f"{_OPEN_MARK if is_open else _CLOSED_MARK} ", color),
            (name, problem or p.muted),
        ]
        room = self.width - 4 - cell_len(name) - cell_len(tail) - 4
        if about and room > 4:
            pieces += [("  ", ""), (shorten_cells(about, room), p.text if is_chosen else p.muted)]
        pieces += [("  ", ""), (tail, problem or p.faint)] if tail else []
        ground = f" on {p.panel}" if is_chosen else ""
        strip = Strip([Segment(text, Style.parse(f"{style}{ground}".strip())) for text, style in pieces])
        return strip.adjust_cell_length(self.width, Style.parse(ground.strip()) if is_chosen else None)

    def _describe_card(self, block: TranscriptBlock) -> tuple[str, str, str]:
        line = self.sanitizer.sanitize_line
        if block.kind == "thinking":
            return "thought", self._clip_start(block.text), ""
        if block.kind == "edit":
            return block.label, line(block.title), ""
        if block.kind == "attached":
            return "attached", line(block.title), ""
        if block.kind == "result":
            return "result", self._clip_start(block.result or ""), describe_text_length(block.result or "")
        failure = shorten_cells(line(block.failure), self.width // 2)
        tail = failure or ("…" if block.result is None else describe_text_length(block.result))
        return line(block.title)[:80], self._clip_start(find_call_subject(block.text)), tail

    def _clip_start(self, text: str) -> str:
        """Return the beginning of a text. It is masked before it is cut: half a key would not be recognized."""
        return self.sanitizer.sanitize_line(text[:4000])[:400]

    def _render_card_body(self, block: TranscriptBlock) -> Iterator[list[Segment]]:
        inner = self.width - _MARGIN - 4
        p = self.palette
        texts = [(block.text, p.muted)]
        if block.kind == "call":
            texts = [(format_call_arguments(block.text), p.muted)]
        for text, color in texts:
            if text.strip():
                yield from self._render_clipped(
                    Text(self._clip_text(self.sanitizer(text.strip("\n"))), style=color), inner
                )
        yield from self._render_result(block)

    def _render_result(self, block: TranscriptBlock) -> Iterator[list[Segment]]:
        text = (block.result or "").strip("\n")
        if text.strip():
            color = self.palette.error if block.is_error else self.palette.text
            styled_text = Text(self._clip_text(self.sanitizer(text)), style=color)
            yield from self._render_clipped(styled_text, self.width - _MARGIN - 4)

    def _render_clipped(self, text: Text, width: int) -> Iterator[list[Segment]]:
        lines = _trim_blank_lines(self._render_segments(text, width))
        yield from lines[:_MAX_CARD_LINES]
        if len(lines) > _MAX_CARD_LINES:
            yield [Segment(f"… {len(lines) - _MAX_CARD_LINES:,} more lines", Style.parse(self.palette.faint))]

    # --- common ---------------------------------------------------------------------------------------------------

    def _render_segments(self, what: RenderableType, width: int, style: Style | None = None) -> list[list[Segment]]:
        options = self._console.options.update(width=max(8, width), height=None)
        return self._console.render_lines(what, options, style=style, pad=style is not None)

    def _indent(self, line: list[Segment]) -> Strip:
        return Strip([Segment(" " * _MARGIN), *line])

    def _clip_text(self, text: str) -> str:
        if len(text) <= _MAX_TEXT_CHARS:
            return text
        return f"{text[:_MAX_TEXT_CHARS]}\n\n… {len(text) - _MAX_TEXT_CHARS:,} more characters"


def _trim_blank_lines(lines: list[list[Segment]]) -> list[list[Segment]]:
    """Return the lines without blank ones at either end: the conversation sets the space between blocks."""

    def blank(line: list[Segment]) -> bool:
        return not any(segment.text.strip() or (segment.style and segment.style.bgcolor) for segment in line)

    start, end = 0, len(lines)
    while start < end and blank(lines[start]):
        start += 1
    while end > start and blank(lines[end - 1]):
        end -= 1
    return lines[start:end]


def wrap_with_indent(line: str, width: int) -> str:
    """Wrap a long line. Its continuation is indented to its last column, if it has columns."""
    if len(line) <= width:
        return line
    column = _COLUMN.match(line)
    indent = " " * (len(column[1]) if column and len(column[1]) <= width * 2 // 3 else 2)
    return "\n".join(textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=True) or [""])


def shorten_cells(text: str, width: int) -> str:
    """Return the text in at most `width` cells, with an ellipsis if something is left out."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(0, width - 1)).rstrip()}…"


def describe_text_length(text: str) -> str:
    count = text.count("\n") + 1
    return "empty" if not text.strip() else f"{count:,} lines" if count > 1 else f"{len(text):,} chars"


_MAX_HIGHLIGHTED_CHARS = 20_000
"""Longer code is shown without colors: highlighting it would take too long."""


class _LeftHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _PlainCodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        background = console.get_style("markdown.code_block")
        if len(code) > _MAX_HIGHLIGHTED_CHARS:
            yield Padding(Text(code), (0, 2), style=background)
            return
        ground = background.bgcolor.name if background.bgcolor is not None else "default"
        syntax = Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, background_color=ground)
        yield Padding(syntax, (0, 2), style=background)


class TerminalMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _PlainCodeBlock,
        "code_block": _PlainCodeBlock,
    }


@cache
def _empty_markdown(code_theme: str) -> TerminalMarkdown:
    """Return a text to copy: each new one would make a parser, which takes longer than most texts take to parse."""
    return TerminalMarkdown("", code_theme=code_theme, hyperlinks=False)


@cache
def _parser() -> MarkdownIt:
    """Return a parser that treats HTML as text, so that it is shown as the model wrote it."""
    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")


def create_markdown(text: str, code_theme: str) -> RenderableType:
    """Return the text as Markdown. It must be sanitized already."""
    markdown = copy(_empty_markdown(code_theme))
    markdown.markup, markdown.parsed = text, _parser().parse(text)
    return markdown


def find_stable_end(text: str) -> int:
    """Return the length of the part of a growing text whose look is final: up to the last blank line outside a fence.
    That part need not be formatted again with every word."""
    end, place, fence = 0, 0, ""
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        mark = bare[:3]
        if fence:
            fence = "" if mark == fence and not bare.strip(fence[0]) else fence
        elif mark in ("```", "~~~"):
            fence = mark
        place += len(line)
        if not fence and not bare and line.endswith("\n"):
            end = place
    return end
