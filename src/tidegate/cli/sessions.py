"""`tidegate sessions`: the list of the kept sessions."""

import argparse

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = "List the stored sessions with their length, size, last use and title (the first request), the latest first."

_MAX_TITLE_CHARS = 60


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("sessions", "", "--json")
    parser = add_command(
        subparsers, "sessions", run, summary="list the kept sessions", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("--json", action="store_true", help="a list of objects instead of a table")


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
    width = max(len("session"), *map(len, names))
    print(f"{'session':{width}}  {'records':>8}  {'on disk':>9}  {'last used':16}  {'begun':16}  title")
    for info, name in zip(found, names, strict=True):
        mark = "  (open)" if used[info.name] else ""
        title = titles[info.name][:_MAX_TITLE_CHARS]
        used_at, begun = format_time(info.used), format_time(info.created)
        size = format_byte_size(info.size)
        print(f"{name:{width}}  {info.head:>8,}  {size:>9}  {used_at:16}  {begun:16}  {title}{mark}".rstrip())
    if any(format_time(each) == UNKNOWN_TIME or not each for info in found for each in (info.used, info.created)):
        print_error("Some times are not known.", "`tidegate doctor` looks through the sessions and says what is wrong.")
    return EXIT_OK
