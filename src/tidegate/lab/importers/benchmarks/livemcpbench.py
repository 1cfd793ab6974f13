"""LiveMCPBench recordings: a list of tasks with messages in OpenAI chat form.

A result is the printed form of an MCP object and stays so: the model was given that text.
"""

from collections.abc import Iterator

from tidegate.lab.importers.json_fields import first_text, list_objects
from tidegate.lab.importers.logs.chat_messages import build_chat_conversation
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "livemcp"


def recognizes(head: SourceFile) -> bool:
    return any(_is_task(value) for _, top in head.head for value in _list_tasks(top)[:4])


def _list_tasks(value: object) -> list[JsonRecord]:
    return list_objects(value) if isinstance(value, list) else list_objects([value])


def _is_task(value: JsonRecord) -> bool:
    return "Question" in value and "task_id" in value and isinstance(value.get("messages"), list)


def read(source: SourceFile) -> Iterator[Recording]:
    for number, top in source.read_values():
        for value in _list_tasks(top):
            if _is_task(value):
                name = first_text(value, "task_id") or f"{source.stem}-{number}"
                meta = RecordingOrigin(
                    FORMAT, "LiveMCPBench", "", name, first_text(value, "category"), str(source.path)
                )
                recording = build_chat_conversation(source, number, list_objects(value["messages"])).build_recording(
                    source, name, meta
                )
                if recording:
                    yield recording
