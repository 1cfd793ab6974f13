"""The way from a command to the terminal. `main` puts a `TerminalStream` over both streams for as long as it runs.

So no command can print a control character that came out of a name or a message: `print` removes them, and
`sys.stdout.buffer`, which takes JSON, escapes them. Colors of our own go around it, by `make_console`. The full-screen
app draws by itself and has the same check in `chat/line_filter.py`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from tidegate.core.text.terminal_text import clean_line, clean_text, escape_controls, strip_controls

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult


TAB_WIDTH = 4
_Mask = Callable[[str], str]


class TerminalStream:
    """A text stream that lets no control character through but line feed and tab. All else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.raw_stream = stream
        self.buffer = _JsonBuffer(stream)

    def write(self, text: str) -> int:
        self.raw_stream.write(strip_controls(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw_stream, name)


class _JsonBuffer:
    """Takes JSON as UTF-8, whatever the encoding of the terminal, and escapes what may not reach it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        self._stream.flush()
        self._stream.buffer.write(escape_controls(data.decode("utf-8", "replace")).encode())
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.buffer, name)


@contextmanager
def guard_streams() -> Iterator[None]:
    """Put a `TerminalStream` over standard output and standard error, and take it off at the end."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_guard_stream, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guard_stream(stream: Any) -> Any:
    # A process may have no standard streams at all.
    return stream if stream is None or isinstance(stream, TerminalStream) else TerminalStream(stream)


def print_json(encoded: bytes) -> None:
    """Print encoded JSON, indented, as UTF-8."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(encoded) + b"\n")


def print_error(what: str, remedy: str = "") -> None:
    """One line that says what went wrong and one that says what to do, whatever names are in them."""
    print(f"tidegate: {clean_line(what)}", file=sys.stderr)
    if remedy:
        print(f"remedy: {clean_line(remedy)}", file=sys.stderr)


def ask_line(prompt: str) -> str:
    """What is typed behind this prompt. `input` writes to the terminal by itself, past `sys.stdout`."""
    return input(strip_controls(prompt))


def format_visible_name(name: str) -> str:
    """A name as one line of visible text, with a mark if that is not all of it."""
    shown = clean_line(name)
    if shown == name:
        return name
    return f"{shown} (hidden characters)".strip()


class TextSanitizer:
    """`shown(text)`: cleaned, then masked. The one way from the log to the screen of a chat."""

    def __init__(self, mask: _Mask = str) -> None:
        self._mask = mask

    def __call__(self, text: str) -> str:
        # Masked last: characters hidden inside a key would keep it from being recognized, and it would be shown whole.
        return self._mask(clean_text(text).expandtabs(TAB_WIDTH))

    def sanitize_line(self, text: str) -> str:
        return " ".join(self(text).split())


def make_console(*, stderr: bool = False, **options: Any) -> "Console":
    """A rich console with colors. What it prints is cleaned before the colors are added."""
    from rich.console import Console, RenderHook

    class CleanRendering(RenderHook):
        def process_renderables(self, renderables: "list[ConsoleRenderable]") -> "list[ConsoleRenderable]":
            return [_CleanRenderable(each) for each in renderables]

    stream: Any = sys.stderr if stderr else sys.stdout
    console = Console(file=stream.raw_stream if isinstance(stream, TerminalStream) else stream, **options)
    console.push_render_hook(CleanRendering())
    return console


class _CleanRenderable:
    def __init__(self, inner: "ConsoleRenderable") -> None:
        self._inner = inner

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.segment import Segment

        for segment in console.render(self._inner, options):
            yield segment if segment.control else Segment(strip_controls(segment.text), segment.style)


# A bar on the terminal; nothing where there is none, for logs and pipes want lines.

ProgressStep = Callable[[int], None]


@contextmanager
def show_progress(what: str, total: int) -> Iterator[ProgressStep]:
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
