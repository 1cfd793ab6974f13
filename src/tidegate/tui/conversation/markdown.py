"""Markdown for the terminal: left-aligned, no boxes, no clickable links, HTML shown as text."""

from copy import copy
from functools import cache
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

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
