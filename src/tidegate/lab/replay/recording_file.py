"""Read a recording in chat form, line by line.

A recording is JSONL in OpenAI chat form: one message a line, plain or gzipped, with an optional first line `{"meta":
{...}}`. It is read as a stream, so memory does not depend on its size. A defect of a file is a `BadInput` that names
the file, the line and what to do, so that the other files of a folder can still be replayed.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.lab.importers.recording import Recording
from tidegate.lab.importers.source_file import describe_read_error, unpack

_SUFFIXES = (".jsonl", ".jsonl.gz", ".tidegate")
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_MAX_LINE_BYTES = 512 * 2**20
"""Bytes. A file of binary data has no line ends: reading its first line must not fill the memory."""

_BOM = b"\xef\xbb\xbf"
_FORMAT_REMEDY = 'A recording has one message a line, such as {"role": "user", "content": "..."}.'


class RecordedLine(NamedTuple):
    """A recorded message and its line number in the file. `typed`: whether a person typed it, if known."""

    number: int
    message: dict[str, object]
    typed: bool | None = None


def list_recorded_lines(recording: Recording) -> list[RecordedLine]:
    """The messages of an imported recording, numbered as its lines."""
    marks = recording.typed or [None] * len(recording.messages)
    return [RecordedLine(number, *each) for number, each in enumerate(zip(recording.messages, marks, strict=True), 1)]


def get_recording_name(path: Path) -> str:
    """Return the name of a recording without folder and suffixes."""
    for suffix in reversed(_SUFFIXES):
        if path.name.endswith(suffix):
            return path.name[: -len(suffix)]
    return path.stem


def find_chat_recordings(paths: Sequence[Path]) -> list[Path]:
    """Return the recordings that these paths name: files as given, and those directly in a folder, sorted.

    Subfolders are not searched: they often hold the same sessions in another form.
    """
    files: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            files[path] = None
            continue
        inside = _list_recordings(path)
        if not inside:
            raise _make_error(
                path,
                0,
                "no recording in this folder",
                "Name a folder that itself holds .jsonl, .jsonl.gz or .tidegate.",
            )
        files.update(dict.fromkeys(inside))
    return list(files)


def _list_recordings(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise _make_error(
            folder, 0, f"cannot be read ({describe_read_error(error)})", "Check the folder and its permissions."
        ) from None
    return [entry for entry in entries if entry.name.endswith(_SUFFIXES) and entry.is_file()]


def read_chat_recording(path: Path, max_line_bytes: int = _MAX_LINE_BYTES) -> Iterator[RecordedLine]:
    """Yield the messages of one recording, each checked as it is read."""
    number = 0
    any_message = False
    with _open_unpacked(path) as file:
        for number, raw in _read_lines(path, file, max_line_bytes):
            value = _decode_line(path, number, raw)
            if number == 1 and "meta" in value and "role" not in value:
                continue
            _check_message(path, number, value)
            any_message = True
            yield RecordedLine(number, value)
    if not any_message:
        what = "is empty" if number == 0 else "holds no message"
        raise _make_error(path, 0, what, _FORMAT_REMEDY)


@contextmanager
def _open_unpacked(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file, unpacked if its first bytes say that it is gzipped."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise _make_error(
            path, 0, f"cannot be read ({describe_read_error(error)})", "Check the path and its permissions."
        ) from None
    with file, unpack(file) as content:
        if content is file and path.name.endswith(".gz"):
            raise _make_error(path, 0, "is not gzip data, though its name says so", "Rename it, or compress it again.")
        yield content


def _read_lines(path: Path, file: BufferedIOBase, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yield non-empty lines with their numbers, from 1."""
    number = 0
    while True:
        number += 1
        try:
            raw = file.readline(longest)
        except (EOFError, zlib.error, OSError) as error:
            remedy = "The file is damaged or was cut short: copy it again from its source."
            raise _make_error(path, number, f"cannot be read further ({describe_read_error(error)})", remedy) from None
        if not raw:
            return
        if len(raw) == longest:
            raise _make_error(path, number, f"longer than {longest:,} bytes", _FORMAT_REMEDY)
        if number == 1:
            raw = raw.removeprefix(_BOM)
        if raw.strip():
            yield number, raw


def _decode_line(path: Path, number: int, raw: bytes) -> dict[str, object]:
    if b"\0" in raw:
        raise _make_error(path, number, "binary data, not text", "Give a recording in JSONL form, saved as UTF-8.")
    try:
        # Not msgspec: recordings may hold lone surrogates, which only the standard library lets through.
        value = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        remedy = "Give a recording in JSONL form, saved as UTF-8."
        raise _make_error(path, number, "not UTF-8 text", remedy) from None
    except RecursionError:
        raise _make_error(path, number, "JSON nested too deeply", "Remove or correct this line.") from None
    except ValueError as error:
        remedy = "Correct or remove this line; each line is one JSON object."
        what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise _make_error(path, number, f"broken JSON ({what})", remedy) from None
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        raise _make_error(
            path, number, "an array, not a message", f"{_FORMAT_REMEDY} From an array, jq -c '.[]' makes one."
        )
    raise _make_error(path, number, f"{json.dumps(value):.40}, not a message", _FORMAT_REMEDY)


def _check_message(path: Path, number: int, message: dict[str, object]) -> None:
    role = message.get("role")
    if role is None:
        raise _make_error(path, number, 'no "role", so it is not a message', _FORMAT_REMEDY)
    if not isinstance(role, str) or role not in _ROLES:
        raise _make_error(path, number, f"unknown role {str(role)[:60]!r}", f"Use one of {', '.join(sorted(_ROLES))}.")


def _make_error(path: Path, number: int, cause: str, remedy: str) -> BadInput:
    where = f"{path}, line {number}" if number else str(path)
    return BadInput(f"{where}: {cause}.", remedy)
