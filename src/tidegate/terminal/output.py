"""Output to the terminal that cannot carry control characters of others.

`main` puts a `TerminalStream` over standard output and standard error while a command runs. So no command can print a
control character that came out of a name or a message: `print` removes them, and `sys.stdout.buffer`, which takes JSON,
escapes them. Our own colors bypass it through `make_console`. The full-screen app draws by itself and has the same
check, `ControlFilter` in `tui/app.py`.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TextIO

from tidegate.core.errors import IgnoredResultWarning, SystemMessageWarning, UnknownWindowWarning
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.terminal_text import clean_line, clean_text, escape_controls, strip_controls

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult

    from tidegate.core.text.secrets import SecretMask


TAB_WIDTH = 4
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe00-\ufe0f\ufe20-\ufe2f"
)
_EXCESS_MARKS: Final = LazyPattern(f"(?<=[{_MARKS}]{{8}})[{_MARKS}]+")
"""Combining marks after the eighth on one character. A terminal would draw a taller stack over other lines."""
_SEARCHED_CHARS: Final = 4_000
"""Characters at the end of a text in which a secret may begin that is not complete."""


def hide_engine_warnings() -> None:
    """Keep what the engine warns programs of from the terminal: the commands say it in their own output."""
    for each in (UnknownWindowWarning, IgnoredResultWarning, SystemMessageWarning):
        warnings.simplefilter("ignore", each)


class TerminalStream:
    """A text stream that removes every control character except line feed and tab. All else is passed on."""

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
    """The `buffer` of a terminal stream: accepts JSON as UTF-8 and escapes control characters, with any encoding."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        self._stream.flush()
        self._stream.buffer.write(escape_controls(data.decode("utf-8", "replace")).encode())
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.buffer, name)


@contextmanager
def show_loading(text: str) -> Iterator[None]:
    """Show a line on the terminal until the block ends. It is written at once, and nothing remains of it.

    Keys that are typed meanwhile wait for the program: they are not shown, and enter stays enter, not a new line.
    """
    stream = sys.stdout.raw_stream if isinstance(sys.stdout, TerminalStream) else sys.stdout
    with keep_typed_keys(sys.stdin):
        print(clean_line(text), end="", flush=True, file=stream)
        try:
            yield
        finally:
            print("\r\x1b[K", end="", flush=True, file=stream)


@contextmanager
def keep_typed_keys(stream: TextIO) -> Iterator[None]:
    """Keep the keys that are typed at this terminal until it is read, as they are."""
    import termios

    try:
        before = termios.tcgetattr(stream)
    except (termios.error, OSError, ValueError):
        yield
        return
    now = [*before]
    now[0] &= ~termios.ICRNL
    now[3] &= ~termios.ECHO
    termios.tcsetattr(stream, termios.TCSANOW, now)
    try:
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSANOW, before)


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


def find_terminal_width() -> int | None:
    """The columns of the terminal that standard output goes to; None if it goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    import shutil  # slow to import

    return shutil.get_terminal_size().columns


def print_indented(head: str, text: str) -> None:
    """Print a head and a text, which is wrapped on a terminal."""
    from tidegate.core.text.table import indent_text

    print(indent_text(head, text, find_terminal_width()))


def print_json(encoded: bytes) -> None:
    """Print encoded JSON, indented, as UTF-8."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(encoded) + b"\n")


def print_error(what: str, remedy: str = "") -> None:
    """Print one line that says what went wrong and one that says what to do. Names in them are cleaned."""
    print(f"tidegate: {clean_line(what)}", file=sys.stderr)
    if remedy:
        print(f"remedy: {clean_line(remedy)}", file=sys.stderr)


def ask_line(prompt: str) -> str:
    """Return the line typed after this prompt. `input` would write to the terminal directly, past `sys.stdout`."""
    return input(strip_controls(prompt))


class TextSanitizer:
    """Cleans and then masks text: every text of a log passes it on its way to the screen of a chat."""

    def __init__(self, mask: "SecretMask | None" = None) -> None:
        self._mask = mask

    def __call__(self, text: str) -> str:
        # Masked last: characters hidden inside a key would keep it from being recognized, and it would be shown whole.
        clean = self._clean(text)
        return self._mask(clean) if self._mask is not None else clean

    def may_continue(self, text: str) -> bool:
        """Whether words after this text may change how its end is shown."""
        return self._mask is not None and self._mask.may_continue(self._clean(text[-_SEARCHED_CHARS:]))

    def _clean(self, text: str) -> str:
        return _EXCESS_MARKS.sub("", clean_text(text)).expandtabs(TAB_WIDTH)

    def sanitize_line(self, text: str) -> str:
        return " ".join(self(text).split())


def make_console(*, stderr: bool = False, **options: Any) -> "Console":
    """Return a rich console with colors. Text is cleaned before the colors are added."""
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
    if find_spec("rich") is None:
        yield _make_plain_progress(what, total)
        print(file=sys.stderr)
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


def _make_plain_progress(what: str, total: int) -> ProgressStep:
    """A counter in one line of the terminal, for an installation without rich."""
    count = 0

    def advance(steps: int) -> None:
        nonlocal count
        count += steps
        print(f"\r{what} {count:,}/{total:,}", end="", file=sys.stderr, flush=True)

    return advance
