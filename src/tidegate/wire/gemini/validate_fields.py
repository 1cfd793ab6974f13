"""Checks of Gemini's function declarations and field names; an unknown field is refused by name (GE8)."""

import re
from collections.abc import Iterator, Mapping

from tidegate.wire.gemini.field_names import with_camel_case
from tidegate.wire.validation.faults import RequestFault
from tidegate.wire.validation.json_checks import describe_json_type, find_schema_fault
from tidegate.wire.validation.validator import ToolEntry, walk_tools

is_function_name = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}").fullmatch
BAD_FUNCTION_NAME_TEXT = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), "
    "underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
)

BODY_FIELDS = frozenset(
    "contents systemInstruction tools toolConfig safetySettings generationConfig cachedContent model labels "
    "serviceTier store".split()
)
CONTENT_FIELDS = frozenset(("role", "parts"))
DATA_FIELDS: Mapping[str, frozenset[str]] = {
    "text": frozenset(),
    "inlineData": frozenset(("mimeType", "data", "displayName")),
    "fileData": frozenset(("mimeType", "fileUri", "displayName")),
    "functionCall": frozenset(("id", "name", "args")),
    "functionResponse": frozenset(("id", "name", "response", "parts", "willContinue", "scheduling")),
    "executableCode": frozenset(("id", "language", "code")),
    "codeExecutionResult": frozenset(("id", "outcome", "output")),
}
PART_FIELDS = frozenset(
    ("thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata", *DATA_FIELDS)
)
_TOOL_FIELDS = frozenset(
    "functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext computerUse googleMaps "
    "fileSearch mcpServers retrieval enterpriseWebSearch".split()
)
_DECLARATION_FIELDS = frozenset(
    "name description behavior parameters parametersJsonSchema response responseJsonSchema".split()
)
_SCHEMA_FIELDS = frozenset(
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties "
    "minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum".split()
)


def check_field_names(value: Mapping[str, object], known: frozenset[str], where: str) -> Iterator[RequestFault]:
    for key in with_camel_case(value):
        if key not in known:
            place = f" at '{where}'" if where else ""
            text = f'Invalid JSON payload received. Unknown name "{str(key)[:80]}"{place}: Cannot find field.'
            yield RequestFault("GE8", text, where)


def check_declarations(tools: object) -> Iterator[RequestFault]:
    if not isinstance(tools, list):
        yield RequestFault("SHAPE", f"Invalid value at 'tools': {describe_json_type(tools)} is not a list", "tools")
        return
    names: set[str] = set()
    for at, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield RequestFault("SHAPE", f"Invalid value at 'tools[{at}]': {describe_json_type(tool)}", f"tools[{at}]")
            continue
        tool = with_camel_case(tool)
        yield from check_field_names(tool, _TOOL_FIELDS, f"tools[{at}]")
        declared = tool.get("functionDeclarations", [])
        if not isinstance(declared, list):
            yield RequestFault("SHAPE", f"Invalid value at 'tools[{at}].function_declarations'", f"tools[{at}]")
            continue
        places = ((f"tools[{at}].function_declarations[{n}]", one) for n, one in enumerate(declared))
        for entry in walk_tools(places, is_function_name, names):
            yield from _check_declaration(entry)


def _check_declaration(entry: ToolEntry) -> Iterator[RequestFault]:
    where, given, one, problem = entry
    if one is None:
        yield RequestFault("SHAPE", f"Invalid value at '{where}': {describe_json_type(given)}", where)
        return
    one = with_camel_case(one)
    yield from check_field_names(one, _DECLARATION_FIELDS, where)
    if problem == "bad name":
        yield RequestFault("GE5", f"* GenerateContentRequest.{where}.name: {BAD_FUNCTION_NAME_TEXT}", f"{where}.name")
    elif problem:
        yield RequestFault("GE5", f"Duplicate function declaration found: {one['name']}", where)
    if one.get("parameters") is not None:
        yield from _check_schema(one["parameters"], f"{where}.parameters")
    free = one.get("parametersJsonSchema")
    if free is not None and (fault := find_schema_fault(free)):
        yield RequestFault("GE8", f"Invalid value at '{where}.parameters_json_schema': {fault}", where)


def _check_schema(schema: object, where: str) -> Iterator[RequestFault]:
    """`parameters` has Gemini's own format, not JSON Schema: $ref and additionalProperties are unknown fields."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if not isinstance(node, dict):
            yield RequestFault("GE8", f"Invalid value at '{where}' (Schema): {describe_json_type(node)}", where)
            continue
        yield from check_field_names(node, _SCHEMA_FIELDS, where)
        properties, options = node.get("properties"), node.get("anyOf")
        stack.extend(properties.values() if isinstance(properties, dict) else ())
        stack.extend(options if isinstance(options, list) else ())
        stack.extend([node["items"]] if "items" in node else ())
