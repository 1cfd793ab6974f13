"""Checks that all dialects share: call arguments, names, JSON Schema."""

import math
import re
from collections.abc import Callable, Mapping

import msgspec

MAX_ARGUMENT_CHARS = 1_048_576

is_tool_name = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch

# Raw values are checked but not built: arguments only have to be an object.
_object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def has_only_finite_numbers(value: object) -> bool:
    """Return False if the value holds a NaN or an infinity, which Python writes in a form that is not JSON."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, float) and not math.isfinite(node):
            return False
    return True


def is_json_object(text: str) -> bool:
    try:
        _object_decoder.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def describe_json_type(value: object) -> str:
    names: Mapping[type, str] = {
        type(None): "null",
        bool: "a boolean",
        int: "an integer",
        float: "a decimal",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return names.get(type(value), "something else")


def describe_value(value: object) -> str:
    """Describe a value for an error text: short, and safe for any value (the repr of a deep list or a huge int
    raises).
    """
    if isinstance(value, str):
        return f"'{value[:80]}'"
    return str(value) if value is None or isinstance(value, bool | float) else describe_json_type(value)


_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_SCHEMA_KEYS = ("additionalItems", "contains", "additionalProperties", "propertyNames", "if", "then", "else", "not")
_SCHEMA_MAP_KEYS = ("properties", "patternProperties", "definitions", "$defs")
_SCHEMA_LIST_KEYS = ("allOf", "anyOf", "oneOf")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_step(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value) and len(set(value)) == len(value)


def _is_type(value: object) -> bool:
    kinds = value if isinstance(value, list) else [value]
    return bool(kinds) and _is_names(kinds) and _TYPES.issuperset(kinds)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


_KEYWORDS: Mapping[str, Callable[[object], bool]] = {
    "type": _is_type,
    "required": _is_names,
    "multipleOf": _is_step,
    **dict.fromkeys(("enum", "examples"), _is_list),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly"), _is_flag),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("$id", "$ref", "$schema", "$comment", "title", "description", "pattern", "format"), _is_text),
    **dict.fromkeys(("contentMediaType", "contentEncoding"), _is_text),
}


def find_schema_fault(schema: object, *, regex: bool = False) -> str:
    """Return the first fault of a JSON Schema (draft 7); empty if there is none.

    `regex` also compiles the patterns as Python does. Schemas use another regex dialect, so this is only for servers
    that do the same.
    """
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, bool):
            continue
        if not isinstance(node, dict):
            return f"{describe_json_type(node)} is not of type 'object', 'boolean'"
        fault = _keyword_fault(node) or _queue_subschemas(node, stack) or (_pattern_fault(node) if regex else "")
        if fault:
            return fault
    return ""


def _keyword_fault(node: dict[str, object]) -> str:
    for key, value in node.items():
        fits = _KEYWORDS.get(key)
        if fits is not None and not fits(value):
            return f"{key}: {describe_value(value)} is not valid under any of the given schemas"
    return ""


def _pattern_fault(node: dict[str, object]) -> str:
    maps = node.get("patternProperties")
    for text in [node.get("pattern"), *(maps if isinstance(maps, dict) else ())]:
        try:
            re.compile(text if isinstance(text, str) else "")
        except (re.error, RecursionError, OverflowError, Warning):
            return f"{text!r} is not a 'regex'"
    return ""


def _queue_subschemas(node: dict[str, object], stack: list[object]) -> str:
    """Queue the schemas inside this one. Return the fault of a container that cannot hold schemas."""
    stack.extend(node[key] for key in _SCHEMA_KEYS if key in node)
    for key in _SCHEMA_MAP_KEYS:
        inner = node.get(key, {})
        if not isinstance(inner, dict):
            return f"{key}: {describe_json_type(inner)} is not of type 'object'"
        stack.extend(inner.values())
    for key in _SCHEMA_LIST_KEYS:
        inner = node.get(key, [True])
        if not isinstance(inner, list) or not inner:
            return f"{key}: {describe_json_type(inner)} is not a non-empty array"
        stack.extend(inner)
    items = node.get("items", True)
    if items == []:
        return "items: [] is not a non-empty array"
    stack.extend(items if isinstance(items, list) else [items])
    needs = node.get("dependencies", {})
    if not isinstance(needs, dict):
        return f"dependencies: {describe_json_type(needs)} is not of type 'object'"
    for inner in needs.values():
        if not isinstance(inner, list):
            stack.append(inner)
        elif not _is_names(inner):
            return "dependencies: not an array of unique names"
    return ""


def lacks_required_list(schema: object) -> bool:
    """Return whether some object schema inside has no `required` array."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if not isinstance(node, dict):
            continue
        if (node.get("type") == "object" or "properties" in node) and not isinstance(node.get("required"), list):
            return True
        _queue_subschemas(node, stack)
    return False
