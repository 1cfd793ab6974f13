"""The same conversation as a caller would hand it in: OpenAI chat messages, or Anthropic ones.

Written apart from the renderers: a caller's dicts are plain and may be odd, a renderer's are strict.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from tidegate.core.messages import Call, Image, Message, Part, Result, Text, Thinking, calls_of, result_of

Dict = dict[str, Any]


def openai_form(messages: Sequence[Message]) -> list[Dict]:
    """OpenAI chat. Hidden messages have no place in it."""
    return [_openai(message) for message in messages if message.agent_visible]


def _openai(message: Message) -> Dict:
    result = result_of(message)
    if result is not None:
        return {"role": "tool", "tool_call_id": result.call_id, "content": _openai_content(result.parts)}
    said: Dict = {"role": message.role, "content": _openai_content(message.parts)}
    thoughts = [part.text for part in message.parts if isinstance(part, Thinking) and part.text]
    if thoughts:
        said["reasoning_content"] = "\n".join(thoughts)
    calls = calls_of(message)
    if calls:
        said["content"] = said["content"] or None
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return said


def _openai_content(parts: Sequence[Part]) -> Any:
    shown = [part for part in parts if isinstance(part, Text | Image)]
    if len(shown) == 1 and isinstance(shown[0], Text):
        return shown[0].text
    return [_openai_part(part) for part in shown]


def _openai_part(part: Text | Image) -> Dict:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": part.url or f"data:{part.media};base64,{part.data}"}}


def anthropic_form(messages: Sequence[Message]) -> list[Dict]:
    """Anthropic: results stand in a user message, together with what the user says next."""
    said: list[Dict] = []
    for message in messages:
        if not message.agent_visible:
            continue
        result = result_of(message)
        parts = [part for part in message.parts if not _foreign(part, message.origin)]
        content = [_tool_result(result)] if result else [_anthropic_part(part) for part in parts]
        role = "user" if message.role == "tool" else message.role
        mixed = said and said[-1]["role"] == role == "user" and said[-1]["content"][:1] and _is_result(said[-1])
        if mixed:
            said[-1]["content"] += content
        else:
            said.append({"role": role, "content": content})
    return said


def _foreign(part: Part, origin: str) -> bool:
    """Another provider's block has no form here."""
    return isinstance(part, Thinking) and bool(part.block) and origin != "anthropic"


def _is_result(message: Dict) -> bool:
    return bool(message["content"][0].get("type") == "tool_result")


def _tool_result(result: Result) -> Dict:
    content = [_anthropic_part(part) for part in result.parts]
    return {"type": "tool_result", "tool_use_id": result.call_id, "content": content, "is_error": result.error}


def _anthropic_part(part: Part) -> Dict:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image):
        source = {"type": "url", "url": part.url} if part.url else None
        return {"type": "image", "source": source or {"type": "base64", "media_type": part.media, "data": part.data}}
    if isinstance(part, Call):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part.arguments)}
    assert isinstance(part, Thinking)
    if part.block:
        block: Dict = json.loads(part.block)
        return block
    return {"type": "thinking", "thinking": part.text, "signature": ""}


def _input(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return {"broken": arguments}
