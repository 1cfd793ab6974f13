"""The parsers of the commands that work on kept sessions. The commands themselves are elsewhere and loaded late."""

import argparse
from typing import Any

DATA_VARIABLE, STORE_VARIABLE = "TIDEGATE_DATA", "TIDEGATE_STORE"

_SESSIONS = "List the kept sessions: how long, how large, when last used. The newest first."
_SHOW = """\
Show what was sent to the model. Without --at: the requests of a session and what was done to its view. With --at: the
request exactly as it was sent when the log ended with that record, as JSON; only marks for a prompt cache are left out.
"""
_TRACE = "Print the trace of a session as JSON lines: model calls, tool calls, compactions, errors. --usage adds it up."
_RECALL = """\
Read back what was said, wherever it is now: by id (m12), by range (m12..m40) or by words. The output is bounded; it
says how to get the next part.
"""
_MEMORY = "Search the notes and the logs of all sessions by words, or list and print notes."
_UNDO = "Take back the newest compaction of a session. What was said since stays."
_REDO = "Make the compaction again that was undone last."
_CLEAR = "Empty the context of a session. The log keeps everything; the next request begins anew."
_FORK = "Make a new session that begins as another was at some record."
_FORGET = """\
The only way content leaves a log. A whole session, messages of it by id, or words: a secret that was pasted. They are
asked for, or read from standard input, so that they do not end up in the history of your shell. A tombstone stays.
"""
_EXPORT = "Write a session into one portable file: its log and its files, with secrets masked."
_DOCTOR = "Check everything in the data folder: every hash, pair and number. --repair mends what can be mended."


def add_session_parsers(commands: Any) -> None:
    """Add the parsers; `commands` is what argparse's add_subparsers gave."""
    _add_reading_parsers(commands)
    _add_changing_parsers(commands)
    _add_maintenance_parsers(commands)


def _add_session_parser(commands: Any, name: str, about: str, text: str, *examples: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=text,
        epilog="examples:\n" + "".join(f"  tidegate {name} {example}".rstrip() + "\n" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data", default="", metavar="FOLDER", help=f"the data folder (default: ${DATA_VARIABLE}, else the user's own)"
    )
    parser.add_argument(
        "--store",
        default="",
        metavar="URL",
        help=f"where the logs are, if not in the folder (default: ${STORE_VARIABLE})",
    )
    return parser


def _add_reading_parsers(commands: Any) -> None:
    sessions = _add_session_parser(commands, "sessions", "list the kept sessions", _SESSIONS, "", "--json")
    sessions.add_argument("--json", action="store_true", help="a list of objects instead of a table")
    show = _add_session_parser(
        commands, "show", "any past request, as it was sent", _SHOW, "build-fix", "build-fix --at 120"
    )
    show.add_argument("session", metavar="SESSION")
    show.add_argument("--at", type=int, metavar="SEQ", help="the number of the last record the request was made from")
    show.add_argument("--wire", default="", metavar="NAME", help="in this dialect instead of the one it was sent in")
    trace = _add_session_parser(
        commands, "trace", "what happened in a session", _TRACE, "build-fix", "build-fix --usage"
    )
    trace.add_argument("session", metavar="SESSION")
    trace.add_argument("--usage", action="store_true", help="tokens by model, added up")
    recall = _add_session_parser(
        commands, "recall", "read back what left the view", _RECALL, "build-fix m12", "build-fix port 8080 --chars 4000"
    )
    recall.add_argument("session", metavar="SESSION")
    recall.add_argument("what", nargs="+", metavar="WHAT", help="an id, a range of ids, or words")
    recall.add_argument("--chars", type=int, default=8000, metavar="N", help="at most so many characters")
    recall.add_argument("--offset", type=int, default=0, metavar="N", help="go on from here")
    memory = _add_session_parser(
        commands,
        "memory",
        "search notes and logs",
        _MEMORY,
        "search where is the port set",
        "search --notes deploy",
        "list",
        "show 2026-11-15.md",
    )
    memory.add_argument("act", choices=("search", "list", "show"))
    memory.add_argument("words", nargs="*", metavar="WORDS", help="what to look for, or the note to show")
    memory.add_argument("--limit", type=int, default=10, metavar="N", help="at most so many hits (default: 10)")
    memory.add_argument("--notes", action="store_true", help="only in the notes")
    memory.add_argument("--session", default="", metavar="NAME", help="only in the log of this session")
    memory.add_argument("--json", action="store_true", help="a list of objects instead of lines")


def _add_changing_parsers(commands: Any) -> None:
    for name, about, text in (
        ("undo", "take back the newest compaction", _UNDO),
        ("redo", "make an undone compaction again", _REDO),
        ("clear", "empty a session's context", _CLEAR),
    ):
        _add_session_parser(commands, name, about, text, "build-fix").add_argument("session", metavar="SESSION")
    fork = _add_session_parser(commands, "fork", "a new session from an old one", _FORK, "build-fix other-way --at 120")
    fork.add_argument("session", metavar="SESSION")
    fork.add_argument("new", metavar="NEW")
    fork.add_argument("--at", type=int, default=0, metavar="SEQ", help="the last record it shares (default: all)")
    forget = _add_session_parser(
        commands, "forget", "remove a session, a message, a secret", _FORGET, "old", "old m12 m13", "old --words < key"
    )
    forget.add_argument("session", metavar="SESSION")
    forget.add_argument("ids", nargs="*", metavar="ID", help="messages of it (default: the whole session)")
    forget.add_argument("--words", action="store_true", help="a text, asked for or read from standard input")
    forget.add_argument("--yes", action="store_true", help="do not ask whether to go ahead")


def _add_maintenance_parsers(commands: Any) -> None:
    export = _add_session_parser(
        commands, "export", "a session as one file", _EXPORT, "build-fix", "build-fix copy.tidegate"
    )
    export.add_argument("session", metavar="SESSION")
    export.add_argument("file", nargs="?", default="", metavar="FILE", help="default: SESSION.tidegate")
    doctor = _add_session_parser(commands, "doctor", "check and mend the data folder", _DOCTOR, "", "--repair")
    doctor.add_argument("--repair", action="store_true", help="mend what can be mended")
    doctor.add_argument("--json", action="store_true", help="a list of findings instead of lines")
