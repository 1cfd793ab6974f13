"""The status bar. The share of the window stands first: it is the last thing to give way on a narrow screen."""

from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from tidegate.apps.chat.standing import Standing
from tidegate.core.terminal_text import clean_line

YELLOW: Final = 70
RED: Final = 90
HINT: Final = "F1 help  F2 context"


class Piece(NamedTuple):
    text: str
    style: str = ""


def shade(percent: int | None) -> str:
    """Which of the bar's styles a share has."""
    if percent is None:
        return "unknown"
    return "red" if percent >= RED else "yellow" if percent >= YELLOW else "calm"


def short(count: int) -> str:
    """A number of tokens in few letters."""
    if count < 1_000:
        return str(count)
    if count < 10_000:
        return f"{count / 1_000:.1f}k".replace(".0k", "k")
    return f"{count // 1_000}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M".replace(".0M", "M")


def pieces(standing: Standing, longest: int = 40) -> list[Piece]:
    """What there is to say, the most important first. A model's name has at most so many letters."""
    percent = standing.percent
    if percent is None:
        size = f"{short(standing.size)} / " if standing.size is not None else ""
        known = [Piece("ctx ?", "unknown"), Piece(f"{size}window unknown", "quiet")]
    else:
        assert standing.size is not None
        assert standing.room is not None
        known = [
            Piece(f"ctx {percent}%", shade(percent)),
            Piece(f"{short(standing.size)} / {short(standing.room)}", "quiet"),
        ]
    name = clean_line(standing.model) or "no model yet"
    known.append(Piece(name if len(name) <= longest else f"{name[: longest - 1]}…", "model"))
    if standing.summarising:
        known.append(Piece("summarising…", "busy"))
    known.append(Piece(_cost(standing), "quiet"))
    known.append(Piece(f"{standing.compactions} compacted", "quiet"))
    return known


def _cost(standing: Standing) -> str:
    cached = f" {standing.cached:.0%} cached"
    if not standing.counted:
        return "cost …"
    if standing.dollars is None:
        return f"{short(standing.spent)} tokens, no price{cached}"
    return f"{money(standing.dollars)}{cached}"


def money(dollars: float) -> str:
    return "$0" if not dollars else f"${dollars:.4f}" if dollars < 1 else f"${dollars:,.2f}"


def bar(standing: Standing, width: int) -> list[Piece]:
    """What fits, and the hint if there is room behind it."""
    shown: list[Piece] = []
    used = 0
    for piece in pieces(standing, max(12, width // 4)):
        wide = cell_len(piece.text) + (3 if shown else 0)
        if used + wide <= width or not shown:
            shown.append(piece)
            used += wide
    return shown


class StatusBar(Widget):
    DEFAULT_CSS = """
    StatusBar { height: 1; padding: 0 1; background: $panel; color: $foreground 70%; }
    """

    standing: reactive[Standing] = reactive(Standing())

    def render(self) -> Text:
        variables = self.app.theme_variables
        styles = {
            "calm": f"bold {variables['success']}",
            "yellow": f"bold {variables['warning']}",
            "red": f"bold reverse {variables['error']}",
            "unknown": f"bold {variables['accent']}",
            "model": f"{variables['foreground']}",
            "busy": f"italic {variables['accent']}",
        }
        width = self.size.width
        text = Text(no_wrap=True, overflow="crop", end="")
        for place, piece in enumerate(bar(self.standing, width)):
            text.append("   " if place else "")
            text.append(piece.text, style=styles.get(piece.style, ""))
        if cell_len(text.plain) + len(HINT) + 3 <= width:
            text.append(" " * (width - cell_len(text.plain) - len(HINT)) + HINT, style="dim")
        return text
