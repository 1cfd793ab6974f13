"""Sessions of tidegate: a file that `tidegate export` wrote, or the sessions of a data folder.

The recording holds the messages, not what policies did to them, so that a session can be replayed under another policy.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.event_check import is_possible_time
from tidegate.core.events import Event, MessageAdded, NoteAdded
from tidegate.core.log_fold import iterate_current_branch
from tidegate.core.messages import TOOL_RESULT, Tool
from tidegate.core.notes import ModelNote, SystemSet, ToolsSet, is_note, read_note
from tidegate.datafolder.archive.format import ARCHIVE_FORMAT as EXPORT
from tidegate.datafolder.archive.format import ArchiveHeader, ArchiveLimits, read_archive
from tidegate.datafolder.data_folder import DataFolder
from tidegate.lab.importers.conversation_builder import ConversationBuilder
from tidegate.lab.importers.json_fields import object_or_empty
from tidegate.lab.importers.logs.chat_messages import add_core_message, render_chat_tools
from tidegate.lab.importers.recording import Recording, RecordingOrigin
from tidegate.lab.importers.source_file import RecordingLocation, SourceFile
from tidegate.session.request import parse_model_note

FORMAT = "tidegate"
TIDEGATE_DATABASE = "tidegate.db"
_CONVERSATION_KINDS = ("", TOOL_RESULT)


def recognizes(head: SourceFile) -> bool:
    return bool(head.head) and object_or_empty(head.head[0].value).get("format") == EXPORT


def read(source: SourceFile) -> Iterator[Recording]:
    """Yield the session of an export file, after the whole file has been verified."""
    name = source.stem
    events: list[Event] = []
    limits = ArchiveLimits(source.limits.value_bytes, source.limits.total_bytes)
    try:
        with source.path.open("rb") as file:
            for item in read_archive(file, limits):
                if isinstance(item, ArchiveHeader):
                    name = item.name
                elif isinstance(item, Event):
                    events.append(item)
    except BadInput as fault:
        raise source.make_error(0, str(fault.args[0]).rstrip("."), fault.remedy) from None
    recording = _build_recording(source, name, lambda: events)
    if recording:
        yield recording


def read_data_folder(folder: Path) -> Iterator[Recording | BadInput]:
    """Yield every session of a data folder, or the error of one that cannot be read."""
    data = DataFolder(folder)
    try:
        for info in data.store.sessions():
            try:
                recording = _build_recording(RecordingLocation(folder), info.name, data.open_log(info.name).read)
            except TidegateError as fault:
                yield BadInput(f"{folder}, session {info.name!r}: {fault.args[0]}", fault.remedy)
            else:
                if recording:
                    yield recording
    except sqlite3.Error as error:
        raise BadInput(f"{folder}: cannot be read ({error}).", "Run `tidegate doctor` on it.") from None
    finally:
        data.close()


def _build_recording(
    source: SourceFile | RecordingLocation, name: str, read_events: Callable[[], Iterable[Event]]
) -> Recording | None:
    talk = ConversationBuilder()
    model = system = ""
    for event in iterate_current_branch(read_events):
        what, time = event.payload, event.time if is_possible_time(event.time) else 0.0
        if isinstance(what, MessageAdded):
            if what.message.agent_visible and what.message.kind in _CONVERSATION_KINDS:
                add_core_message(talk, what.message, time)
            else:
                talk.count_omitted("notes of the engine")
        elif (prompt := read_note(what, SystemSet)) is not None and prompt.text != system:
            system = prompt.text
            talk.add_message("system", system, time)
        elif is_note(what, ToolsSet):
            talk.tools = render_chat_tools(_read_tools(event.seq, what))
        elif is_note(what, ModelNote):
            model = parse_model_note(what.text).model or model
    return talk.build_recording(source, name, RecordingOrigin(FORMAT, "tidegate", model, name, "", str(source.path)))


def _read_tools(seq: int, note: NoteAdded) -> tuple[Tool, ...]:
    try:
        return ToolsSet.unpack(note).tools
    except msgspec.DecodeError as fault:
        raise BadInput(f"Record {seq} does not describe tools: {fault}.", "Run `tidegate doctor` on it.") from fault
