"""`tidegate export`: a session as one portable file."""

import argparse

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.core.errors import BadInput
from tidegate.core.text.plural import format_count
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = "Write a session into one portable file: its log and its files, with secrets masked."


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("export", "build-fix", "build-fix copy.tidegate", "build-fix copy.tidegate --force")
    parser = add_command(
        subparsers, "export", run, summary="write a session into one file", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="default: SESSION.tidegate")
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.datafolder.archive.transfer import export_session
    from tidegate.disk.folder import session_file_key
    from tidegate.terminal.formats import format_byte_size

    with open_data_folder(options) as data:
        open_existing_log(data, options.session)
        path = Path(options.file or f"{session_file_key(options.session)}.tidegate")
        if path.exists() and not options.force:
            raise BadInput(f"{path} exists already.", "Name another file, or add --force to overwrite it.")
        done = export_session(data, options.session, path)
    masked = f"; {format_count(done.masked_count, 'secret')} masked" if done.masked_count else ""
    size = format_byte_size(path.stat().st_size)
    counts = f"{format_count(done.event_count, 'record')}, {format_count(done.file_count, 'file')}"
    print(f"{clean_line(str(path))}: {counts}, {size}{masked}")
    return EXIT_OK
