"""`tidegate sessions`: list the stored sessions."""

import argparse
from collections.abc import Sequence

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples, parse_positive_int
from tidegate.core.text.plural import format_count
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = """\
List the stored sessions with their length, size, last use and title (the first request), the latest first: 50 at a
time, or as JSON all of them.
"""
_EPILOG = """\
To delete a session: tidegate forget SESSION. To delete all of them, delete the data folder.
"""
_PAGE = 50
_MAX_TITLE_CHARS = 60
_MIN_TITLE_CHARS = 20
_LAYOUTS: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3, 4), (0, 3), (0,))
"""The columns that are shown, by their numbers: the first that leaves room for a title is used."""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("sessions", "", "--page 2", "--json")
    parser = add_command(
        subparsers,
        "sessions",
        run,
        summary="list the stored sessions",
        description=_ABOUT,
        epilog=f"{examples}\n{_EPILOG}",
    )
    add_data_options(parser)
    parser.add_argument("--page", type=parse_positive_int, default=1, metavar="N", help=f"the Nth {_PAGE} sessions")
    parser.add_argument("--json", action="store_true", help="a list of objects instead of a table")


def _print_table(rows: Sequence[Sequence[str]], titles: Sequence[str], marks: Sequence[str]) -> None:
    """Print all columns, or in a narrow terminal those that tell the sessions apart. Titles are cut to fit."""
    from tidegate.terminal.output import find_terminal_width

    heads = ("session", "records", "on disk", "last used", "begun")
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    columns, room = _LAYOUTS[0], _MAX_TITLE_CHARS
    terminal = find_terminal_width()
    if terminal is not None:
        rooms = {layout: terminal - sum(widths[each] + 2 for each in layout) for layout in _LAYOUTS}
        columns = next((layout for layout in _LAYOUTS if rooms[layout] >= _MIN_TITLE_CHARS), _LAYOUTS[-1])
        room = max(0, rooms[columns])

    def print_row(cells: Sequence[str], title: str) -> None:
        aligned = [f"{cells[each]:{'>' if each in (1, 2) else '<'}{widths[each]}}" for each in columns]
        print("  ".join([*aligned, title]).rstrip())

    print_row(heads, "title"[:room])
    for cells, title, mark in zip(rows, titles, marks, strict=True):
        most = max(0, room - len(mark))
        print_row(cells, f"{title if len(title) <= most else title[: most - 1] + '…' if most else ''}{mark[:room]}")


def _mark_use(clients: Sequence[str], is_open: bool) -> str:
    """Several clients of a session, and whether it is open now."""
    named = f"  ({', '.join(clients)})" if len(clients) > 1 else ""
    return named + ("  (open)" if is_open else "")


def run(options: argparse.Namespace) -> int:
    import os

    import msgspec

    from tidegate.cli.data_location import check_data_folder, locate_data_folder
    from tidegate.core.text.plural import format_byte_size
    from tidegate.datafolder.location import STORE_VARIABLE
    from tidegate.datafolder.session_logs import SessionLogs
    from tidegate.datafolder.session_names import read_session_title
    from tidegate.datafolder.session_use import find_session_use
    from tidegate.datafolder.time_format import UNKNOWN_TIME, format_time
    from tidegate.store.store import list_page
    from tidegate.terminal.output import format_visible_name, print_error, print_json

    folder, store = locate_data_folder(options), options.store or os.environ.get(STORE_VARIABLE, "")
    if not folder.is_dir() and not options.data and not store:
        print("[]" if options.json else f"No sessions are stored yet in {folder}. To start one: tidegate chat")
        return EXIT_OK
    check_data_folder(folder)
    with SessionLogs(folder, store=store) as logs:
        first = (options.page - 1) * _PAGE
        if options.json and options.page == 1:
            infos = logs.store.sessions()
            total = len(infos)
        else:
            infos, total = list_page(logs.store, first, _PAGE)
        used = {info.name: logs.locks.is_in_use(info.name) for info in infos}
        titles = {info.name: read_session_title(logs, info.name) for info in infos}
        clients = {info.name: find_session_use(logs, info.name).clients for info in infos}
    if options.json:
        rows = [
            {
                **msgspec.to_builtins(info),
                "in_use": used[info.name],
                "title": titles[info.name],
                "clients": clients[info.name],
            }
            for info in infos
        ]
        print_json(msgspec.json.encode(rows))
        return EXIT_OK
    if not infos:
        last = -(-total // _PAGE)
        print(f"There is no page {options.page}; the last one is {last}." if total else "No sessions are stored yet.")
        return EXIT_OK
    names = [format_visible_name(info.name) for info in infos]
    cells = [
        (name, f"{info.head:,}", format_byte_size(info.size), format_time(info.used), format_time(info.created))
        for info, name in zip(infos, names, strict=True)
    ]
    marks = [_mark_use(clients[info.name], used[info.name]) for info in infos]
    _print_table(cells, [titles[info.name] for info in infos], marks)
    if total > len(infos):
        more = f" More: tidegate sessions --page {options.page + 1}" if first + len(infos) < total else ""
        print(f"{first + 1:,} to {first + len(infos):,} of {format_count(total, 'session')}.{more}")
    if any(format_time(each) == UNKNOWN_TIME or not each for info in infos for each in (info.used, info.created)):
        print_error("Some times are not known.", "`tidegate doctor` looks through the sessions and says what is wrong.")
    return EXIT_OK
