"""`tidegate recall` and `tidegate memory`: finding again what was said and noted."""

import argparse
import sys

import msgspec

from tidegate.cli.data_location import open_data_folder
from tidegate.cli.sessions import open_existing_log
from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line, clean_text
from tidegate.memory.passages import SourceKind
from tidegate.memory.search import SearchHit
from tidegate.session.recall import recall_text
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK
from tidegate.terminal.output import format_visible_name, print_json


def recall_command(options: argparse.Namespace) -> int:
    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        found = recall_text(log, " ".join(options.what), max_chars=options.chars, offset=options.offset)
    print(clean_text(found.text))
    return EXIT_OK if found.ids else EXIT_FAILED


def memory_command(options: argparse.Namespace) -> int:
    with open_data_folder(options) as data:
        if options.act == "list":
            for name in data.notes.names():
                print(format_visible_name(name))
            return EXIT_OK
        if not options.words:
            raise BadInput(f"`memory {options.act}` needs to know what.", "Give it words, or the name of a note.")
        if options.act == "show":
            print(clean_text(data.notes.read(" ".join(options.words))), end="")
            return EXIT_OK
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


def _format_hit(hit: SearchHit) -> str:
    """Where it stands in the words of the command that shows it: a line of a note, a message of a session."""
    place = f"{hit.name}:{hit.place}" if hit.kind == "note" else f"{hit.name} m{hit.place}"
    return clean_line(f"{place}  {hit.snippet}")
