"""OpenAI's wording for a bad field, and its tool list: the same in chat and in Responses."""

from collections.abc import Iterator

from tidegate.wire.check_schema import (
    LONGEST_TEXT,
    UnsendableError,
    is_name,
    lacks_required,
    longest_text,
    schema_fault,
    shown,
    type_name,
    weigh,
)
from tidegate.wire.faults import Fault, Profile

MOST_TOOLS = 128


def wrong_type(where: str, wanted: str, value: object) -> str:
    return f"Invalid type for '{where}': expected {wanted}, but got {type_name(value)} instead."


def too_long(where: str, limit: int, got: int) -> str:
    return (
        f"Invalid '{where}': string too long. Expected a string with maximum length {limit}, "
        f"but got a string with length {got} instead."
    )


def empty_text(where: str) -> str:
    return f"Invalid '{where}': empty string. Expected a string with minimum length 1, but got an empty string instead."


def empty_array(where: str) -> str:
    return f"Invalid '{where}': empty array. Expected an array with minimum length 1, but got an empty array instead."


def array_too_long(where: str, limit: int, got: int) -> str:
    return (
        f"Invalid '{where}': array too long. Expected an array with maximum length {limit}, "
        f"but got an array with length {got} instead."
    )


def bad_name(where: str, name: object) -> str:
    """Why OpenAI refuses this function name; empty if it does not."""
    if not isinstance(name, str):
        return wrong_type(where, "a string", name)
    if is_name(name):
        return ""
    if not name:
        return empty_text(where)
    if len(name) > 64:
        return too_long(where, 64, len(name))
    return (
        f"Invalid '{where}': string does not match pattern. Expected a string that matches the pattern "
        "'^[a-zA-Z0-9_-]+$'."
    )


def unsendable(value: object, where: str) -> str:
    """OC10: why OpenAI cannot read this part of the body; empty if it can."""
    try:
        size = weigh(value)
    except UnsendableError as error:
        return f"We could not parse the JSON body of your request: {error}"
    if size > LONGEST_TEXT and (longest := longest_text(value)) > LONGEST_TEXT:
        return too_long(where, LONGEST_TEXT, longest)
    return ""


def openai_tools(tools: object, profile: Profile, *, flat: bool) -> Iterator[Fault]:
    """OC5, MI5 and XA1: the same list in both OpenAI forms, but chat nests each function one level deeper."""
    rule = "MI5" if profile.mistral else "OC5"
    if not isinstance(tools, list):
        yield Fault(rule, wrong_type("tools", "an array of objects", tools), "tools")
        return
    if not tools:
        yield Fault("OC5", empty_array("tools"), "tools")
    if len(tools) > MOST_TOOLS:
        yield Fault("OC5", array_too_long("tools", MOST_TOOLS, len(tools)), "tools")
    names: set[object] = set()
    for at, tool in enumerate(tools):
        where = f"tools[{at}]" if flat else f"tools[{at}].function"
        kind = tool.get("type") if isinstance(tool, dict) else None
        if flat and isinstance(kind, str) and kind != "function":
            continue  # tools that run at the provider have no name of ours and no schema
        function = tool if flat else tool.get("function") if kind == "function" else None
        if kind != "function" or not isinstance(function, dict):
            yield Fault(rule, wrong_type(where, "an object with type 'function'", tool), where)
            continue
        name = function.get("name")
        if text := bad_name(f"{where}.name", name):
            yield Fault(rule, text, f"{where}.name")
        elif name in names:
            yield Fault(rule, f"Invalid 'tools': function names must be unique, but '{name}' is repeated.", where)
        else:
            names.add(name)
        yield from _parameters(function, name if isinstance(name, str) else "", where, profile)


def _parameters(function: dict[str, object], name: str, where: str, profile: Profile) -> Iterator[Fault]:
    schema = function.get("parameters")
    if schema is None:
        return
    where = f"{where}.parameters"
    rule = "MI5" if profile.mistral else "OC5"
    start = "Invalid tool schema" if profile.mistral else f"Invalid schema for function '{name[:64]}'"
    if fault := schema_fault(schema, regex=profile.mistral):
        yield Fault(rule, f"{start}: {fault}", where)
    elif not isinstance(schema, dict) or schema.get("type") != "object":
        kind = shown(schema.get("type") if isinstance(schema, dict) else None)
        wanted = "schema must be a JSON Schema of 'type: \"object\"'"
        yield Fault(rule, f"{start}: {wanted}, got type: {kind}.", where)
    if profile.xai and lacks_required(schema):
        text = 'Schema validation failed: [standard_violation] /required: null is not of type "array"'
        yield Fault("XA1", text, where)
