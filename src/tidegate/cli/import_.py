"""`tidegate import`: exported sessions of ours as they were, and the session files of other agents."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidegate.cli.data_location import open_data_folder
from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.archive.transfer import import_session
from tidegate.datafolder.data_folder import DataFolder
from tidegate.lab.importers import find_local_sessions, read_recordings_by_file
from tidegate.lab.importers.logs.tidegate_sessions import recognizes
from tidegate.lab.importers.registry import find_recording_files
from tidegate.lab.importers.session_import import import_recording
from tidegate.lab.importers.source_file import SourceFile
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK
from tidegate.terminal.output import print_error

_UNTRUSTED_NOTE = "no rule in it holds (--trust, if it is yours)"


def import_command(options: argparse.Namespace) -> int:
    """Status 1 if anything could not be read; the rest is taken in all the same."""
    mine = dict.fromkeys(path for agent in options.mine for path in find_local_sessions(agent))
    files = _find_files(options, mine)
    if options.name and len(files) > 1:
        raise BadInput(f"{len(files)} files cannot all be --as {options.name}.", "Import them one by one.")
    faults = taken = left_out = 0
    with open_data_folder(options, create=True) as data:
        for path in files:
            try:
                for each in _import_file(data, path, options.name, trust=options.trust or path in mine):
                    if isinstance(each, BadInput):
                        left_out += 1
                        print_error(each.args[0], each.remedy)
                    else:
                        print(clean_line(each))
                        taken += 1
            except TidegateError as fault:
                if len(files) == 1:
                    raise
                faults += 1
                print_error(fault.args[0], fault.remedy)
            sys.stdout.flush()
    if len(files) > 1:
        print(f"{taken} sessions from {len(files) - faults} of {len(files)} files")
    return EXIT_FAILED if faults or left_out else EXIT_OK


def _find_files(options: argparse.Namespace, mine: Iterable[Path]) -> list[Path]:
    files = [*mine, *(find_recording_files([Path(path) for path in options.path]) if options.path else ())]
    if not files:
        raise BadInput("There is nothing to import.", "Name files or folders, or --mine with the name of an agent.")
    return list(dict.fromkeys(files))


def _import_file(data: DataFolder, path: Path, name: str, *, trust: bool) -> Iterator[str | BadInput]:
    """A line for each session of a file, or why it cannot be read. Our own exports keep all their records and files."""
    told = "" if trust else f"; {_UNTRUSTED_NOTE}"
    if path.is_file() and _is_export(path):
        kept = import_session(data, path, name, trust=trust)
        yield f"{kept}: {data.open_log(kept).head:,} records{told}"
        return
    found = next(read_recordings_by_file([path]))
    if found.error is not None:
        raise found.error
    recordings = found.recordings
    yield from found.session_errors
    if name and len(recordings) > 1:
        raise BadInput(f"{path} holds {len(recordings)} sessions.", "Import it without --as: each has its own name.")
    for recording in recordings:
        done = import_recording(data, recording, name, trust=trust)
        whose = recording.origin.agent or recording.origin.format
        if done.was_known:
            yield f"{done.name}: there already"
        else:
            yield "; ".join([f"{done.name}: {done.message_count:,} messages of {whose}", *recording.repairs]) + told


def _is_export(path: Path) -> bool:
    """Told by how it begins. A damaged export is one too: it is refused with that reason, not taken for another."""
    try:
        source = SourceFile(path)
    except BadInput:
        return path.name.endswith(".tidegate")
    return not source.is_database and recognizes(source)
