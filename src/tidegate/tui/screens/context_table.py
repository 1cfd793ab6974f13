"""The rows of the context pane as text, made from values alone."""

import math
from collections.abc import Sequence
from textwrap import wrap
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from tidegate.core.text.plural import format_count
from tidegate.datafolder.time_format import format_time
from tidegate.session.reports.timeline import TimelineEntry
from tidegate.session.reports.window_usage import CategoryUsage, MessageUsage, WindowUsage
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.status.status_bar import classify_fill, format_token_count

CATEGORY_COLORS: Final = {
    "system": "#7aa2d6",
    "tools": "#b58fd6",
    "skills": "#d68fb8",
    "memory": "#d69a7a",
    "rules": "#e06c75",
    "user": "#8fbf7f",
    "assistant": "#6fb7b7",
    "results": "#c9a26d",
    "summaries": "#9aa7b8",
    "ledger": "#c7c46a",
    "notes": "#8a8f98",
    "framing": "#5d6570",
}
"""One color for each category, distinct on a dark and on a light background."""
_FIXED_COLUMNS: Final = 10 + 15 + 2
"""Width of the columns of a timeline row around its name: time, tokens before and after."""
_MORE_HINT: Final = " … enter: all"


class FillStyles(NamedTuple):
    """A color for each level of `classify_fill`."""

    calm: str
    yellow: str
    red: str
    unknown: str
    faint: str


def render_fill_title(usage: WindowUsage, width: int, styles: FillStyles) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    percent = round(100 * usage.used_share)
    text.append(f"ctx {percent}%", style=f"bold {getattr(styles, classify_fill(percent))}")
    text.append(f"  {usage.tokens:,} of {usage.capacity:,} tokens")
    if usage.window_is_assumed:
        text.append("  assumed: the window is not known", style=styles.unknown)
    elif usage.window:
        window = f"  window {usage.window:,}"
        reserve = f", reserve {usage.window - usage.capacity:,}"
        fits = len(text.plain) + len(window) + len(reserve) <= width
        text.append(window + reserve * fits, style=styles.faint)
    return text


def render_fill_bar(usage: WindowUsage, width: int, styles: FillStyles) -> Text:
    """Return the window as a bar: its categories in their colors, the rest empty. A category has at least one cell."""
    whole = max(usage.capacity, usage.tokens, 1)
    text, column = Text(no_wrap=True, end=""), 0
    for category, tokens in _sum_by_category(usage.categories):
        cells = min(max(1, round(width * tokens / whole)), width - column)
        text.append("█" * cells, style=CATEGORY_COLORS.get(category, styles.faint))
        column += cells
    return text.append("·" * (width - column), style=styles.faint)


def render_legend(usage: WindowUsage, width: int, styles: FillStyles) -> Text:
    text, column = Text(), 0
    for category, tokens in _sum_by_category(usage.categories):
        words = f"{category} {format_token_count(tokens)}"
        width_needed = len(words) + 4
        if column and column + width_needed > width:
            text.append("\n")
            column = 0
        text.append("█ ", style=CATEGORY_COLORS.get(category, styles.faint))
        text.append(f"{words}  ")
        column += width_needed
    return text


def _sum_by_category(shares: Sequence[CategoryUsage]) -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for share in shares:
        sums[share.category] = sums.get(share.category, 0) + share.tokens
    return [(category, tokens) for category, tokens in sums.items() if tokens]


def format_next_trigger(usage: WindowUsage) -> str:
    if usage.next_threshold is None:
        return "next compaction: no rule has a threshold that can be measured"
    details = ["now"] if usage.next_threshold.is_due else []
    if not usage.next_threshold.is_due and usage.next_threshold.tokens_away is not None:
        details.append(f"in {usage.next_threshold.tokens_away:,} tokens")
    if not usage.next_threshold.is_due and usage.next_threshold.turns_away is not None:
        turns = math.ceil(usage.next_threshold.turns_away)
        details.append(f"about {format_count(turns, 'turn')}")
    rule = usage.next_threshold.rule.removeprefix(f"{usage.next_threshold.moment}/") or usage.next_threshold.stage
    return f"next compaction: {', '.join(details) or 'not yet'} ({rule})"


def render_category_row(share: CategoryUsage, usage: WindowUsage, width: int, sanitizer: TextSanitizer) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    text.append("█ ", style=CATEGORY_COLORS.get(share.category, ""))
    text.append(_pad_or_clip(sanitizer.sanitize_line(share.name), _name_width(width)))
    count = f"{share.message_count:,}" if share.message_count else ""
    percent = f"{share.tokens / usage.tokens:.1%}" if usage.tokens else ""
    return text.append(f"{count:>9}{share.tokens:>10,}{percent:>8}{_format_call_price(share.dollars):>12}")


def format_category_header(width: int) -> str:
    return f"  {'':{_name_width(width)}}{'messages':>9}{'tokens':>10}{'share':>8}{'a call':>12}"


def _name_width(width: int) -> int:
    """Return the width of the name column: on a wide screen the figures stay near the names."""
    return max(12, min(_MAX_NAME_WIDTH, width - 43))


_MAX_NAME_WIDTH: Final = 40
MESSAGE_HEADER: Final = f"    {'message':20}{'tokens':>8}{'turns, age':>14}{'a call':>11}  why it is there"


def render_message_row(message: MessageUsage, width: int, sanitizer: TextSanitizer) -> Text:
    """Return the row of a message: what it is, its size, age, cost with each call, and why it is kept."""
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    text.append("  ▪ ", style=CATEGORY_COLORS.get(message.category, ""))
    name = f"{message.id} {message.tool or message.category}"
    text.append(_pad_or_clip(sanitizer.sanitize_line(name), 20))
    age, price = _format_turns_and_age(message.turns_ago, message.age_seconds), _format_call_price(message.dollars)
    text.append(f"{message.tokens:>8,}{age:>14}{price:>11}  ")
    return text.append(sanitizer.sanitize_line(message.reason), style="dim")


def measure_name_column(entries: Sequence[TimelineEntry], width: int, sanitizer: TextSanitizer) -> int:
    """Return the width of the name column: the longest name, if the other columns still fit."""
    longest = max((cell_len(_entry_name(entry, sanitizer)) for entry in entries), default=0)
    counts = max((len(_format_message_counts(entry)) for entry in entries), default=0)
    return max(12, min(longest, width - _FIXED_COLUMNS - counts))


def render_timeline_row(entry: TimelineEntry, column: int, sanitizer: TextSanitizer) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    change = entry.change
    when = format_time(change.time, "%H:%M:%S")
    text.append(f"{when}  ", style="dim")
    text.append(_pad_or_clip(_entry_name(entry, sanitizer), column), style="strike" if change.is_undone else "")
    if change.tokens_before or change.tokens_after:
        text.append(f"{format_token_count(change.tokens_before):>6} → {format_token_count(change.tokens_after):<6}")
    return text.append(f"  {_format_message_counts(entry)}")


def _format_message_counts(entry: TimelineEntry) -> str:
    change = entry.change
    counts = ((change.drops, "out"), (change.replacements, "shorter"), (change.inserts, "added"))
    return ", ".join(f"{count} {word}" for count, word in counts if count) + "  undone" * change.is_undone


def format_timeline_header(column: int) -> str:
    return f"{'when':10}{'what':{column}}{'before':>6} → {'after':6}  messages"


def _entry_name(entry: TimelineEntry, sanitizer: TextSanitizer) -> str:
    return sanitizer.sanitize_line(entry.change.rule or entry.change.title)


def describe_timeline_entry(entry: TimelineEntry, sanitizer: TextSanitizer) -> list[str]:
    """Return the details of a timeline entry. The reason comes last: it can be long."""
    details = list[str]()
    if entry.summary_tokens or entry.lost_cache_tokens:
        cost = f" (${entry.summary_dollars:.4f})" if entry.summary_dollars is not None else ""
        details.append(f"cost: {entry.summary_tokens:,} tokens to write{cost}, {entry.lost_cache_tokens:,} read again")
    if entry.calls_affected:
        savings = f" (${entry.saved_dollars:.4f})" if entry.saved_dollars is not None else ""
        details.append(f"saved: {entry.saved_tokens:,} tokens in {entry.calls_affected:,} calls{savings}")
    reason = entry.change.reason
    return [*details, *([f"why: {sanitizer.sanitize_line(reason)}"] if reason else [])]


def clip_details(details: Sequence[str], width: int, lines: int) -> str:
    """Cut the details to this number of lines, with a mark if lines are missing."""
    wrapped = wrap(" · ".join(details), width)
    if len(wrapped) <= lines:
        return "\n".join(wrapped)
    visible = wrapped[:lines]
    visible[-1] = f"{visible[-1][: width - len(_MORE_HINT)].rstrip()}{_MORE_HINT}"
    return "\n".join(visible)


def _format_call_price(dollars: float | None) -> str:
    return "" if dollars is None else "$0" if not dollars else f"${dollars:.5f}"


def _format_turns_and_age(turns: int, seconds: float | None) -> str:
    return f"{turns}t {format_age(seconds)}" if seconds is not None else f"{turns}t"


def format_age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0, seconds):.0f}s"


def _pad_or_clip(text: str, width: int) -> str:
    return text if cell_len(text) == width else set_cell_size(text, width)
