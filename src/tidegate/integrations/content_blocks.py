"""Blocks of content in the forms that frameworks pass on: those of the providers, and LangChain's own."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.core.errors import BadInput
from tidegate.core.messages import Call, Image, Part, Text, Thinking
from tidegate.wire.anthropic import parse as anthropic
from tidegate.wire.openai_chat import parse as openai_chat
from tidegate.wire.openai_responses import parse as openai_responses
from tidegate.wire.parsing import encode_json_text, image_from_base64, image_from_url, repair_unicode
from tidegate.wire.splicing.units import make_opaque

_THINKING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})


def read_text(text: str) -> Text:
    """A text of a framework. Some are subclasses of `str`, which the log refuses."""
    return Text(repair_unicode(str.__str__(text)))


def list_content(content: str | Sequence[Any]) -> Sequence[Any]:
    """The blocks of a content that may be a text."""
    return [content] if isinstance(content, str) else content


def read_thinking(text: str, signed: str = "") -> Thinking:
    """Thinking of the model. What a provider signed (`signed`, as a text) is kept whole or left out whole."""
    return Thinking(block=signed) if signed else Thinking(repair_unicode(text))


def read_call(ident: str | None, name: str | None, arguments: str | Mapping[str, Any] | None) -> Call:
    """A call; its arguments are JSON, or the object itself."""
    text = arguments if isinstance(arguments, str) else encode_json_text(dict(arguments or {}))
    return Call(repair_unicode(ident or ""), repair_unicode(name or ""), repair_unicode(text))


def read_block(block: object) -> Part:
    """Read a block; one that the engine does not know is kept whole or left out whole."""
    if isinstance(block, str):
        return read_text(block)
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict):
        return make_opaque(block)
    if isinstance(block.get("text"), str) and kind in ("text", "input_text", "output_text", None):
        return read_text(block["text"])
    if kind in _THINKING_TYPES:
        return Thinking(block=encode_json_text(block))
    for key in ("base64", "url"):
        if kind in ("image", "file") and isinstance(block.get(key), str):
            media = str(block.get("mime_type") or "image/png")
            return image_from_base64(block[key], media) if key == "base64" else image_from_url(block[key], media)
    for read in (openai_chat.read_part, anthropic.read_user_part, openai_responses.read_part):
        try:
            return read(block, "a message")
        except BadInput:
            continue
    return make_opaque(block)


def read_result_block(block: object) -> Text | Image:
    """The same for a block of a tool's result."""
    part = read_block(block)
    return part if isinstance(part, Text | Image) else make_opaque(block)
