"""`tidegate sessions`: list the stored sessions."""

import argparse
import sys
from collections.abc import Sequence

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = "List the stored sessions with their length, size, last use and title (the first request), the latest first."

_MAX_TITLE_CHARS = 60
_MIN_TITLE_CHARS = 20


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("sessions", "", "--json")
    parser = add_command(
        subparsers, "sessions", run, summary="list the stored sessions", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("--json", action="store_true", help="a list of objects instead of a table")


def _print_table(rows: Sequence[Sequence[str]], titles: Sequence[str], marks: Sequence[str]) -> None:
    """Print all columns, or in a narrow terminal those that tell the sessions apart. Titles are cut to fit."""
    from tidegate.core.text.clip import clip_chars

    heads = ("session", "records", "on disk", "last used", "begun")
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    columns, room = range(len(heads)), _MAX_TITLE_CHARS
    if sys.stdout.isatty():
        import shutil  # slow to import

        terminal = shutil.get_terminal_size().columns
        if terminal - sum(widths) - 2 * len(heads) < _MIN_TITLE_CHARS:
            columns = range(0, len(heads), 3)
        room = max(_MIN_TITLE_CHARS, terminal - sum(widths[each] + 2 for each in columns))

    def print_row(cells: Sequence[str], title: str) -> None:
        aligned = [f"{cells[each]:{'>' if each in (1, 2) else '<'}{widths[each]}}" for each in columns]
        print("  ".join([*aligned, title]).rstrip())

    print_row(heads, "title")
    for cells, title, mark in zip(rows, titles, marks, strict=True):
        print_row(cells, f"{clip_chars(title, room - len(mark), mode='head', notice='…').text}{mark}")


def run(options: argparse.Namespace) -> int:
    import msgspec

    from tidegate.cli.data_location import open_data_folder
    from tidegate.datafolder.session_names import read_session_title
    from tidegate.datafolder.time_format import UNKNOWN_TIME, format_time
    from tidegate.terminal.formats import format_byte_size
    from tidegate.terminal.output import format_visible_name, print_error, print_json

    with open_data_folder(options) as data:
        found = data.store.sessions()
        used = {info.name: data.locks.is_in_use(info.name) for info in found}
        titles = {info.name: read_session_title(data, info.name) for info in found}
    if options.json:
        rows = [{**msgspec.to_builtins(info), "in_use": used[info.name], "title": titles[info.name]} for info in found]
        print_json(msgspec.json.encode(rows))
        return EXIT_OK
    if not found:
        print("No sessions are kept here yet.")
        return EXIT_OK
    names = [format_visible_name(info.name) for info in found]
    cells = [
        (name, f"{info.head:,}", format_byte_size(info.size), format_time(info.used), format_time(info.created))
        for info, name in zip(found, names, strict=True)
    ]
    marks = ["  (open)" if used[info.name] else "" for info in found]
    _print_table(cells, [titles[info.name] for info in found], marks)
    if any(format_time(each) == UNKNOWN_TIME or not each for info in found for each in (info.used, info.created)):
        print_error("Some times are not known.", "`tidegate doctor` looks through the sessions and says what is wrong.")
    return EXIT_OK
