"""Lines of a diff with colors: the sign and the background say what happened, the text is highlighted as code."""

from typing import TYPE_CHECKING, Final

from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from tidegate.agent.tools.files.file_change import DiffLine, FileChange, FileDiff
from tidegate.terminal.output import TextSanitizer

if TYPE_CHECKING:  # the plain chat uses this module and does not load Textual
    from tidegate.tui.themes import Palette

_MAX_HIGHLIGHTED_CHARS: Final = 20_000
"""Longer diffs are shown without colors of code: highlighting them would take too long."""
_SIGNS: Final = {"+": "+ ", "-": "- ", " ": "  ", "…": "… "}


def sanitize_change(change: FileChange, sanitizer: TextSanitizer) -> FileChange:
    """Clean and mask the texts as a whole, before they are cut into lines: a secret may span several."""
    before = None if change.before is None else sanitizer(change.before)
    return change._replace(path=sanitizer.sanitize_line(change.path), before=before, after=sanitizer(change.after))


def describe_change(change: FileChange, diff: FileDiff) -> str:
    """Return the file and the numbers of lines, in a few words."""
    everywhere = ", every occurrence" if change.is_everywhere else ""
    return f"{change.path}{everywhere}  {diff.counts}"


def color_diff_lines(path: str, lines: list[DiffLine], palette: "Palette") -> list[Text]:
    """Return the lines as rich text. `path` selects the language."""
    grounds = {"+": f" on {palette.added}", "-": f" on {palette.removed}"}
    signs = {"+": palette.success, "-": palette.error}
    colored: list[Text] = []
    for line, code in zip(lines, _highlight_code(path, [line.text for line in lines], palette), strict=True):
        sign = Text(_SIGNS[line.mark], style=signs.get(line.mark, palette.faint))
        styled_line = sign.append_text(Text(line.text, style=palette.faint) if line.mark == "…" else code)
        styled_line.style = f"{palette.text}{grounds.get(line.mark, '')}"
        colored.append(styled_line)
    return colored


def _highlight_code(path: str, lines: list[str], palette: "Palette") -> list[Text]:
    plain = [Text(line) for line in lines]
    if sum(map(len, lines)) > _MAX_HIGHLIGHTED_CHARS:
        return plain
    syntax = Syntax("", Syntax.guess_lexer(path), theme=palette.code, background_color="default")
    code = syntax.highlight("\n".join(lines))
    code.style = ""
    code.spans = [span._replace(style=_keep_ink(span.style)) for span in code.spans]
    texts = list(code.split("\n", allow_blank=True))
    return texts[: len(lines)] if len(texts) >= len(lines) else plain


def _keep_ink(style: str | Style) -> Style:
    """Return a style without its background, which belongs to the line."""
    ink = Style.parse(style) if isinstance(style, str) else style
    return Style(color=ink.color, bold=ink.bold, italic=ink.italic)
