"""Read one file of recorded sessions as JSON values, within limits.

A file is JSON lines, one JSON document, or several documents in a row; plain or gzip. The content decides, not the
name. A file that was cut short or is still being written is read up to its end, and `damage` says so. Any other defect
is a `BadInput` with file, line and remedy.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.lab.importers.recording import JsonRecord

_MIB = 2**20
_HEAD_VALUES, _HEAD_BYTES = 64, 32 * _MIB
_GZIP, _SQLITE, _BOM = b"\x1f\x8b", b"SQLite format 3\0", b"\xef\xbb\xbf"
_COPY_REMEDY = "Copy it again from its source, or give another file."
_READ_ERRORS = (EOFError, zlib.error, OSError)


class ImportLimits(msgspec.Struct, frozen=True):
    """What one file may take, unpacked: bytes in all and in one JSON value, values in one and in all, and nesting.

    `pieces` is what bounds the memory: text takes about its own size, but a million empty lists take far more. They
    are counted by the signs between them, those inside texts too.
    """

    total_bytes: int = 1024 * _MIB
    value_bytes: int = 256 * _MIB
    value_pieces: int = 8_000_000
    total_pieces: int = 32_000_000
    max_depth: int = 200


DEFAULT_IMPORT_LIMITS = ImportLimits()


class _LineValue(NamedTuple):
    line: int
    value: object


class RecordingLocation(NamedTuple):
    """The place of a session that is not in one JSON file: a folder, a database."""

    path: Path
    damage: str = ""

    @property
    def stem(self) -> str:
        return self.path.stem


class SourceFile:
    """`head` is the start of the file: enough values to detect its format."""

    def __init__(self, path: Path, limits: ImportLimits = DEFAULT_IMPORT_LIMITS) -> None:
        self.path = path
        self.limits = limits
        self.damage = ""
        self.is_database = _starts_with(path, _SQLITE)
        self.head: list[_LineValue] = []
        self._head_is_all = True
        if not self.is_database:
            self._read_head()

    @property
    def stem(self) -> str:
        """The name of the file without its suffixes, for sessions without a name."""
        name = self.path.name.removesuffix(".gz")
        return name.rsplit(".", 1)[0] or name

    def head_objects(self) -> list[JsonRecord]:
        """The objects among the first values."""
        return [value for _, value in self.head if isinstance(value, dict)]

    def single_value(self) -> object:
        """The value of a file that holds only one, else None."""
        return self.head[0].value if self._head_is_all and len(self.head) == 1 else None

    def read_values(self) -> Iterator[_LineValue]:
        yield from self.head if self._head_is_all else self._decode_values()

    def make_error(self, line: int, cause: str, remedy: str = _COPY_REMEDY) -> BadInput:
        where = f"{self.path}, line {line}" if line else str(self.path)
        return BadInput(f"{where}: {cause}.", remedy)

    def _read_head(self) -> None:
        for value in self._decode_values():
            if len(self.head) >= _HEAD_VALUES or (self.head and self._bytes_read > _HEAD_BYTES):
                self._head_is_all = False
                return
            self.head.append(value)
        if not self.head:
            raise self.make_error(0, self.damage or "holds no JSON", "Give a file of recorded sessions.")

    # --- values ---------------------------------------------------------------------------------------------------

    def _decode_values(self) -> Iterator[_LineValue]:
        self.damage = ""
        self._bytes_read = self._pieces_read = 0
        decoder = json.JSONDecoder(parse_constant=lambda _: None)
        with _open_bytes(self.path) as source, unpack(source) as file:
            for number, raw in self._read_lines(file):
                try:
                    line = list(self._decode_line(decoder, number, raw))
                except ValueError as error:
                    if not self.head and number == self._first_line:
                        yield from self._decode_document(decoder, number, raw, file)
                        return
                    if raw.endswith(b"\n"):
                        raise self._broken_json_error(number, error) from None
                    self.damage = f"line {number} is cut short: read up to there"
                    return
                yield from line

    def _decode_document(
        self, decoder: json.JSONDecoder, number: int, raw: bytes, file: BufferedIOBase
    ) -> Iterator[_LineValue]:
        """Decode values that span lines, where a file is not one value a line."""
        try:
            rest = file.read(self.limits.value_bytes - len(raw) + 1)
        except _READ_ERRORS as error:
            raise self.make_error(number, f"cannot be read further ({describe_read_error(error)})") from None
        if len(raw) + len(rest) > self.limits.value_bytes:
            raise self._too_large_error(number, "a JSON document", self.limits.value_bytes)
        try:
            values = list(self._decode_line(decoder, number, raw + rest))
        except ValueError as error:
            line = number + (error.lineno - 1 if isinstance(error, json.JSONDecodeError) else 0)
            raise self._broken_json_error(line, error) from None
        yield from values

    def _decode_line(self, decoder: json.JSONDecoder, number: int, raw: bytes) -> Iterator[_LineValue]:
        """Decode the values on a line; there may be more than one."""
        pieces = _count_pieces(raw)
        self._pieces_read += pieces
        if pieces > self.limits.value_pieces:
            raise self._too_large_error(number, "the number of values in a JSON value", self.limits.value_pieces)
        if self._pieces_read > self.limits.total_pieces:
            raise self._too_large_error(number, "the number of values in the file", self.limits.total_pieces)
        text = raw.decode("utf-8")
        at = _skip_blanks(text, 0)
        while at < len(text):
            try:
                value, at = decoder.raw_decode(text, at)
            except RecursionError:
                raise self.make_error(number, "JSON nested too deeply", "Remove or correct this line.") from None
            if pieces > self.limits.max_depth and _is_deeper_than(value, self.limits.max_depth):
                cause = f"JSON nested more than {self.limits.max_depth} deep"
                raise self.make_error(number, cause, "Remove or correct this line.")
            yield _LineValue(number, value)
            at = _skip_blanks(text, at)

    def _read_lines(self, file: BufferedIOBase) -> Iterator[tuple[int, bytes]]:
        number = 0
        self._first_line = 0
        while True:
            number += 1
            try:
                raw = file.readline(self.limits.value_bytes + 1)
            except _READ_ERRORS as error:
                self.damage = f"cut short or damaged at line {number} ({describe_read_error(error)}): read up to there"
                return
            if not raw:
                return
            self._bytes_read += len(raw)
            if len(raw) > self.limits.value_bytes:
                raise self._too_large_error(number, "a line", self.limits.value_bytes)
            if self._bytes_read > self.limits.total_bytes:
                raise self._too_large_error(number, "the file, unpacked,", self.limits.total_bytes)
            if b"\0" in raw:
                raise self.make_error(
                    number, "binary data, not text", "Give a file of recorded sessions, saved as UTF-8."
                )
            raw = raw.removeprefix(_BOM) if number == 1 else raw
            if raw.strip():
                self._first_line = self._first_line or number
                yield number, raw

    def _broken_json_error(self, line: int, error: ValueError) -> BadInput:
        if isinstance(error, UnicodeDecodeError):
            return self.make_error(line, "not UTF-8 text", "Give a file of recorded sessions, saved as UTF-8.")
        what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)[:80]
        return self.make_error(
            line, f"broken JSON ({what})", "Correct or remove this line; if the file was cut short, copy it."
        )

    def _too_large_error(self, line: int, what: str, most: int) -> BadInput:
        return self.make_error(line, f"{what} is larger than {most:,}", "If you trust it, split it into smaller files.")


def load_bounded_json(text: str, limits: ImportLimits = DEFAULT_IMPORT_LIMITS) -> object:
    """Parse a JSON text within the same limits. None if it is not valid."""
    raw = text.encode("utf-8", "replace")
    try:
        value = json.loads(text, parse_constant=lambda _: None) if _count_pieces(raw) <= limits.value_pieces else None
    except (ValueError, RecursionError):
        return None
    return None if _is_deeper_than(value, limits.max_depth) else value


def _count_pieces(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def _is_deeper_than(value: object, depth: int) -> bool:
    """Return whether a value is nested deeper than this: recursive readers must not run out of stack."""
    level: list[object] = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _list_containers(outer)]
        if not level:
            return False
    return True


def _list_containers(value: object) -> list[object]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in inner if isinstance(each, dict | list)]


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _starts_with(path: Path, mark: bytes) -> bool:
    with _open_bytes(path) as file:
        return file.read(len(mark)) == mark


@contextmanager
def _open_bytes(path: Path) -> Iterator[BufferedIOBase]:
    try:
        if not path.is_file():
            raise BadInput(f"{path}: not a file.", "Give a file or a folder of recorded sessions.")
        file = path.open("rb")
    except OSError as error:
        cause = f"{path}: cannot be read ({describe_read_error(error)})."
        raise BadInput(cause, "Check the path and its permissions.") from None
    with file:
        yield file


@contextmanager
def unpack(file: BufferedIOBase) -> Iterator[BufferedIOBase]:
    """The file itself, or its content if its first bytes say that it is gzip data."""
    is_packed = file.read(2) == _GZIP
    file.seek(0)
    if not is_packed:
        yield file
        return
    with gzip.GzipFile(fileobj=file) as content:
        yield content


def describe_read_error(error: Exception) -> str:
    cause = error.strerror if isinstance(error, OSError) else None
    return cause or str(error) or type(error).__name__
