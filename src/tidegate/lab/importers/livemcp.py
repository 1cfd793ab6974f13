"""LiveMCPBench: a list of tasks with messages in OpenAI chat form.

A result is the printed form of an MCP object, and stays so: that text is what the model was given.
"""

from collections.abc import Iterator

from tidegate.lab.importers.fields import dicts, text_at
from tidegate.lab.importers.normal import chat
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source

FORMAT = "livemcp"


def recognises(head: Source) -> bool:
    return any(_is_task(value) for _, top in head.head for value in _tasks(top)[:4])


def _tasks(value: object) -> list[Json]:
    return dicts(value) if isinstance(value, list) else dicts([value])


def _is_task(value: Json) -> bool:
    return "Question" in value and "task_id" in value and isinstance(value.get("messages"), list)


def read(source: Source) -> Iterator[Recording]:
    for number, top in source.values():
        for value in _tasks(top):
            if _is_task(value):
                name = text_at(value, "task_id") or f"{source.stem}-{number}"
                meta = Meta(FORMAT, "LiveMCPBench", "", name, text_at(value, "category"), str(source.path))
                found = chat(source, number, dicts(value["messages"])).recording(source, name, meta)
                if found:
                    yield found
