"""An importer for interviews: JSON lines with the keys `speaker` ("interviewer" or another name) and `says`."""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import ConversationBuilder
from tidegate.lab.importers.recording import Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "interview"


def recognizes(head: SourceFile) -> bool:
    values = head.head_objects()
    return bool(values) and all({"speaker", "says"} <= value.keys() for value in values)


def read(source: SourceFile) -> Iterator[Recording]:
    conversation = ConversationBuilder()
    for _, line in source.read_values():
        if not isinstance(line, dict):
            conversation.count_omitted("lines that are not objects")
        elif line.get("speaker") == "interviewer":
            conversation.add_message("user", str(line.get("says", "")))
        else:
            conversation.add_answer(str(line.get("says", "")))
    recording = conversation.build_recording(source, source.stem, RecordingOrigin(FORMAT, path=str(source.path)))
    if recording is not None:
        yield recording
