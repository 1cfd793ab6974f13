"""SWE-agent trajectories (`.traj`): `history` is what the model saw.

Where the model writes its action as text, the action becomes a call of `shell` and the next user message its result.
The last action ends the run and is never answered: only its text is read. A demonstration at the start is not part of
the session.
"""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import ChatContent, ConversationBuilder, RecordedCall
from tidegate.lab.importers.json_fields import (
    first_text,
    list_objects,
    list_or_empty,
    object_or_empty,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT = "swe-agent"


def recognizes(head: SourceFile) -> bool:
    return any(_is_trajectory(value) for value in head.head_objects())


def _is_trajectory(value: JsonRecord) -> bool:
    steps = list_objects(value.get("trajectory"))
    return (
        isinstance(value.get("history"), list)
        and isinstance(value.get("trajectory"), list)
        and (not steps or "action" in steps[0])
    )


def read(source: SourceFile) -> Iterator[Recording]:
    for _, value in source.read_values():
        if isinstance(value, dict) and _is_trajectory(value):
            talk = _build_conversation(list_objects(value["history"]))
            model = first_text(object_or_empty(object_or_empty(value.get("replay_config")).get("agent")), "model")
            name = first_text(value, "instance_id") or source.stem
            meta = RecordingOrigin(FORMAT, "SWE-agent", model, name, first_text(value, "environment"), str(source.path))
            recording = talk.build_recording(source, name, meta)
            if recording:
                yield recording


def _build_conversation(history: list[JsonRecord]) -> ConversationBuilder:
    talk = ConversationBuilder()
    messages_so_far = []
    for message in history:
        if message.get("is_demo") is True:
            talk.count_omitted("messages of a demonstration")
        else:
            messages_so_far.append(message)
    waiting = False
    for at, message in enumerate(messages_so_far):
        role, content = message.get("role"), _read_text(message.get("content"))
        after = messages_so_far[at + 1] if at + 1 < len(messages_so_far) else {}
        if role == "assistant":
            waiting = _add_answer(talk, message, content, after)
        elif role == "tool":
            talk.add_result(string_or_empty(next(iter(list_or_empty(message.get("tool_call_ids"))), "")), content)
        elif role == "user" and waiting:
            talk.add_result("", content)
            waiting = False
        else:
            talk.add_message("user" if role == "user" else "system", content)
    return talk


def _add_answer(talk: ConversationBuilder, message: JsonRecord, content: ChatContent, after: JsonRecord) -> bool:
    """Add an answer. Returns whether the next user message is the result of a text action."""
    calls = [
        RecordedCall(
            string_or_empty(each.get("id")),
            first_text(object_or_empty(each.get("function")), "name"),
            object_or_empty(each.get("function")).get("arguments"),
        )
        for each in list_objects(message.get("tool_calls"))
    ]
    if calls:
        talk.add_answer(content, calls)
        return False
    action = string_or_empty(message.get("action"))
    words = string_or_empty(message.get("thought")) or content
    if action and after.get("role") == "user":
        talk.add_answer(words, [RecordedCall("", "shell", {"command": action})])
        return True
    if action:
        talk.count_omitted("actions that end the run")
    talk.add_answer(words)
    return False


def _read_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(first_text(part, "text") for part in list_objects(value))
