"""Importers of other packages: a module or object with `FORMAT`, `recognizes(source)` and `read(source)`.

They are asked about a file before the formats that are plain messages, and after those with marks of their own. An
importer that fails while it is asked is passed over; its error is reported if no other format knows the file.
"""

from collections.abc import Iterator
from typing import Protocol, cast

import msgspec

from tidegate.core.errors import BadInput
from tidegate.lab.importers.call_repair import repair_messages
from tidegate.lab.importers.recording import Recording
from tidegate.lab.importers.source_file import SourceFile
from tidegate.plugins import Plugin, describe_failure, list_plugins
from tidegate.wire.registry import get_dialect


class RecordingFormat(Protocol):
    """A format of recorded sessions, usually a module."""

    FORMAT: str

    def recognizes(self, head: SourceFile, /) -> bool: ...
    def read(self, source: SourceFile, /) -> Iterator[Recording]: ...


class PluginFormat:
    """The format of another package. Whatever it raises or yields wrongly is a BadInput with its name."""

    def __init__(self, plugin: Plugin, reader: RecordingFormat) -> None:
        self._plugin = plugin
        self._reader = reader
        self.FORMAT = reader.FORMAT

    def recognizes(self, head: SourceFile, /) -> bool:
        try:
            return self._reader.recognizes(head) is True
        except Exception as failure:
            raise self._plugin.make_error(f"failed on {head.path}: {describe_failure(failure)}") from failure

    def read(self, source: SourceFile, /) -> Iterator[Recording]:
        try:
            for recording in self._reader.read(source):
                problem = _find_recording_problem(recording)
                if problem:
                    raise self._plugin.make_error(f"read {source.path} wrongly: {problem}")
                yield recording
        except BadInput:
            raise
        except Exception as failure:
            raise self._plugin.make_error(f"failed on {source.path}: {describe_failure(failure)}") from failure


def _find_recording_problem(recording: object) -> str:
    if not isinstance(recording, Recording):
        return f"it yielded a {type(recording).__name__}, not a Recording"
    try:
        msgspec.json.decode(msgspec.json.encode(recording), type=Recording)
        parse = get_dialect("openai_chat").parse_message
        for message in recording.messages:
            parse(message)
        repairs = repair_messages(recording.messages).repairs
    except Exception as bad:  # noqa: BLE001 - whatever cannot be read cannot be used
        return f"its messages are not in OpenAI chat form ({describe_failure(bad)})"
    for extra in (recording.times, recording.typed):
        if extra and len(extra) != len(recording.messages):
            return "times and typed need one value for each message, or none at all"
    return f"{'; '.join(repairs)} (a ConversationBuilder repairs this)" if repairs else ""


def load_importer_plugin(plugin: Plugin) -> PluginFormat:
    """Import an importer. Raise BadInput if it is not one."""
    reader = plugin.load()
    missing = [name for name in ("recognizes", "read") if not callable(getattr(reader, name, None))]
    if missing or not isinstance(getattr(reader, "FORMAT", None), str):
        raise plugin.make_error(
            f"has no {', '.join(missing) or 'FORMAT'}: an importer is a module with FORMAT, recognizes and read"
        )
    return PluginFormat(plugin, cast(RecordingFormat, reader))


def find_plugin_format(source: SourceFile, problems: list[str]) -> RecordingFormat | None:
    """The importer of an installed package that recognizes this file, or None. Errors are added to `problems`."""
    for plugin in list_plugins("importer"):
        try:
            reader = load_importer_plugin(plugin)
            if reader.recognizes(source):
                return reader
        except BadInput as broken:
            problems.append(str(broken))
    return None
