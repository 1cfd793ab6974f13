"""Parses the arguments of tool calls and checks them against a struct. Errors tell the model how to correct them."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from tidegate.core.errors import BadInput

_DESCRIPTIVE_KEYS = frozenset({"description", "title", "default", "examples", "$schema", "minimum", "maximum"})

_S = TypeVar("_S", bound=msgspec.Struct)


def build_arguments_schema(struct: type[msgspec.Struct]) -> str:
    """Return the JSON Schema of a struct without titles, defaults and references, which a model does not need."""
    whole = msgspec.json.schema(struct)
    inner = whole["$defs"][whole["$ref"].rsplit("/", 1)[-1]]
    properties = {name: _strip_metadata(value) for name, value in inner["properties"].items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if inner.get("required"):
        schema["required"] = inner["required"]
    return msgspec.json.encode(schema).decode()


def _strip_metadata(value: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key not in ("title", "default")}


def strip_descriptions(schema: str) -> str:
    """Return a shorter schema for a small window: names and types are enough, and errors explain the rest."""
    return msgspec.json.encode(_strip_keys(msgspec.json.decode(schema))).decode()


def _strip_keys(value: Any, *, names: bool = False) -> Any:
    """`names` is True if the keys are names of arguments, one of which may be called description."""
    if isinstance(value, dict):
        return {
            key: _strip_keys(each, names=key in ("properties", "$defs") and not names)
            for key, each in value.items()
            if names or key not in _DESCRIPTIVE_KEYS
        }
    return [_strip_keys(each) for each in value] if isinstance(value, list) else value


def parse_tool_arguments(text: str) -> dict[str, Any]:
    """Parse the JSON object that a model wrote. An empty text means no arguments."""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise BadInput(
            f"The arguments are not valid JSON: {error}.", "Nothing was done. Write one JSON object."
        ) from error
    if not isinstance(value, dict):
        raise BadInput("The arguments are not a JSON object.", 'Nothing was done. Write {"name": value, ...}.')
    return value


def convert_arguments(struct: type[_S], arguments: Mapping[str, Any]) -> _S:
    """Convert the arguments, or raise BadInput with the field and the nearest right name. Numbers may be text."""
    fields = [each.name for each in msgspec.structs.fields(struct)]
    for name in arguments:
        if name not in fields:
            raise BadInput(
                f"There is no argument {str(name)[:80]!r}{_suggest_argument(str(name), fields)}",
                _list_arguments(fields),
            )
    missing = [each.name for each in msgspec.structs.fields(struct) if each.required and each.name not in arguments]
    if missing:
        raise BadInput(f"The argument {missing[0]!r} is missing.", _list_arguments(fields))
    values = {name: value for name, value in arguments.items() if value is not None or name in missing}
    try:
        return msgspec.convert(values, struct, strict=False)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise BadInput(f"An argument is wrong: {error}.".replace("`$.", "`"), _list_arguments(fields)) from error


def _suggest_argument(name: str, fields: list[str]) -> str:
    near = get_close_matches(name[:80].lower(), fields, 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else "."


def _list_arguments(fields: list[str]) -> str:
    return f"The arguments are: {', '.join(fields)}." if fields else "It takes no arguments."
