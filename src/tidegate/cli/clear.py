"""`tidegate clear`: empty the context of a session. The log keeps everything."""

import argparse

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = (
    "Empty the context of a session. The log keeps everything; the next request starts without the earlier messages."
)


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("clear", "build-fix")
    parser = add_command(
        subparsers, "clear", run, summary="empty the context of a session", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("session", metavar="SESSION")


def run(options: argparse.Namespace) -> int:
    from tidegate.cli.data_location import open_data_folder

    with open_data_folder(options) as data:
        live = data.open_conversation(options.session)
        messages, tokens = live.view.message_count, live.view.tokens
        live.history.clear()
    print(f"{messages} messages, {tokens:,} tokens left the context. The log keeps them.")
    return EXIT_OK
