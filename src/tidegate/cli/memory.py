"""`tidegate memory`: search the notes and all logs, index them, list the notes, or print one."""

import argparse
import sys
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.datafolder.contents import FolderContents
    from tidegate.memory.passages import SourceKind
    from tidegate.memory.search import SearchHit

_MANY_EVENTS = 2_000
"""Fewer events are indexed in a second or two, without a progress bar."""
_ABOUT = "Search the notes and the logs of all sessions by words, index them for that, or list and print notes."
_EXAMPLES = ("search where is the port set", "search --notes deploy", "list", "show 2026-11-15.md", "index")


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("memory", *_EXAMPLES)
    parser = add_command(
        subparsers, "memory", run, summary="search notes and logs", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument(
        "act", choices=("search", "list", "show", "index"), metavar="ACT", help="search, list, show or index"
    )
    parser.add_argument("words", nargs="*", metavar="WORDS", help="what to look for, or the note to show")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="maximum number of hits (default: 10)")
    parser.add_argument("--notes", action="store_true", help="only in the notes")
    parser.add_argument("--session", default="", metavar="NAME", help="only in the log of this session")
    parser.add_argument("--json", action="store_true", help="a list of objects instead of lines")


def run(options: argparse.Namespace) -> int:
    import msgspec

    from tidegate.cli.data_location import open_data_folder
    from tidegate.core.errors import BadInput
    from tidegate.core.text.terminal_text import clean_text
    from tidegate.terminal.output import format_visible_name, print_json

    with open_data_folder(options) as data:
        if options.act == "list":
            for name in data.notes.names():
                print(format_visible_name(name))
            if not data.notes.names():
                print("no notes are stored yet", file=sys.stderr)
            return EXIT_OK
        if options.act == "index":
            print(f"indexed {_index(data):,} events", file=sys.stderr)
            return EXIT_OK
        if not options.words:
            raise BadInput(f"`memory {options.act}` needs words or a name.", "Give it words, or the name of a note.")
        if options.act == "show":
            print(clean_text(data.notes.read(" ".join(options.words))), end="")
            return EXIT_OK
        _index(data)
        kind: SourceKind | None = "note" if options.notes else "session" if options.session else None
        hits = data.open_search().search(" ".join(options.words), options.limit, kind=kind, name=options.session)
    if options.json:
        print_json(msgspec.json.encode(hits))
    else:
        for hit in hits:
            print(_format_hit(hit))
    if not hits:
        print("nothing found", file=sys.stderr)
    return EXIT_OK if hits else EXIT_FAILED


def _index(data: "FolderContents") -> int:
    """Index what is new in notes and logs, with a progress bar. Return the number of events that were new."""
    from tidegate.terminal.output import show_progress

    events = data.count_unindexed_events()
    with show_progress("indexing", events if events >= _MANY_EVENTS else 0) as step:
        data.open_search().refresh(step)
    return events


def _format_hit(hit: "SearchHit") -> str:
    """Return the place as the commands spell it (a line of a note, a message of a session) and the text found there."""
    from tidegate.core.text.terminal_text import clean_line

    place = f"{hit.name}:{hit.place}" if hit.kind == "note" else f"{hit.name} m{hit.place}"
    return clean_line(f"{place}  {hit.snippet}")
