"""`tidegate export`: a session as one portable file, or as a handoff to read."""

import argparse
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples, parse_positive_int
from tidegate.core.errors import BadInput
from tidegate.core.text.plural import format_count
from tidegate.terminal.exit_codes import EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from pathlib import Path

    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.store.session_log import KeptLog

_ABOUT = """\
Write a session into one portable file: its log and its files, with secrets masked. With --handoff: what the model would
see now, as Markdown for another client or a colleague: the user's words and rules, the state note, the newest work.
"""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples(
        "export", "build-fix", "build-fix copy.tidegate", "build-fix copy.tidegate --force", "build-fix --handoff"
    )
    parser = add_command(
        subparsers,
        "export",
        run,
        summary="write a session into one file, or a handoff to read",
        description=_ABOUT,
        epilog=examples,
    )
    add_data_options(parser)
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="default: SESSION.tidegate, or SESSION.md")
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")
    parser.add_argument("--handoff", action="store_true", help="write what the model would see now, as Markdown")
    parser.add_argument(
        "--window",
        type=parse_positive_int,
        metavar="N",
        help="with --handoff: its size in tokens, at most (default: 32000)",
    )


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.datafolder.archive.transfer import export_session
    from tidegate.disk.folder import session_file_key
    from tidegate.terminal.formats import format_byte_size

    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        path = Path(options.file or f"{session_file_key(options.session)}.{'md' if options.handoff else 'tidegate'}")
        if path.exists() and not options.force:
            raise BadInput(f"{path} exists already.", "Name another file, or add --force to overwrite it.")
        if options.window and not options.handoff:
            raise BadInput("--window is the size of a handoff.", "Add --handoff, or leave --window out.")
        if options.handoff:
            _write_handoff(data, log, options, path)
            return EXIT_OK
        done = export_session(data, options.session, path)
    masked = f"; {format_count(done.masked_count, 'secret')} masked" if done.masked_count else ""
    size = format_byte_size(path.stat().st_size)
    counts = f"{format_count(done.event_count, 'record')}, {format_count(done.file_count, 'file')}"
    print(f"{clean_line(str(path))}: {counts}, {size}{masked}")
    return EXIT_OK


def _write_handoff(data: "DataFolder", log: "KeptLog", options: argparse.Namespace, path: "Path") -> None:
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.datafolder.session_names import read_session_title
    from tidegate.disk.atomic_files import write_atomically
    from tidegate.session.handoff import HANDOFF_WINDOW, write_handoff

    title, window = read_session_title(data, options.session), options.window or HANDOFF_WINDOW
    handoff = write_handoff(log, options.session, title=title, window=window)
    write_atomically(path, data.mask(handoff.text).encode("utf-8", "replace"))
    whole = f"{handoff.whole:,} of {format_count(handoff.messages, 'message')} whole"
    print(f"{clean_line(str(path))}: about {handoff.tokens:,} tokens, {whole}")
