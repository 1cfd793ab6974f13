"""Reading messages and requests that callers pass in.

Input is not trusted to have the right type: every step checks it, and refuses it with a cause and a remedy. Nothing is
dropped silently; content that has no place in a `Message` is refused.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, runtime_checkable

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.messages import TOOL_RESULT, Call, Image, Message, Part, Result, Role, Text, Tool, encode_into_bytes
from tidegate.core.tokens.image_size import read_image_size
from tidegate.wire.limits import has_too_many_values

_JSON_ENCODER = msgspec.json.Encoder()
_MAX_DEPTH = 200


class ParsedRequest(msgspec.Struct, frozen=True):
    """The parsed body of a request."""

    system: str = ""
    tools: tuple[Tool, ...] = ()
    messages: tuple[Message, ...] = ()


def list_part_types(messages: object) -> set[str] | None:
    """The types of the parts in a list of messages with roles (OpenAI chat, Anthropic); None if it is another value."""
    if not isinstance(messages, list) or not all(isinstance(each, dict) and "role" in each for each in messages):
        return None
    contents = [each.get("content") for each in messages]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    return {str(part.get("type")) for part in parts}


def raise_bad_input(cause: str, remedy: str) -> NoReturn:
    raise BadInput(cause, remedy)


def abbreviate_value(value: object) -> str:
    """Shorten a value so that an error message can quote it."""
    return repair_unicode(str(value))[:40]


def _type_name(value: object) -> str:
    return "null" if value is None else type(value).__name__


# --- objects of provider SDKs ---------------------------------------------------------------------------------------
#
# The SDKs of OpenAI, Anthropic and Gemini return pydantic models. Frameworks also pass subclasses of `str`, `dict` and
# `list`. No SDK is imported here.


@runtime_checkable
class SdkModel(Protocol):
    """An object of a provider's SDK: a reply, its message, or its usage."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """Return the fields as a dictionary (pydantic)."""


_SCALARS = frozenset((str, int, float, bool, type(None)))


def to_plain_json(value: object) -> object:
    """Return the value with plain types only. Values that are not JSON are returned as they are."""
    return value if _is_plain_json(value) else _copy_plain_json(value)


def _is_plain_json(value: object, depth: int = 0) -> bool:
    """Whether the value needs no copy. Nearly every message is plain, and looking costs a third of copying."""
    if depth > _MAX_DEPTH:  # the parser refuses what is nested more deeply
        return True
    if type(value) is dict:
        for key, each in value.items():
            if type(key) is not str or not (type(each) in _SCALARS or _is_plain_json(each, depth + 1)):
                return False
    elif type(value) is list:
        for each in value:
            if not (type(each) in _SCALARS or _is_plain_json(each, depth + 1)):
                return False
    else:
        return type(value) in _SCALARS
    return True


def _copy_plain_json(value: object, depth: int = 0) -> object:
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {
            str.__str__(key) if isinstance(key, str) else key: _copy_plain_json(each, depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_copy_plain_json(each, depth + 1) for each in value]
    if isinstance(value, SdkModel) and not isinstance(value, type):
        return _copy_plain_json(value.model_dump(mode="json", by_alias=True, exclude_none=True), depth + 1)
    return value


# --- text ---------------------------------------------------------------------------------------------------------


def repair_unicode(text: str) -> str:
    """Return valid Unicode: adjacent halves of a surrogate pair are joined, a single half becomes U+FFFD."""
    if type(text) is not str:
        text = str.__str__(text)  # the content of a subclass, whatever its own __str__ returns
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def repair_json_unicode(value: object, depth: int = 0) -> object:
    """Repair every string of a JSON value, keys included."""
    if isinstance(value, str):
        return repair_unicode(value)
    if depth > _MAX_DEPTH:
        raise_bad_input(f"The JSON is nested more than {_MAX_DEPTH} deep.", "Flatten it.")
    if isinstance(value, dict):
        return {repair_unicode(str(key)): repair_json_unicode(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [repair_json_unicode(inner, depth + 1) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    raise_bad_input(f"A {_type_name(value)} is not JSON.", "Pass plain dicts, lists, strings and numbers.")


def encode_json_text(value: object) -> str:
    """Encode a JSON value as text that is valid Unicode."""
    return encode_into_bytes(_JSON_ENCODER, repair_json_unicode(value)).decode()


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(text)


def normalize_arguments(raw: str) -> str:
    """Return call arguments as the text of a JSON object. Anything else is wrapped whole under the key `input`."""
    if is_object_text(raw):
        return raw
    if not raw or raw.isspace():
        return "{}"
    if has_too_many_values(raw):
        return encode_json_text({"input": raw})
    try:
        # The strict decoder refuses half a surrogate pair in an escape; the rest of the text may still be sound.
        value = json.loads(raw, parse_constant=_reject_constant)
        if isinstance(value, dict) and is_object_text(text := encode_json_text(value)):
            return text
    except (ValueError, RecursionError, BadInput):
        pass
    return encode_json_text({"input": raw})


def is_object_text(raw: str) -> bool:
    """Whether the text is a JSON object that every dialect can carry."""
    if has_too_many_values(raw):
        return False
    try:
        value = msgspec.json.decode(raw)
        if raw.count("{") + raw.count("[") > _MAX_DEPTH:
            repair_json_unicode(value)
        return isinstance(value, dict)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError, BadInput):
        return False


def decode_object(text: str) -> dict[str, object]:
    """Decode a JSON object, or return an empty one. For text that was checked before and for blocks a provider made."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_call_arguments(value: object) -> str:
    if value is None:
        return "{}"
    return (
        normalize_arguments(repair_unicode(value))
        if isinstance(value, str)
        else normalize_arguments(encode_json_text(value))
    )


# --- JSON values --------------------------------------------------------------------------------------------------


def require_object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise_bad_input(f"{what} is a {_type_name(value)}, not an object.", "Pass one JSON object.")
    return value


def require_list(value: object, what: str) -> Sequence[object]:
    if not isinstance(value, (list, tuple)):
        raise_bad_input(f"{what} is a {_type_name(value)}, not a list.", "Pass a list.")
    return value


def require_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise_bad_input(f"{what} is a {_type_name(value)}, not a text.", "Pass a string.")
    return repair_unicode(value)


def read_optional_text(value: object, what: str) -> str:
    return "" if value is None else require_text(value, what)


def require_field(obj: dict[str, object], key: str, what: str) -> str:
    if not isinstance(obj.get(key), str):
        raise_bad_input(f"{what} has no {key}.", f"Add {key} as a string.")
    return repair_unicode(str(obj[key]))


def unknown_part_error(kind: object, what: str) -> BadInput:
    return BadInput(
        f"{what} has a part of the unknown type '{abbreviate_value(kind)}'.", "Send it as a text or an image."
    )


PartReader = Callable[[dict[str, object], str], Part]


def read_parts(content: object, what: str, read: PartReader) -> tuple[Part, ...]:
    """Read content that is null, a text or a list of parts."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(repair_unicode(content)),) if content else ()
    return tuple(
        read(require_object(part, f"a part of {what}"), what)
        for part in require_list(content, f"The content of {what}")
    )


# --- parts of a message -------------------------------------------------------------------------------------------


def image_from_url(url: str, media: str = "image/png") -> Image:
    """Read an image from its URL; the size of a data URL is read from its bytes."""
    if not url.startswith("data:"):
        return Image(media=media, url=url)
    header, _, data = url.partition(",")
    kind = header.removeprefix("data:").partition(";")[0]
    return image_from_base64(data, kind or media)


def image_from_base64(data: str, media: str) -> Image:
    size = read_image_size(data)
    return Image(media=media, data=data, width=size.width, height=size.height)


def _require_text_or_image(parts: Iterable[Part], what: str) -> tuple[Text | Image, ...]:
    """Build a tool message. Its parts are texts and images, nothing else."""
    content = []
    for part in parts:
        if not isinstance(part, (Text, Image)):
            raise_bad_input(f"{what} holds a part that is neither text nor image.", "Send it as a text.")
        content.append(part)
    return tuple(content)


def build_tool_message(call_id: str, parts: Iterable[Part], error: bool = False) -> Message:
    return Message("tool", (Result(call_id, _require_text_or_image(parts, "A tool result"), error),), kind=TOOL_RESULT)


def join_text_parts(parts: Iterable[Part]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))


def build_tool(name: str, description: object, parameters: object) -> Tool:
    text = read_optional_text(description, f"The description of the tool {name}")
    if parameters is None:
        return Tool(name, text)
    return Tool(name, text, encode_json_text(require_object(parameters, f"The parameters of the tool {name}")))


def build_parsed_request(messages: Iterable[Message], system: str, tools: Iterable[Tool]) -> ParsedRequest:
    """Build a request: leading system messages become the system text, later ones stay where they are."""
    rest = list(messages)
    texts = [system] if system else []
    while rest and rest[0].role == "system":
        texts.append(join_text_parts(rest.pop(0).parts))
    return ParsedRequest("\n\n".join(text for text in texts if text), tuple(tools), tuple(rest))


def merge_adjacent_messages(messages: Iterable[Message], role: Role) -> list[Message]:
    """Merge adjacent messages of one role, for dialects that write each part as a message."""
    merged_messages: list[Message] = []
    for message in messages:
        if merged_messages and message.role == role == merged_messages[-1].role:
            both = merged_messages[-1].parts + message.parts
            merged_messages[-1] = msgspec.structs.replace(merged_messages[-1], parts=both)
        else:
            merged_messages.append(message)
    return merged_messages


# --- messages nobody has parsed -----------------------------------------------------------------------------------


def normalize_message(message: Message) -> Message:
    """Return the message as a parser would have made it: plain strings, and call arguments that are a JSON object."""
    if _has_string_subclass(message):
        message = repair_message_texts(message)
    if not any(isinstance(part, Call) for part in message.parts):
        return message
    parts = tuple(
        msgspec.structs.replace(part, arguments=normalize_arguments(part.arguments)) if isinstance(part, Call) else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def _has_string_subclass(value: object) -> bool:
    if isinstance(value, str):
        return type(value) is not str
    inner = msgspec.structs.astuple(value) if isinstance(value, msgspec.Struct) else value
    return isinstance(inner, tuple) and any(map(_has_string_subclass, inner))


def repair_message_texts(message: Message) -> Message:
    """Return the message with valid Unicode in every text, and subclasses of `str` as plain strings."""
    return msgspec.convert(repair_json_unicode(msgspec.to_builtins(message, enc_hook=to_plain_json)), Message)
