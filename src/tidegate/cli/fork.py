"""`tidegate fork`: a new session that begins with the records of another."""

import argparse

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = "Copy a session under a new name: all of its records, or those up to a given one."


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("fork", "build-fix other-way --at 120")
    parser = add_command(
        subparsers, "fork", run, summary="copy a session, all or up to a record", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("new", metavar="NEW")
    parser.add_argument(
        "--at", type=int, default=0, metavar="SEQ", help="the number of the last record to copy (default: all)"
    )


def run(options: argparse.Namespace) -> int:
    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.core.text.terminal_text import clean_line

    with open_data_folder(options) as data:
        at = options.at or open_existing_log(data, options.session).head
        data.fork(options.session, at, options.new)
    print(f"{clean_line(options.new)} begins as {clean_line(options.session)} was at record {at}.")
    return EXIT_OK
