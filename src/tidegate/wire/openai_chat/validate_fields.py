"""OpenAI's wording for a bad field, and the checks of tools and content that need no memory."""

from collections.abc import Iterator, Mapping

from tidegate.wire.validation.faults import RequestFault, ValidationProfile
from tidegate.wire.validation.json_checks import (
    MAX_ARGUMENT_CHARS,
    describe_json_type,
    describe_value,
    find_schema_fault,
    is_json_object,
    is_tool_name,
    lacks_required_list,
)
from tidegate.wire.validation.validator import walk_tools

_MAX_TOOLS = 128
_MAX_USER_CHARS = 64
NO_OBJECT_TEXT = "arguments must be a valid JSON object string"
UNSENDABLE_TEXT = "We could not parse the JSON body of your request"


def wrong_type_text(where: str, expected: str, value: object) -> str:
    return f"Invalid type for '{where}': expected {expected}, but got {describe_json_type(value)} instead."


def string_too_long_text(where: str, limit: int, got: int) -> str:
    return (
        f"Invalid '{where}': string too long. Expected a string with maximum length {limit}, "
        f"but got a string with length {got} instead."
    )


def empty_string_text(where: str) -> str:
    return f"Invalid '{where}': empty string. Expected a string with minimum length 1, but got an empty string instead."


def empty_array_text(where: str) -> str:
    return f"Invalid '{where}': empty array. Expected an array with minimum length 1, but got an empty array instead."


def array_too_long_text(where: str, limit: int, got: int) -> str:
    return (
        f"Invalid '{where}': array too long. Expected an array with maximum length {limit}, "
        f"but got an array with length {got} instead."
    )


def describe_bad_function_name(where: str, name: object) -> str:
    """Return why OpenAI refuses this function name; empty if it does not."""
    if not isinstance(name, str):
        return wrong_type_text(where, "a string", name)
    if is_tool_name(name):
        return ""
    if not name:
        return empty_string_text(where)
    if len(name) > 64:
        return string_too_long_text(where, 64, len(name))
    return (
        f"Invalid '{where}': string does not match pattern. Expected a string that matches the pattern "
        "'^[a-zA-Z0-9_-]+$'."
    )


def check_user_name(head: Mapping[str, object]) -> Iterator[RequestFault]:
    user = head.get("user")
    if isinstance(user, str) and len(user) > _MAX_USER_CHARS:
        yield RequestFault("OC6", string_too_long_text("user", _MAX_USER_CHARS, len(user)), "user")


def check_id_length(key: str, limit: int, rule: str, where: str) -> Iterator[RequestFault]:
    if not key:
        yield RequestFault(rule, empty_string_text(where), where)
    elif len(key) > limit:
        yield RequestFault(rule, string_too_long_text(where, limit, len(key)), where)


def check_call_arguments(arguments: object, rule: str, where: str, *, no_object: str = "") -> Iterator[RequestFault]:
    """Check the arguments of a call. `no_object` is the fault text for a text that is not a JSON object; empty: any
    text is allowed.
    """
    if not isinstance(arguments, str):
        yield RequestFault(rule, wrong_type_text(where, "a string", arguments), where)
    elif len(arguments) > MAX_ARGUMENT_CHARS:
        yield RequestFault(rule, string_too_long_text(where, MAX_ARGUMENT_CHARS, len(arguments)), where)
    elif no_object and not is_json_object(arguments):
        yield RequestFault(rule, no_object, where)


def check_function_tools(tools: object, profile: ValidationProfile, *, flat: bool) -> Iterator[RequestFault]:
    """OC5, MI5 and XA1: check the list of tools. Chat nests each function one level deeper than Responses (`flat`)."""
    rule = profile.chat.tool_rule
    if not isinstance(tools, list):
        yield RequestFault(rule, wrong_type_text("tools", "an array of objects", tools), "tools")
        return
    if not tools:
        yield RequestFault("OC5", empty_array_text("tools"), "tools")
    if len(tools) > _MAX_TOOLS:
        yield RequestFault("OC5", array_too_long_text("tools", _MAX_TOOLS, len(tools)), "tools")
    ours = (
        (f"tools[{at}]" if flat else f"tools[{at}].function", tool)
        for at, tool in enumerate(tools)
        if not (flat and _runs_at_provider(tool))
    )
    for where, tool, function, problem in walk_tools(ours, is_tool_name, set(), lambda tool: _function_of(tool, flat)):
        if function is None:
            yield RequestFault(rule, wrong_type_text(where, "an object with type 'function'", tool), where)
            continue
        name = function.get("name")
        if problem == "bad name":
            yield RequestFault(rule, describe_bad_function_name(f"{where}.name", name), f"{where}.name")
        elif problem:
            text = f"Invalid 'tools': function names must be unique, but '{name}' is repeated."
            yield RequestFault(rule, text, where)
        yield from _check_parameters(function, name if isinstance(name, str) else "", where, profile)


def _runs_at_provider(tool: object) -> bool:
    """Return whether the provider runs the tool: it has no name of ours and no schema."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and kind != "function"


def _function_of(tool: object, flat: bool) -> object:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return None
    return tool if flat else tool.get("function")


def _check_parameters(
    function: dict[str, object], name: str, where: str, profile: ValidationProfile
) -> Iterator[RequestFault]:
    schema = function.get("parameters")
    if schema is None:
        return
    where = f"{where}.parameters"
    rule = profile.chat.tool_rule
    start = profile.chat.schema_text or f"Invalid schema for function '{name[:64]}'"
    if fault := find_schema_fault(schema, regex=profile.chat.compiles_patterns):
        yield RequestFault(rule, f"{start}: {fault}", where)
    elif not isinstance(schema, dict) or schema.get("type") != "object":
        kind = describe_value(schema.get("type") if isinstance(schema, dict) else None)
        expected = "schema must be a JSON Schema of 'type: \"object\"'"
        yield RequestFault(rule, f"{start}: {expected}, got type: {kind}.", where)
    if (wording := profile.chat.required_list) and lacks_required_list(schema):
        yield RequestFault(wording.rule, wording.text, where)


# OC8 and OC15: the content that each role may have. A plain string needs no check.

_TEXT_PART_TYPES = frozenset(("text",))
_PART_TYPES_BY_ROLE: Mapping[str, frozenset[str]] = {
    "user": frozenset(("text", "image_url", "input_audio", "file")),
    "assistant": frozenset(("text", "refusal")),
}


def check_chat_content(
    message: dict[str, object], role: str, at: int, profile: ValidationProfile
) -> Iterator[RequestFault]:
    content = message.get("content")
    where = f"messages[{at}].content"
    if content is None:
        has_other_content = role == "assistant" and any(message.get(key) for key in ("tool_calls", "refusal", "audio"))
        if role == "system" and profile.chat.system_content:
            yield RequestFault(*profile.chat.system_content, where)
        elif not has_other_content:
            yield RequestFault("OC8", "Invalid value for 'content': expected a string, got null.", where)
    elif not isinstance(content, list):
        yield RequestFault("OC8", wrong_type_text(where, "one of a string or array of objects", content), where)
    elif not content:
        yield RequestFault("OC8", empty_array_text(where), where)
    elif role == "tool" and (profile.tool_results_plain_text or profile.text_only):
        yield RequestFault("OC15", "tool message content must be a string: expected string, got list", where)
    else:
        for n, part in enumerate(content):
            yield from _check_part(part, role, f"{where}[{n}]", profile)


def _check_part(part: object, role: str, where: str, profile: ValidationProfile) -> Iterator[RequestFault]:
    kind = part.get("type") if isinstance(part, dict) else None
    allowed = _PART_TYPES_BY_ROLE.get(role, _TEXT_PART_TYPES)
    if not isinstance(part, dict) or not isinstance(kind, str):
        yield RequestFault("OC8", wrong_type_text(where, "an object with a type", part), where)
    elif profile.text_only and kind != "text":
        yield RequestFault("OC15", "messages.content.type 参数非法", where)
    elif kind == "image_url" and role != "user":
        text = "Image URLs are only allowed for messages with role 'user', but this message with role "
        yield RequestFault("OC8", f"Invalid '{where}'. {text}'{role[:80]}' contains an image URL.", where)
    elif kind not in allowed:
        choices = ", ".join(f"'{one}'" for one in sorted(allowed))
        yield RequestFault("OC8", f"Invalid value: '{kind[:80]}'. Supported values are: {choices}.", f"{where}.type")
    elif kind in ("text", "refusal"):
        if not isinstance(part.get(kind), str):
            yield RequestFault("OC8", wrong_type_text(f"{where}.{kind}", "a string", part.get(kind)), where)
    else:
        inner = part.get(kind)
        if not isinstance(inner, dict) or (kind == "image_url" and not _is_filled(inner.get("url"))):
            yield RequestFault("OC8", wrong_type_text(f"{where}.{kind}", "an object", inner), where)


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and bool(value)
