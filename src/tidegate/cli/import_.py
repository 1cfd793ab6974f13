"""`tidegate import`: exported sessions of ours as they were, and the session files of other agents."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options
from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.text.plural import format_count
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from pathlib import Path

    from tidegate.datafolder.data_folder import DataFolder

LOCAL_AGENT_CHOICES = ("claude-code", "codex", "opencode", "copilot", "gemini", "pi")
_UNTRUSTED_NOTE = "no rule in it holds (--trust, if it is yours)"
_ABOUT = """\
Import sessions: files that `tidegate export` wrote, and the session files of Claude Code, Codex, OpenCode, Copilot
CLI, Gemini CLI, Pi, OpenHands, SWE-agent, mini-swe-agent, tau-bench, LiveMCPBench, LangChain and LangGraph,
OpenTelemetry spans, logs of requests, and chat messages, one per line; plain or .gz. The format is recognized by the
content of a file, not by its name. A folder means the files in it. Repairs are reported; the files are only read.

A file may come from somebody else, so no rules are taken from its messages and pins. With --mine or --trust they are,
from text that was typed.
"""
_EPILOG = """\
examples:
  tidegate import copy.tidegate --as b
  tidegate import rollout.jsonl trajectories/
  tidegate import --mine claude-code
  tidegate import --trust laptop.tidegate
"""


def add_parser(subparsers: Subparsers) -> None:
    summary = "import exported sessions, and those of other agents"
    parser = add_command(subparsers, "import", run, summary=summary, description=_ABOUT, epilog=_EPILOG)
    add = parser.add_argument
    add("path", nargs="*", metavar="PATH", help="files, or folders of files")
    add("--as", dest="name", default="", metavar="NAME", help="store it under this name (one session only)")
    add(
        "--mine",
        action="append",
        default=[],
        choices=LOCAL_AGENT_CHOICES,
        metavar="AGENT",
        help=f"your own sessions of this agent: {', '.join(LOCAL_AGENT_CHOICES)}",
    )
    add("--trust", action="store_true", help="these sessions are yours: take rules from their typed text and pins")
    add_data_options(parser)


def run(options: argparse.Namespace) -> int:
    """Import every file that can be read. The status is 1 if one could not."""
    from tidegate.cli.data_location import open_data_folder
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.lab.importers import find_local_sessions
    from tidegate.terminal.output import print_error

    mine = dict.fromkeys(path for agent in options.mine for path in find_local_sessions(agent))
    files = _find_files(options, mine)
    if options.name and len(files) > 1:
        raise BadInput(f"{len(files)} files cannot all be --as {options.name}.", "Import them one by one.")
    faults = imported = left_out = 0
    with open_data_folder(options, create=True) as data:
        for path in files:
            try:
                for each in _import_file(data, path, options.name, trust=options.trust or path in mine):
                    if isinstance(each, BadInput):
                        left_out += 1
                        print_error(each.args[0], each.remedy)
                    else:
                        print(clean_line(each))
                        imported += 1
            except TidegateError as fault:
                if len(files) == 1:
                    raise
                faults += 1
                print_error(fault.args[0], fault.remedy)
            sys.stdout.flush()
    if len(files) > 1:
        print(f"{format_count(imported, 'session')} from {len(files) - faults} of {len(files)} files")
    return EXIT_FAILED if faults or left_out else EXIT_OK


def _find_files(options: argparse.Namespace, mine: "Iterable[Path]") -> "list[Path]":
    from pathlib import Path

    from tidegate.lab.importers.registry import find_recording_files

    files = [*mine, *(find_recording_files([Path(path) for path in options.path]) if options.path else ())]
    if not files:
        raise BadInput("There is nothing to import.", "Name files or folders, or --mine with the name of an agent.")
    return list(dict.fromkeys(files))


def _import_file(data: "DataFolder", path: "Path", name: str, *, trust: bool) -> Iterator[str | BadInput]:
    """Yield a line for each session of a file, or why it cannot be read. An export keeps all its records and files."""
    from tidegate.datafolder.archive.transfer import import_session
    from tidegate.lab.importers import read_recordings_by_file
    from tidegate.lab.importers.session_import import import_recording

    note = "" if trust else f"; {_UNTRUSTED_NOTE}"
    if path.is_file() and _is_export(path):
        session = import_session(data, path, name, trust=trust)
        yield f"{session}: {format_count(data.open_log(session).head, 'record')}{note}"
        return
    read = next(read_recordings_by_file([path]))
    if read.error is not None:
        raise read.error
    recordings = read.recordings
    yield from read.session_errors
    if name and len(recordings) > 1:
        raise BadInput(f"{path} holds {len(recordings)} sessions.", "Import it without --as: each has its own name.")
    for recording in recordings:
        result = import_recording(data, recording, name, trust=trust)
        whose = recording.origin.agent or recording.origin.format
        if result.was_known:
            yield f"{result.name}: there already"
        else:
            yield (
                "; ".join(
                    [f"{result.name}: {format_count(result.message_count, 'message')} of {whose}", *recording.repairs]
                )
                + note
            )


def _is_export(path: "Path") -> bool:
    """Return whether the file begins as an export does. A damaged export is one, too: importing it says so."""
    from tidegate.lab.importers.logs.tidegate_sessions import recognizes
    from tidegate.lab.importers.source_file import SourceFile

    try:
        source = SourceFile(path)
    except BadInput:
        return path.name.endswith(".tidegate")
    return not source.is_database and recognizes(source)
