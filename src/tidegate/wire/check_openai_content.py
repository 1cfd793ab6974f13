"""OC8 and OC15: what the content of a message may be, role by role. A plain string never gets here."""

from collections.abc import Iterator, Mapping

from tidegate.wire.check_openai_tools import empty_array, wrong_type
from tidegate.wire.check_schema import shown
from tidegate.wire.faults import Fault, Profile

_TEXT = frozenset(("text",))
_PARTS: Mapping[str, frozenset[str]] = {
    "user": frozenset(("text", "image_url", "input_audio", "file")),
    "assistant": frozenset(("text", "refusal")),
}
_ITEM_PARTS: Mapping[str, frozenset[str]] = {"assistant": frozenset(("output_text", "refusal"))}
_ITEM_INPUT = frozenset(("input_text", "input_image", "input_file"))


def content_faults(message: dict[str, object], role: str, at: int, profile: Profile) -> Iterator[Fault]:
    content = message.get("content")
    where = f"messages[{at}].content"
    if content is None:
        spoken = role == "assistant" and any(message.get(key) for key in ("tool_calls", "refusal", "audio"))
        if role == "system" and profile.mistral:
            yield Fault("MI5", "System prompt must have content", where)
        elif not spoken:
            yield Fault("OC8", "Invalid value for 'content': expected a string, got null.", where)
    elif not isinstance(content, list):
        yield Fault("OC8", wrong_type(where, "one of a string or array of objects", content), where)
    elif not content:
        yield Fault("OC8", empty_array(where), where)
    elif role == "tool" and (profile.tool_text or profile.text_only):
        yield Fault("OC15", "tool message content must be a string: expected string, got list", where)
    else:
        for n, part in enumerate(content):
            yield from _part(part, role, f"{where}[{n}]", profile)


def _part(part: object, role: str, where: str, profile: Profile) -> Iterator[Fault]:
    kind = part.get("type") if isinstance(part, dict) else None
    allowed = _PARTS.get(role, _TEXT)
    if not isinstance(part, dict) or not isinstance(kind, str):
        yield Fault("OC8", wrong_type(where, "an object with a type", part), where)
    elif profile.text_only and kind != "text":
        yield Fault("OC15", "messages.content.type 参数非法", where)
    elif kind == "image_url" and role != "user":
        text = "Image URLs are only allowed for messages with role 'user', but this message with role "
        yield Fault("OC8", f"Invalid '{where}'. {text}'{role[:80]}' contains an image URL.", where)
    elif kind not in allowed:
        known = ", ".join(f"'{one}'" for one in sorted(allowed))
        yield Fault("OC8", f"Invalid value: '{kind[:80]}'. Supported values are: {known}.", f"{where}.type")
    elif kind in ("text", "refusal"):
        if not isinstance(part.get(kind), str):
            yield Fault("OC8", wrong_type(f"{where}.{kind}", "a string", part.get(kind)), where)
    else:
        inner = part.get(kind)
        if not isinstance(inner, dict) or (kind == "image_url" and not _is_filled(inner.get("url"))):
            yield Fault("OC8", wrong_type(f"{where}.{kind}", "an object", inner), where)


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def item_parts(content: object, role: str, where: str) -> Iterator[Fault]:
    """The same for an item of the Responses form: what the model said and what it is told have other part types."""
    if not isinstance(content, list):
        yield Fault("OC8", wrong_type(where, "a string or array of objects", content), where)
        return
    if not content:
        yield Fault("OC8", empty_array(where), where)
    allowed = _ITEM_PARTS.get(role, _ITEM_INPUT)
    for n, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in allowed:
            known = " and ".join(f"'{one}'" for one in sorted(allowed))
            yield Fault("OC8", f"Invalid value: {shown(kind)}. Supported values are: {known}.", f"{where}[{n}]")
        elif kind.endswith("_text") and not isinstance(part.get("text"), str):
            text = wrong_type(f"{where}[{n}].text", "a string", part.get("text"))
            yield Fault("OC8", text, f"{where}[{n}]")
