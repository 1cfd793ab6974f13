"""Tables of plain text."""

import textwrap
from collections.abc import Collection, Sequence

_GAP = "  "
_MIN_TEXT_WIDTH = 20
"""In a narrower column, a text begins on a line of its own."""
_NARROW_INDENT = 4


def align_table(
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    left_aligned: Collection[int] = (0,),
    has_total: bool = False,
) -> list[str]:
    """Return the lines of a table whose first row is its heading, and whose last one is a total if `has_total`.

    Columns that do not fit into `width` characters follow in a further table below, which repeats the first column.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines: list[str] = []
    for columns in _split_columns(widths, width):
        aligned = [
            _GAP.join(
                row[column].ljust(widths[column]) if column in left_aligned else row[column].rjust(widths[column])
                for column in columns
            ).rstrip()
            for row in rows
        ]
        rule = "-" * len(aligned[0])
        last = [rule, aligned[-1]] if has_total else [aligned[-1]]
        lines += [*([""] if lines else []), aligned[0], rule, *aligned[1:-1], *(last if len(rows) > 1 else [])]
    return lines


def _split_columns(widths: Sequence[int], width: int | None) -> list[list[int]]:
    tables, column_width = [[0]], widths[0]
    for column in range(1, len(widths)):
        more = len(_GAP) + widths[column]
        if width is not None and column_width + more > width and len(tables[-1]) > 1:
            tables.append([0])
            column_width = widths[0]
        tables[-1].append(column)
        column_width += more
    return tables


def indent_text(head: str, text: str, width: int | None) -> str:
    """Return a head and a text. In a narrow terminal the text is wrapped, and its further lines begin below its first.

    Without a width nothing is wrapped.
    """
    if width is None or len(head) + len(text) <= width:
        return f"{head}{text}".rstrip()
    first = ""
    if width - len(head) < _MIN_TEXT_WIDTH:
        first, head = head.rstrip() + "\n", " " * _NARROW_INDENT
    lines = textwrap.wrap(text, width - len(head), break_long_words=False, break_on_hyphens=False)
    return first + head + f"\n{' ' * len(head)}".join(lines)
