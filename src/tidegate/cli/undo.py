"""`tidegate undo` and `tidegate redo`: undo the newest compaction of a session, or make it again."""

import argparse

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

_UNDO = "Undo the newest compaction of a session. Messages added since then stay."
_REDO = "Redo the compaction that was undone last."


def add_parser(subparsers: Subparsers) -> None:
    for name, summary, description in (
        ("undo", "undo the newest compaction", _UNDO),
        ("redo", "redo an undone compaction", _REDO),
    ):
        examples = format_examples(name, "build-fix")
        parser = add_command(subparsers, name, run, summary=summary, description=description, epilog=examples)
        add_data_options(parser)
        parser.add_argument("session", metavar="SESSION")


def run(options: argparse.Namespace) -> int:
    from tidegate.cli.data_location import open_data_folder

    undo = options.command == "undo"
    with open_data_folder(options) as data:
        live = data.open_conversation(options.session)
        before = live.view.tokens
        seq = live.history.undo() if undo else live.history.redo()
        if seq is None:
            print("There is no compaction to undo." if undo else "Nothing was undone.")
            return EXIT_FAILED
        # Opened again: the view of `live` was counted anew, while both figures have to come from the counts in the log.
        after = data.open_conversation(options.session).view.tokens
        done = "is undone" if undo else "is redone"
        print(f"The edit at record {seq} {done}: the history {before:,} -> {after:,} tokens.")
    return EXIT_OK
