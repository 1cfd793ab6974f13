"""`tidegate forget`: remove a session, messages of it, or a text from everything that is kept."""

import argparse
import sys

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.core.errors import BadInput
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

_ABOUT = """\
Remove content from a log: a whole session, messages by id, or words such as a pasted secret. No other command does
this. Words are asked for or read from standard input, so that they are not in the history of your shell. Of a removed
message, its number and role stay.
"""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("forget", "old", "old m12 m13", "old --words < key")
    parser = add_command(
        subparsers, "forget", run, summary="remove a session, a message, a secret", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("ids", nargs="*", metavar="ID", help="messages to remove (default: the whole session)")
    parser.add_argument(
        "--words", action="store_true", help="remove a text, which is asked for or read from standard input"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run(options: argparse.Namespace) -> int:
    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.datafolder.forget.forget import forget_message, forget_session, forget_words

    if options.words and options.ids:
        raise BadInput("Give ids or --words, not both.", "Forget them one after the other.")
    with open_data_folder(options) as data:
        open_existing_log(data, options.session)
        if options.words:
            print(forget_words(data, options.session, _read_words()))
            return EXIT_OK
        if not _confirm(options):
            print("Nothing was done.")
            return EXIT_FAILED
        if options.ids:
            print(forget_message(data, options.session, *options.ids))
        else:
            print(forget_session(data, options.session))
    return EXIT_OK


def _read_words() -> str:
    """Ask for the words. On the command line they would be in the shell's history and in the list of processes."""
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("Words to forget (not shown): ")
    return sys.stdin.read().rstrip("\r\n")


def _confirm(options: argparse.Namespace) -> bool:
    from tidegate.terminal.output import ask_line

    if options.yes:
        return True
    what = " ".join(options.ids) or f"the whole session {options.session!r}"
    if not sys.stdin.isatty():
        raise BadInput(f"Forgetting {what} cannot be undone.", "Say --yes if you are sure.")
    return ask_line(f"Forget {what}? This cannot be undone. [y/N] ").strip().lower() in ("y", "yes")
