"""Read recorded sessions of any known format. The content of a file decides its format, not its name."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.lab.importers.agents import (
    claude_code,
    codex,
    copilot,
    gemini_cli,
    opencode,
    opencode_storage,
    pi,
)
from tidegate.lab.importers.benchmarks import livemcpbench, mini_swe_agent, openhands, swe_agent, tau_bench
from tidegate.lab.importers.logs import chat_messages, langchain, opentelemetry, request_logs, tidegate_sessions
from tidegate.lab.importers.plugin_formats import RecordingFormat, find_plugin_format
from tidegate.lab.importers.recording import Recording
from tidegate.lab.importers.source_file import DEFAULT_IMPORT_LIMITS, ImportLimits, SourceFile

_RECORDING_SUFFIXES = tuple(
    f"{name}{compression}" for name in (".jsonl", ".json", ".traj", ".tidegate") for compression in ("", ".gz")
)
_MAX_FOLDER_DEPTH = 5


RECORDING_FORMATS: tuple[RecordingFormat, ...] = (
    tidegate_sessions,
    claude_code,
    codex,
    copilot,
    gemini_cli,
    pi,
    opencode,
    opencode_storage,
    swe_agent,
    mini_swe_agent,
    openhands,
    livemcpbench,
    tau_bench,
    opentelemetry,
    langchain,
    request_logs,
    chat_messages,
)
"""Asked in this order: first those with recognizable marks, last those that are plain messages."""
_PLAIN_FORMATS: tuple[RecordingFormat, ...] = (langchain, request_logs, chat_messages)
"""Formats that many files look like: the importers of installed packages are asked before them."""

_KNOWN_FORMATS_REMEDY = (
    "Known are sessions of Claude Code, Codex, OpenCode, Copilot CLI, Gemini CLI, Pi, OpenHands, SWE-agent,"
    " mini-swe-agent, tau-bench, LiveMCPBench, LangChain and tidegate, OpenTelemetry spans, request logs, and chat"
    " messages one a line."
)


class ImportedFile(NamedTuple):
    """The sessions of one file, or the error that kept it from being read.

    `session_errors` are the errors of single sessions of a data folder; its other sessions are in `recordings`.
    """

    path: Path
    recordings: list[Recording]
    error: BadInput | None = None
    session_errors: Sequence[BadInput] = ()


def read_recordings(path: Path, limits: ImportLimits = DEFAULT_IMPORT_LIMITS) -> list[Recording]:
    """Return the sessions in a file, or in the files of a folder. BadInput if there is none.

    A file of a folder that cannot be read is skipped; `read_recordings_by_file` reports it.
    """
    if not path.is_dir():
        return _read_path(path, limits).recordings
    files = list(read_recordings_by_file([path], limits))
    recordings = [recording for each in files for recording in each.recordings]
    if not recordings:
        raise next((each.error for each in files if each.error), _no_recording_error(path))
    return recordings


def read_recordings_by_file(
    paths: Sequence[Path], limits: ImportLimits = DEFAULT_IMPORT_LIMITS
) -> Iterator[ImportedFile]:
    """Yield the sessions of each file, or its error."""
    for path in find_recording_files(paths):
        try:
            yield _read_path(path, limits)
        except BadInput as fault:
            yield ImportedFile(path, [], fault)


def find_recording_files(paths: Sequence[Path]) -> list[Path]:
    """Return the given files and, for a folder, the recordings in it; if it holds none, those in its subfolders.

    A folder next to recordings is not searched: it often holds the same sessions in another form.
    """
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = (
                [path]
                if (path / tidegate_sessions.TIDEGATE_DATABASE).is_file()
                else _find_in_folder(path, _MAX_FOLDER_DEPTH)
            )
            if not inside:
                raise _no_recording_error(path)
            files.update(dict.fromkeys(inside))
        else:
            files[path] = None
    return list(files)


def _find_in_folder(folder: Path, deeper: int) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        cause = f"{folder}: cannot be read ({error.strerror})."
        raise BadInput(cause, "Check the folder and its permissions.") from None
    files = [entry for entry in entries if entry.name.endswith(_RECORDING_SUFFIXES) and entry.is_file()]
    if files or not deeper:
        return files
    return [file for entry in entries if entry.is_dir() for file in _find_in_folder(entry, deeper - 1)]


def _no_recording_error(path: Path) -> BadInput:
    return BadInput(
        f"{path}: no recorded session in this folder.", f"Name one that holds {', '.join(_RECORDING_SUFFIXES[::2])}."
    )


def _read_path(path: Path, limits: ImportLimits) -> ImportedFile:
    if path.is_dir():
        return _read_data_folder(path, path)
    source = SourceFile(path, limits)
    if source.is_database and path.name == tidegate_sessions.TIDEGATE_DATABASE:
        file = _read_data_folder(path, path.parent)
    elif source.is_database:
        file = ImportedFile(path, list(opencode_storage.read_opencode_database(path, limits)))
    else:
        file = ImportedFile(path, list(_detect_format(source).read(source)))
    if not file.recordings:
        raise source.make_error(0, "holds no message", source.damage or _KNOWN_FORMATS_REMEDY)
    return file._replace(recordings=_make_names_unique(file.recordings))


def _read_data_folder(path: Path, folder: Path) -> ImportedFile:
    """Read all sessions of a data folder that can be read."""
    recordings: list[Recording] = []
    faults: list[BadInput] = []
    for each in tidegate_sessions.read_data_folder(folder):
        recordings.append(each) if isinstance(each, Recording) else faults.append(each)
    if faults and not recordings:
        raise faults[0]
    return ImportedFile(path, _make_names_unique(recordings), session_errors=faults)


def _detect_format(source: SourceFile) -> RecordingFormat:
    importer = next((each for each in RECORDING_FORMATS if each.recognizes(source)), None)
    problems: list[str] = []
    if importer is None or importer in _PLAIN_FORMATS:
        importer = find_plugin_format(source, problems) or importer
    if importer is None:
        raise source.make_error(0, "not a known format", " ".join([_KNOWN_FORMATS_REMEDY, *problems]))
    return importer


def _make_names_unique(recordings: list[Recording]) -> list[Recording]:
    """Number the sessions of one file that have the same name."""
    names: set[str] = set()
    for recording in recordings:
        name, number = recording.name, 1
        while recording.name in names:
            number += 1
            recording.name = f"{name}-{number}"
        names.add(recording.name)
    return recordings
