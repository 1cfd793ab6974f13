"""`tidegate recall` and `tidegate memory`: finding again what was said and noted."""

import argparse
import sys

import msgspec

from tidegate.apps.choices import FAILED, OK
from tidegate.apps.place import opened
from tidegate.apps.sessions import known
from tidegate.apps.terminal import name_on_screen, print_json
from tidegate.core.errors import BadInput
from tidegate.core.terminal_text import clean_line, clean_text
from tidegate.memory.passages import Kind
from tidegate.memory.search import Hit
from tidegate.session.recall import recall_text


def recall_command(options: argparse.Namespace) -> int:
    with opened(options) as data:
        log = known(data, options.session)
        found = recall_text(log, " ".join(options.what), max_chars=options.chars, offset=options.offset)
    print(clean_text(found.text))
    return OK if found.ids else FAILED


def memory_command(options: argparse.Namespace) -> int:
    with opened(options) as data:
        if options.act == "list":
            for name in data.notes.names():
                print(name_on_screen(name))
            return OK
        if not options.words:
            raise BadInput(f"`memory {options.act}` needs to know what.", "Give it words, or the name of a note.")
        if options.act == "show":
            print(clean_text(data.notes.read(" ".join(options.words))), end="")
            return OK
        kind: Kind | None = "note" if options.notes else "session" if options.session else None
        hits = data.search().search(" ".join(options.words), options.limit, kind=kind, name=options.session)
    if options.json:
        print_json(msgspec.json.encode(hits))
    else:
        for hit in hits:
            print(_line(hit))
    if not hits:
        print("nothing found", file=sys.stderr)
    return OK if hits else FAILED


def _line(hit: Hit) -> str:
    """Where it stands in the words of the command that shows it: a line of a note, a message of a session."""
    place = f"{hit.name}:{hit.place}" if hit.kind == "note" else f"{hit.name} m{hit.place}"
    return clean_line(f"{place}  {hit.snippet}")
