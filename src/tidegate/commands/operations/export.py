"""`export`: a session as one portable file, or as a handoff to read."""

from argparse import Namespace
from pathlib import Path
from typing import Final

from tidegate.commands.operations.operation import Argument, Operation, OperationResult, SessionPlace
from tidegate.core.config.token_amount import parse_token_amount
from tidegate.core.errors import BadInput
from tidegate.core.text.plural import format_byte_size, format_count

_ABOUT: Final = """\
Write a session into one portable file: its log and its files, with secrets masked. With --handoff: what the model would
see now, as Markdown for another client or a colleague: the user's words and rules, the state note, the newest work.
"""


def _export(place: SessionPlace, values: Namespace) -> OperationResult:
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.datafolder.archive.transfer import export_session
    from tidegate.disk.folder import session_file_key

    data, name = place.data(), place.name
    ending = "md" if values.handoff else "tidegate"
    path = Path(values.file).expanduser() if values.file else Path(f"{session_file_key(name)}.{ending}")
    if path.exists() and not values.force:
        raise BadInput(f"{path} exists already.", "Name another file, or add --force to overwrite it.")
    if values.window and not values.handoff:
        raise BadInput("--window is the size of a handoff.", "Add --handoff, or leave --window out.")
    if values.handoff:
        return _write_handoff(place, path, values.window)
    result = export_session(data, name, path)
    secrets = f"; {format_count(result.masked_count, 'secret')} masked" if result.masked_count else ""
    counts = f"{format_count(result.event_count, 'record')}, {format_count(result.file_count, 'file')}"
    return OperationResult(f"{clean_line(str(path))}: {counts}, {format_byte_size(path.stat().st_size)}{secrets}")


def _write_handoff(place: SessionPlace, path: Path, window: int) -> OperationResult:
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.datafolder.session_names import read_session_title
    from tidegate.disk.atomic_files import write_atomically
    from tidegate.session.handoff import HANDOFF_WINDOW, write_handoff

    data, name = place.data(), place.name
    title = read_session_title(data, name)
    handoff = write_handoff(data.open_log(name), name, title=title, window=window or HANDOFF_WINDOW)
    write_atomically(path, data.mask(handoff.text).encode("utf-8", "replace"))
    whole = f"{handoff.whole:,} of {format_count(handoff.messages, 'message')} whole"
    return OperationResult(f"{clean_line(str(path))}: about {handoff.tokens:,} tokens, {whole}")


EXPORT: Final = Operation(
    "export",
    "write a session into one file, or a handoff to read",
    _ABOUT,
    ("build-fix", "build-fix copy.tidegate", "build-fix copy.tidegate --force", "build-fix --handoff"),
    _export,
    (
        Argument("file", "FILE", "default: SESSION.tidegate, or SESSION.md", repeat="?"),
        Argument("--force", help="overwrite the file if it exists", default=False),
        Argument("--handoff", help="write what the model would see now, as Markdown", default=False),
        Argument(
            "--window", "N", "with --handoff: its size in tokens, at most (default: 32000)", 0, parse_token_amount
        ),
    ),
)
OPERATIONS: Final = (EXPORT,)
