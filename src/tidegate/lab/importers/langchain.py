"""LangChain and LangGraph: messages as `messages_to_dict`, `dumpd` or `model_dump` write them; states.

A LangGraph state, or its history, is taken by its longest list of messages: each later state holds the earlier ones.
"""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_list, a_str, dicts, json_text, text_at
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Content, Talk, data_url, with_images

FORMAT = "langchain"
_TYPES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "tool",
}
_STATE = ("messages", "values", "channel_values", "checkpoint", "state", "kwargs")


class _Message:
    """A message whatever its wrapping: its role and its fields."""

    def __init__(self, value: Json) -> None:
        kind = a_str(value.get("type")).removesuffix("Chunk").removesuffix("Message") or ""
        self.fields = value
        if value.get("lc") and isinstance(value.get("kwargs"), dict):
            self.fields = a_dict(value["kwargs"])
            kind = a_str((a_list(value.get("id")) or [""])[-1]).removesuffix("Chunk")
        elif isinstance(value.get("data"), dict):
            self.fields = a_dict(value["data"])
        self.role = _TYPES.get(kind, _TYPES.get(kind.lower(), _TYPES.get(a_str(value.get("type")), "")))


def _is_message(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    message = _Message(value)
    wrapped = message.fields is not value
    plain = "content" in value and "role" not in value and ("additional_kwargs" in value or "type" in value)
    return bool(message.role) and "content" in message.fields and (wrapped or plain)


def _messages(value: object, depth: int = 0) -> list[Json]:
    """The longest list of messages inside a dump."""
    if depth > 6:
        return []
    if isinstance(value, dict):
        if _is_message(value):
            return [value]
        return max((_messages(value.get(key), depth + 1) for key in _STATE), key=len)
    found = a_list(value)
    if found and all(_is_message(each) for each in found):
        return dicts(found)
    return max((_messages(each, depth + 1) for each in found), key=len, default=[])


def recognises(head: Source) -> bool:
    return any(_messages(value) for _, value in head.head)


def read(source: Source) -> Iterator[Recording]:
    """One message a line is one session; else each line is the state of a session, the longest counts."""
    longest: list[Json] = []
    said: list[Json] = []
    for _, value in source.values():
        found = _messages(value)
        if isinstance(value, dict) and found == [value]:
            said.append(value)
        elif len(found) >= len(longest):
            longest = found
    talk = Talk()
    model = ""
    for message in map(_Message, said if len(said) > len(longest) else longest):
        model = model or text_at(a_dict(message.fields.get("response_metadata")), "model_name", "model")
        _add(talk, message)
    found_one = talk.recording(source, source.stem, Meta(FORMAT, "LangChain", model, source.stem, "", str(source.path)))
    if found_one:
        yield found_one


def _add(talk: Talk, message: _Message) -> None:
    fields = message.fields
    content = _content(fields.get("content"))
    if message.role == "tool":
        talk.result(text_at(fields, "tool_call_id"), content)
    elif message.role == "assistant":
        thoughts = [text_at(part, "thinking", "reasoning") for part in dicts(fields.get("content"))]
        thoughts.append(text_at(a_dict(fields.get("additional_kwargs")), "reasoning_content"))
        talk.answer(content, _calls(fields), "\n".join(filter(None, thoughts)))
    else:
        talk.say(message.role, content)


def _calls(fields: Json) -> list[Call]:
    for found in (dicts(fields.get("tool_calls")) + dicts(fields.get("invalid_tool_calls")),):
        if found:
            return [Call(text_at(each, "id"), text_at(each, "name"), each.get("args")) for each in found]
    more = a_dict(fields.get("additional_kwargs"))
    blocks = [part for part in dicts(fields.get("content")) if part.get("type") == "tool_use"]
    calls = [Call(text_at(each, "id"), text_at(each, "name"), each.get("input")) for each in blocks]
    for each in dicts(more.get("tool_calls")) if not calls else []:
        function = a_dict(each.get("function"))
        calls.append(Call(text_at(each, "id"), text_at(function, "name"), function.get("arguments")))
    old = a_dict(more.get("function_call"))
    if old and not calls:
        calls.append(Call("", text_at(old, "name"), old.get("arguments")))
    return calls


def _content(value: object) -> Content:
    if isinstance(value, str):
        return value
    texts, images = [], []
    for part in a_list(value):
        if isinstance(part, str):
            texts.append(part)
            continue
        block = a_dict(part)
        kind = block.get("type")
        if kind == "image_url":
            image = block.get("image_url")
            images.append(text_at(image, "url") if isinstance(image, dict) else a_str(image))
        elif kind == "image":
            inner = a_dict(block.get("source")) or block
            url = text_at(inner, "url") or data_url(
                text_at(inner, "media_type", "mime_type"), text_at(inner, "data", "base64")
            )
            images.append(url)
        elif "text" in block:
            texts.append(a_str(block["text"]))
        elif kind == "json":
            texts.append(json_text(block.get("json")))
    return with_images(texts, images)
