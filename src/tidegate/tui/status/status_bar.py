"""The status bar. The fill of the window comes first: it is the last part to be dropped on a narrow screen."""

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
    """Return the style of a fill."""
    if percent is None:
        return "unknown"
    return "red" if percent >= _CRITICAL_PERCENT else "yellow" if percent >= _WARNING_PERCENT else "calm"


def format_token_count(count: int) -> str:
    """Return a number of tokens in few characters."""
    if count < 1_000:
        return str(count)
    if count < 10_000:
        return f"{count / 1_000:.1f}k".replace(".0k", "k")
    return f"{count // 1_000}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M".replace(".0M", "M")


def list_status_segments(figures: StatusFigures, longest: int = 40) -> list[StatusSegment]:
    """Return the segments, most important first. The model's name is cut to a maximum length."""
    percent = figures.percent
    if percent is None:
        size = f"{format_token_count(figures.request_tokens)} / " if figures.request_tokens is not None else ""
        segments = [StatusSegment("ctx ?", "unknown"), StatusSegment(f"{size}window unknown", "quiet")]
    else:
        assert figures.request_tokens is not None
        assert figures.capacity is not None
        segments = [
            StatusSegment(f"ctx {percent}%", classify_fill(percent)),
            StatusSegment(
                f"{format_token_count(figures.request_tokens)} / {format_token_count(figures.capacity)}"
                f"{', window unknown' if figures.window_is_assumed else ''}",
                "quiet",
            ),
        ]
    name = clean_line(figures.model) or "no model yet"
    segments.append(StatusSegment(name if len(name) <= longest else f"{name[: longest - 1]}…", "model"))
    if figures.is_summarizing:
        segments.append(StatusSegment("summarizing…", "busy"))
    segments.append(StatusSegment(_format_cost(figures), "quiet"))
    segments.append(StatusSegment(f"{figures.compaction_count} compacted", "quiet"))
    return segments


def _format_cost(figures: StatusFigures) -> str:
    cached = f" {figures.cached_share:.0%} cached"
    if not figures.cost_is_complete:
        return "cost …"
    if figures.dollars is None:
        return f"{format_token_count(figures.spent_tokens)} tokens, no price{cached}"
    return f"{format_dollars(figures.dollars)}{cached}"


def format_dollars(dollars: float) -> str:
    return "$0" if not dollars else f"${dollars:.4f}" if dollars < 1 else f"${dollars:,.2f}"


def fit_status_segments(figures: StatusFigures, width: int) -> list[StatusSegment]:
    """Return the segments that fit the width."""
    segments: list[StatusSegment] = []
    column = 0
    for piece in list_status_segments(figures, max(12, width // 4)):
        width_needed = cell_len(piece.text) + (3 if segments else 0)
        if column + width_needed <= width or not segments:
            segments.append(piece)
            column += width_needed
    return segments


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
