"""Validator for Gemini generateContent requests.

Gemini pairs calls with responses by position and number, not by id: the next content answers all calls of a content.
Field names are the camelCase ones that our requests use; any other name is refused, as the server does.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from tidegate.wire.gemini.field_names import get_field, with_camel_case
from tidegate.wire.validation.faults import STRICT_PROFILE, RequestFault, ValidationProfile
from tidegate.wire.validation.json_checks import (
    describe_json_type,
    describe_value,
    find_schema_fault,
    has_only_finite_numbers,
)
from tidegate.wire.validation.validator import BodyFormat, FaultLog, MessageListValidator, ToolEntry, walk_tools

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


def check_field_names(value: Mapping[str, object], allowed: frozenset[str], where: str) -> Iterator[RequestFault]:
    for key in with_camel_case(value):
        if key not in allowed:
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
    where, declaration, one, problem = entry
    if one is None:
        yield RequestFault("SHAPE", f"Invalid value at '{where}': {describe_json_type(declaration)}", where)
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


_MAX_BODY_BYTES = 20_971_520

_NO_PARTS = (
    "Unable to submit request because it must include at least one parts field, which describes the prompt input."
)
_NO_DATA = "required oneof field 'data' must have one initialized field"
_NO_TEXT = (
    "Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again."
)
_ROLE = "Please use a valid role: user, model."
_ALTERNATE = "Please ensure that multiturn requests alternate between user and model."
_LAST = "Please ensure that multiturn requests ends with a user role or a function response."
_CALL = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
_RESPONSE = "Please ensure that function response turn comes immediately after a function call turn."
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)


class GeminiValidator(MessageListValidator):
    """The rules over the list of contents: turns, calls with their responses, signatures."""

    body_format = BodyFormat(
        "contents",
        "contents[",
        "]",
        bad_body=lambda body: f"Invalid JSON payload received: {describe_json_type(body)}",
        bad_list=lambda contents: f"Invalid value at 'contents': {describe_json_type(contents)}",
        bad_message=lambda where, content: f"Invalid value at '{where}': {describe_json_type(content)}",
        unsendable="The input data is not valid json",
        max_bytes=_MAX_BODY_BYTES,
        too_large=RequestFault("GE8", f"Request payload size exceeds the limit: {_MAX_BODY_BYTES} bytes.", ""),
    )

    def __init__(self, head: Mapping[str, object], profile: ValidationProfile = STRICT_PROFILE) -> None:
        super().__init__(head, profile)
        self._role = ""
        self._calls: tuple[str, ...] = ()  # names called by the latest model content, not yet answered
        self._calls_at = 0
        self._unsigned = FaultLog()  # GE6 in the current turn; cleared by the next user message
        self._read_head(head)

    @classmethod
    def _messages_of(cls, body: Mapping[str, object]) -> object:
        return body.get("contents", [])

    def _check_message(self, message: dict[str, object], at: int, where: str) -> None:
        content = message
        self._found.extend(check_field_names(content, CONTENT_FIELDS, where))
        role = content.get("role")
        parts = content.get("parts")
        if not isinstance(parts, list) or not parts:
            self._add("GE1", _NO_PARTS, f"{where}.parts")
            parts = []
        for n, part in enumerate(parts):
            self._found.extend(_check_part(part, f"{where}.parts[{n}]"))
        calls, responses = _function_names(parts, "functionCall"), _function_names(parts, "functionResponse")
        if role == "model":
            self._model(parts, calls, responses, at)
            self._take_turn("model", where)
        elif role == "user":
            self._user(calls, responses, where)
            self._take_turn("user", where)
        else:
            self._add("GE2", _ROLE, f"{where}.role")

    def _check_head(self, head: Mapping[str, object]) -> None:
        self._found.extend(check_field_names(head, BODY_FIELDS, ""))
        if head.get("tools") is not None:
            self._found.extend(check_declarations(head["tools"]))
        system = head.get("systemInstruction")
        if system is None:
            return
        parts = system.get("parts") if isinstance(system, dict) else None
        if not isinstance(system, dict) or not isinstance(parts, list) or not parts:
            self._add("GE1", _NO_PARTS, "systemInstruction.parts")
            return
        self._found.extend(check_field_names(system, CONTENT_FIELDS, "system_instruction"))
        for n, part in enumerate(parts):
            self._found.extend(_check_part(part, f"system_instruction.parts[{n}]"))

    def _take_turn(self, role: str, where: str) -> None:
        before, self._role = self._role, role
        if self._profile.alternate and (before == role or (not before and role == "model")):
            self._add("GE2", _ALTERNATE, where)

    def _model(self, parts: list[object], calls: list[str], responses: list[str], at: int) -> None:
        where = f"contents[{at}]"
        self._found.extend(self._unanswered(0))
        self._calls, self._calls_at = tuple(calls), at
        if responses:
            self._add("GE4", _RESPONSE, where)
        if not calls:
            return
        if self._role != "user":
            self._add("GE3", _CALL, where)
        if self._profile.requires_signatures and not _is_signed(parts):
            text = (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                f"work correctly. Additional data, function call `default_api:{calls[0][:80]}`, position {at}."
            )
            self._unsigned.add("GE6", text, where)

    def _user(self, calls: list[str], responses: list[str], where: str) -> None:
        if calls:
            self._add("GE3", _CALL, where)
        if not self._calls and responses:
            self._add("GE4", _RESPONSE, where)
        elif len(self._calls) != len(responses):
            self._found.extend(self._unanswered(len(responses)))
        elif Counter(self._calls) != Counter(responses):
            names = sorted((Counter(self._calls) - Counter(responses)).keys())
            text = (
                f"Please ensure that the function response name equals the function call name: {', '.join(names)[:160]}"
            )
            self._add("GE5", text, where)
        self._calls = ()
        if not responses:
            self._unsigned = FaultLog()

    def _unanswered(self, responses: int) -> Iterator[RequestFault]:
        if len(self._calls) != responses:
            yield RequestFault("GE4", _COUNT, f"contents[{self._calls_at}]")

    def _end_faults(self) -> Iterator[RequestFault]:
        if not self._at:
            yield RequestFault("GE1", "* GenerateContentRequest.contents: contents is not specified", "contents")
            return
        yield from self._unanswered(0)
        if self._role != "user":
            yield RequestFault("GE2", _LAST, f"contents[{self._at - 1}]")
        yield from self._unsigned.all()


def _function_names(parts: list[object], field: str) -> list[str]:
    """Return the names of all calls or responses. One without a name counts, too; its fault is reported with its
    part.
    """
    names = []
    for part in parts:
        if isinstance(part, dict) and field in part:
            inner = part[field]
            name = inner.get("name") if isinstance(inner, dict) else None
            names.append(name if isinstance(name, str) else "")
    return names


def _is_signed(parts: list[object]) -> bool:
    """Return whether the first call of a step is signed; its parallel siblings have no signature."""
    for part in parts:
        if isinstance(part, dict) and "functionCall" in part:
            signature = part.get("thoughtSignature")
            return isinstance(signature, str) and bool(signature)
    return True


def _check_part(part: object, where: str) -> Iterator[RequestFault]:
    if not isinstance(part, dict):
        yield RequestFault("SHAPE", f"Invalid value at '{where}': {describe_json_type(part)}", where)
        return
    fields = [key for key in part if key in DATA_FIELDS]
    if len(fields) != len(part):
        yield from check_field_names(part, PART_FIELDS, where)
    if not fields:
        yield RequestFault("GE1", f"{where}.data: {_NO_DATA}", where)
    if len(fields) > 1:
        yield RequestFault("GE8", f"Invalid value at '{where}' (oneof), oneof field 'data' is already set.", where)
    for key in fields:
        value = part[key]
        if key != "text":
            yield from _check_data(key, value, where)
        elif not isinstance(value, str):
            yield RequestFault(
                "SHAPE", f"Invalid value at '{where}.text' (TYPE_STRING), {describe_value(value)}", where
            )
        elif not value and not part.get("thoughtSignature"):
            yield RequestFault("GE1", _NO_TEXT, where)


def _check_data(key: str, value: object, where: str) -> Iterator[RequestFault]:
    where = f"{where}.{key}"
    if not isinstance(value, dict):
        yield RequestFault("SHAPE", f"Invalid value at '{where}': {describe_json_type(value)}", where)
        return
    yield from check_field_names(value, DATA_FIELDS[key], where)
    if key in ("functionCall", "functionResponse"):
        name = value.get("name")
        if not isinstance(name, str) or not is_function_name(name):
            yield RequestFault("GE5", f"* GenerateContentRequest.{where}.name: {BAD_FUNCTION_NAME_TEXT}", where)
        if not isinstance(value.get("id", ""), str):
            text = f"Invalid value at '{where}.id' (TYPE_STRING), {describe_value(value['id'])}"
            yield RequestFault("SHAPE", text, where)
        field = "args" if key == "functionCall" else "response"
        inner = value.get(field, {} if key == "functionCall" else None)
        if not isinstance(inner, dict):
            place = f"'{where}.{field}' (type.googleapis.com/google.protobuf.Struct)"
            text = f"Invalid value at {place}, {describe_value(inner)}"
            yield RequestFault("GE8", text, where)
        elif not has_only_finite_numbers(inner):
            yield RequestFault("OC10", f"The input data is not valid json: NaN or Infinity at '{where}.{field}'", where)
    elif key == "inlineData" and not (
        isinstance(value.get("data"), str) and isinstance(get_field(value, "mimeType"), str)
    ):
        yield RequestFault("GE1", f"{where}: mimeType and data are required", where)
