"""Gemini's function declarations, and the field names it knows: anything else is refused by name (GE8)."""

import re
from collections.abc import Iterator, Mapping

from tidegate.wire.check_schema import schema_fault, type_name
from tidegate.wire.faults import Fault

is_function_name = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}").fullmatch
NAME_TEXT = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), "
    "underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
)

BODY = frozenset(
    "contents systemInstruction tools toolConfig safetySettings generationConfig cachedContent model labels "
    "serviceTier store".split()
)
CONTENT = frozenset(("role", "parts"))
DATA: Mapping[str, frozenset[str]] = {
    "text": frozenset(),
    "inlineData": frozenset(("mimeType", "data", "displayName")),
    "fileData": frozenset(("mimeType", "fileUri", "displayName")),
    "functionCall": frozenset(("id", "name", "args")),
    "functionResponse": frozenset(("id", "name", "response", "parts", "willContinue", "scheduling")),
    "executableCode": frozenset(("id", "language", "code")),
    "codeExecutionResult": frozenset(("id", "outcome", "output")),
}
PART = frozenset(("thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata", *DATA))
_TOOL = frozenset(
    "functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext computerUse googleMaps "
    "fileSearch mcpServers retrieval enterpriseWebSearch".split()
)
_DECLARATION = frozenset(
    "name description behavior parameters parametersJsonSchema response responseJsonSchema".split()
)
_SCHEMA = frozenset(
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties "
    "minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum".split()
)


def unknown(value: Mapping[str, object], known: frozenset[str], where: str) -> Iterator[Fault]:
    for key in value:
        if key not in known:
            place = f" at '{where}'" if where else ""
            text = f'Invalid JSON payload received. Unknown name "{str(key)[:80]}"{place}: Cannot find field.'
            yield Fault("GE8", text, where)


def tool_faults(tools: object) -> Iterator[Fault]:
    if not isinstance(tools, list):
        yield Fault("SHAPE", f"Invalid value at 'tools': {type_name(tools)} is not a list", "tools")
        return
    names: set[str] = set()
    for at, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield Fault("SHAPE", f"Invalid value at 'tools[{at}]': {type_name(tool)}", f"tools[{at}]")
            continue
        yield from unknown(tool, _TOOL, f"tools[{at}]")
        declared = tool.get("functionDeclarations", [])
        if not isinstance(declared, list):
            yield Fault("SHAPE", f"Invalid value at 'tools[{at}].function_declarations'", f"tools[{at}]")
            continue
        for n, one in enumerate(declared):
            yield from _declaration(one, f"tools[{at}].function_declarations[{n}]", names)


def _declaration(one: object, where: str, names: set[str]) -> Iterator[Fault]:
    if not isinstance(one, dict):
        yield Fault("SHAPE", f"Invalid value at '{where}': {type_name(one)}", where)
        return
    yield from unknown(one, _DECLARATION, where)
    name = one.get("name")
    if not isinstance(name, str) or not is_function_name(name):
        yield Fault("GE5", f"* GenerateContentRequest.{where}.name: {NAME_TEXT}", f"{where}.name")
    elif name in names:
        yield Fault("GE5", f"Duplicate function declaration found: {name}", where)
    else:
        names.add(name)
    if one.get("parameters") is not None:
        yield from _schema(one["parameters"], f"{where}.parameters")
    free = one.get("parametersJsonSchema")
    if free is not None and (fault := schema_fault(free)):
        yield Fault("GE8", f"Invalid value at '{where}.parameters_json_schema': {fault}", where)


def _schema(schema: object, where: str) -> Iterator[Fault]:
    """`parameters` is a message of Gemini's own, not JSON Schema: $ref or additionalProperties are unknown names."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if not isinstance(node, dict):
            yield Fault("GE8", f"Invalid value at '{where}' (Schema): {type_name(node)}", where)
            continue
        yield from unknown(node, _SCHEMA, where)
        properties, options = node.get("properties"), node.get("anyOf")
        stack.extend(properties.values() if isinstance(properties, dict) else ())
        stack.extend(options if isinstance(options, list) else ())
        stack.extend([node["items"]] if "items" in node else ())
