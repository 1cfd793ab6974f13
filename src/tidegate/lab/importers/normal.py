"""Messages as they are sent: OpenAI chat form, one a line behind an optional `meta` line, or a list of them.

Messages of other providers in the same place are read by their own dialect.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidegate.core.errors import BadInput
from tidegate.core.messages import Image, Message, Result, Text, Thinking, Tool, calls_of, common_mark
from tidegate.lab.importers.fields import a_dict, a_list, a_str, dicts, kinds_of, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Content, Talk, data_url, with_images
from tidegate.wire.dialects import parse_any
from tidegate.wire.reading import object_of

FORMAT = "chat"
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_OWN_PARTS = ("", "text", "image_url", "input_text", "output_text", "refusal")


def recognises(head: Source) -> bool:
    values = [value for _, value in head.head if not _is_meta(value)]
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    return bool(values) and all(is_message(value) for value in values[:64])


def _is_meta(value: object) -> bool:
    return isinstance(value, dict) and "meta" in value and "role" not in value


def is_message(value: object) -> bool:
    return isinstance(value, dict) and value.get("role") in _ROLES and ("content" in value or "tool_calls" in value)


def read(source: Source) -> Iterator[Recording]:
    """A meta line begins a session; most files hold one."""
    sessions = [_Session({}, Talk())]
    for number, value in source.values():
        if _is_meta(value):
            sessions.append(_Session(a_dict(a_dict(value)["meta"]), Talk()))
            continue
        for each in value if isinstance(value, list) else [value]:
            if not is_message(each):
                raise source.bad(number, "not a message", 'A message has a "role" and a "content".')
            add(source, number, a_dict(each), sessions[-1].talk)
    told = [session for session in sessions if session.talk.messages]
    for session in told:
        ident = text_at(session.meta, "id")
        recording = _recording(source, ident if len(told) > 1 and ident else source.stem, session)
        if recording:
            yield recording


class _Session(NamedTuple):
    meta: Json
    talk: Talk


def _recording(source: Source, name: str, session: _Session) -> Recording | None:
    meta = session.meta
    about = Meta(
        FORMAT,
        text_at(meta, "agent"),
        text_at(meta, "model"),
        text_at(meta, "id") or name,
        text_at(meta, "repo", "source"),
        str(source.path),
    )
    return session.talk.recording(source, name, about)


def chat(source: Source, number: int, messages: Iterable[Json]) -> Talk:
    """Messages of a conversation that stands at this line of the file."""
    talk = Talk()
    for message in messages:
        add(source, number, message, talk)
    return talk


def add(source: Source, number: int, message: Json, talk: Talk) -> None:
    role, content = message.get("role"), message.get("content")
    time = time_of(message.get("timestamp", message.get("time")))
    kinds = kinds_of(content)
    if not kinds <= set(_OWN_PARTS):
        _foreign(source, number, message, talk, time)
    elif role == "assistant":
        talk.answer(_content(content), _calls(message), text_at(message, "reasoning_content", "reasoning"), time)
    elif role in ("tool", "function"):
        talk.result(text_at(message, "tool_call_id"), _content(content), time)
    else:
        talk.say("user" if role == "user" else "system", _content(content), time)


def _calls(message: Json) -> list[Call]:
    calls = []
    for each in dicts(message.get("tool_calls")):
        function = a_dict(each.get("function")) or a_dict(each.get("custom")) or each
        arguments = function.get("arguments", function.get("input"))
        calls.append(Call(text_at(each, "id"), text_at(function, "name"), arguments))
    old = a_dict(message.get("function_call"))
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
        image = a_dict(part).get("image_url")
        if image:
            images.append(text_at(image, "url") if isinstance(image, dict) else a_str(image))
        else:
            texts.append(text_at(a_dict(part), "text", "refusal"))
    return with_images(texts, images)


# --- by way of our own form ---------------------------------------------------------------------------------------


def _foreign(source: Source, number: int, message: Json, talk: Talk, time: float) -> None:
    try:
        parsed = parse_any(message)
    except BadInput as fault:
        raise source.bad(number, str(fault.args[0]).rstrip("."), fault.remedy) from None
    for each in parsed:
        tell(talk, each, time)


def tell(talk: Talk, message: Message, time: float = 0.0) -> None:
    """A message of ours, in chat form."""
    if message.role == "assistant":
        thoughts = [part.text for part in message.parts if isinstance(part, Thinking) and part.text]
        calls = [Call(call.id, call.name, call.arguments) for call in calls_of(message)]
        talk.answer(_shown(message.parts), calls, "\n".join(thoughts), time)
        return
    for part in message.parts:
        if isinstance(part, Result):
            talk.result(part.call_id, _shown(part.parts), time)
    if message.role != "tool":
        role, typed = ("user", common_mark(message.parts)) if message.role == "user" else ("system", None)
        talk.say(role, _shown(message.parts), time, typed=typed)


def _shown(parts: Iterable[object]) -> Content:
    found = list(parts)
    images = [part.url or data_url(part.media, part.data) for part in found if isinstance(part, Image)]
    return with_images([part.text for part in found if isinstance(part, Text)], images)


def tools_of(tools: Iterable[Tool]) -> list[Json]:
    """Tools of ours, in chat form."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": object_of(tool.parameters),
            },
        }
        for tool in tools
    ]
