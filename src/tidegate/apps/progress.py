"""A bar on the terminal; nothing where there is none, for logs and pipes want lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegate.apps.terminal import make_console

Step = Callable[[int], None]


@contextmanager
def progress(what: str, total: int) -> Iterator[Step]:
    if not sys.stderr.isatty() or not total:
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda steps: bar.advance(task, steps)
