"""mini-swe-agent trajectories: `messages` in OpenAI chat form, with notes of the program under `extra`.

Version 2 calls tools. Version 1, and version 2 in its text mode, write the command in a fenced block: it becomes a call
of `bash`, and the next user message its result. A message with the role `exit` is the end, not a message.
"""

import re
from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import ConversationBuilder, RecordedCall
from tidegate.lab.importers.json_fields import (
    first_text,
    list_objects,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "mini-swe-agent"
_COMMAND_BLOCK = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.DOTALL)


def recognizes(head: SourceFile) -> bool:
    return any(_is_trajectory(value) for value in head.head_objects())


def _is_trajectory(value: JsonRecord) -> bool:
    if not isinstance(value.get("messages"), list):
        return False
    info = object_or_empty(value.get("info"))
    return first_text(value, "trajectory_format").startswith("mini-swe-agent") or "mini_version" in info


def read(source: SourceFile) -> Iterator[Recording]:
    for _, value in source.read_values():
        if isinstance(value, dict) and _is_trajectory(value):
            talk = _build_conversation(list_objects(value["messages"]))
            config = object_or_empty(object_or_empty(value.get("info")).get("config"))
            model = first_text(object_or_empty(config.get("model")), "model_name")
            name = first_text(value, "instance_id") or source.stem.removesuffix(".traj")
            meta = RecordingOrigin(FORMAT, "mini-swe-agent", model, name, "", str(source.path))
            recording = talk.build_recording(source, name, meta)
            if recording:
                yield recording


def _build_conversation(messages: list[JsonRecord]) -> ConversationBuilder:
    talk = ConversationBuilder()
    waiting = 0
    for at, message in enumerate(messages):
        role, content = message.get("role"), _read_text(message.get("content"))
        time = parse_recorded_time(object_or_empty(message.get("extra")).get("timestamp"))
        if role == "assistant":
            after = messages[at + 1].get("role") if at + 1 < len(messages) else ""
            calls = _read_calls(message, content) if after != "exit" or message.get("tool_calls") else []
            waiting = sum(not call.id for call in calls) if after == "user" else 0
            if not waiting:
                calls = [call for call in calls if call.id]
            talk.add_answer(content, calls, first_text(message, "reasoning_content"), time)
        elif role == "tool":
            talk.add_result(first_text(message, "tool_call_id"), content, time)
        elif role == "user" and waiting:
            talk.add_result("", content, time)
            waiting -= 1
        elif role == "exit":
            talk.count_omitted("messages of the program itself")
        else:
            talk.add_message("user" if role == "user" else "system", content, time)
    return talk


def _read_calls(message: JsonRecord, content: str) -> list[RecordedCall]:
    calls = [
        RecordedCall(first_text(each, "id"), first_text(function, "name"), function.get("arguments"))
        for each in list_objects(message.get("tool_calls"))
        for function in [object_or_empty(each.get("function"))]
    ]
    if calls:
        return calls
    actions = [
        string_or_empty(each.get("command"))
        for each in list_objects(object_or_empty(message.get("extra")).get("actions"))
    ]
    commands = actions or _COMMAND_BLOCK.findall(content)[:1]
    return [RecordedCall("", "bash", {"command": command}) for command in commands]


def _read_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(first_text(part, "text") for part in list_objects(value))
