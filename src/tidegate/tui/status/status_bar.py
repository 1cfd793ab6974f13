"""The status bar. The share of the window stands first: it is the last thing to give way on a narrow screen."""

from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from tidegate.core.text.terminal_text import clean_line
from tidegate.tui.status.status_figures import StatusFigures

_WARNING_PERCENT: Final = 70
_CRITICAL_PERCENT: Final = 90
_KEY_HINT: Final = "F1 help  F2 context"


class StatusSegment(NamedTuple):
    text: str
    style: str = ""


def classify_fill(percent: int | None) -> str:
    """Which of the bar's styles a share has."""
    if percent is None:
        return "unknown"
    return "red" if percent >= _CRITICAL_PERCENT else "yellow" if percent >= _WARNING_PERCENT else "calm"


def format_token_count(count: int) -> str:
    """A number of tokens in few letters."""
    if count < 1_000:
        return str(count)
    if count < 10_000:
        return f"{count / 1_000:.1f}k".replace(".0k", "k")
    return f"{count // 1_000}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M".replace(".0M", "M")


def list_status_segments(standing: StatusFigures, longest: int = 40) -> list[StatusSegment]:
    """What there is to say, the most important first. A model's name has at most so many letters."""
    percent = standing.percent
    if percent is None:
        size = f"{format_token_count(standing.request_tokens)} / " if standing.request_tokens is not None else ""
        known = [StatusSegment("ctx ?", "unknown"), StatusSegment(f"{size}window unknown", "quiet")]
    else:
        assert standing.request_tokens is not None
        assert standing.capacity is not None
        known = [
            StatusSegment(f"ctx {percent}%", classify_fill(percent)),
            StatusSegment(
                f"{format_token_count(standing.request_tokens)} / {format_token_count(standing.capacity)}", "quiet"
            ),
        ]
    name = clean_line(standing.model) or "no model yet"
    known.append(StatusSegment(name if len(name) <= longest else f"{name[: longest - 1]}…", "model"))
    if standing.is_summarizing:
        known.append(StatusSegment("summarising…", "busy"))
    known.append(StatusSegment(_format_cost(standing), "quiet"))
    known.append(StatusSegment(f"{standing.compaction_count} compacted", "quiet"))
    return known


def _format_cost(standing: StatusFigures) -> str:
    cached = f" {standing.cached_share:.0%} cached"
    if not standing.cost_is_complete:
        return "cost …"
    if standing.dollars is None:
        return f"{format_token_count(standing.spent_tokens)} tokens, no price{cached}"
    return f"{format_dollars(standing.dollars)}{cached}"


def format_dollars(dollars: float) -> str:
    return "$0" if not dollars else f"${dollars:.4f}" if dollars < 1 else f"${dollars:,.2f}"


def fit_status_segments(standing: StatusFigures, width: int) -> list[StatusSegment]:
    """What fits, and the hint if there is room behind it."""
    shown: list[StatusSegment] = []
    used = 0
    for piece in list_status_segments(standing, max(12, width // 4)):
        wide = cell_len(piece.text) + (3 if shown else 0)
        if used + wide <= width or not shown:
            shown.append(piece)
            used += wide
    return shown


class StatusBar(Widget):
    DEFAULT_CSS = """
    StatusBar { height: 1; padding: 0 1; background: $panel; color: $foreground 70%; }
    """

    figures: reactive[StatusFigures] = reactive(StatusFigures())

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
        for place, piece in enumerate(fit_status_segments(self.figures, width)):
            text.append("   " if place else "")
            text.append(piece.text, style=styles.get(piece.style, ""))
        if cell_len(text.plain) + len(_KEY_HINT) + 3 <= width:
            text.append(" " * (width - cell_len(text.plain) - len(_KEY_HINT)) + _KEY_HINT, style="dim")
        return text
