"""`tidegate recall`: messages of a session by id, by range or by words."""

import argparse

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

_ABOUT = """\
Read messages, also those that left the view: by id (m12), by range (m12..m40), by the path of a file (src/a.py: its
newest text in the log, and what changed it later) or by words. "Words in quotes" are looked for as they are. The output
is bounded; it says how to get the next part.
"""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("recall", "build-fix m12", "build-fix port 8080 --chars 4000")
    parser = add_command(
        subparsers, "recall", run, summary="read messages that left the view", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("what", nargs="+", metavar="WHAT", help="an id, a range of ids, a path, or words")
    parser.add_argument(
        "--chars", type=int, default=8000, metavar="N", help="maximum number of characters (default: 8000)"
    )
    parser.add_argument("--json", action="store_true", help="an object with the text, the ids in it, and what is next")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="start at this character")


def run(options: argparse.Namespace) -> int:
    import msgspec

    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.core.text.terminal_text import clean_text
    from tidegate.session.recall import recall_text
    from tidegate.terminal.output import print_json

    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        index = data.recall_index(options.session)
        found = recall_text(log, " ".join(options.what), max_chars=options.chars, offset=options.offset, index=index)
    if options.json:
        print_json(msgspec.json.encode(found))
    else:
        print(clean_text(found.text))
    return EXIT_OK if found.ids else EXIT_FAILED
