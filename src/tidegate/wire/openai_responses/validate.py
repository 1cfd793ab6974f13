"""Validator for OpenAI Responses requests.

A message, a call, its output and the reasoning that led to it are items of one flat list, so the rules are about
neighbors. A *run* is the output of one model response (reasoning, messages, calls); all its calls must be answered
before the next run begins.
"""

import re
from collections.abc import Iterator, Mapping

from tidegate.wire.openai_chat.validate_fields import (
    NO_OBJECT_TEXT,
    UNSENDABLE_TEXT,
    check_call_arguments,
    check_function_tools,
    check_id_length,
    check_user_name,
    describe_bad_function_name,
    empty_array_text,
    string_too_long_text,
    wrong_type_text,
)
from tidegate.wire.validation.faults import STRICT_PROFILE, RequestFault, ValidationProfile
from tidegate.wire.validation.json_checks import describe_value
from tidegate.wire.validation.validator import BodyFormat, IdSet, MessageListValidator

# The type of a call and the type of the item that answers it.
_OUTPUTS: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
_CALLS = {output: call for call, output in _OUTPUTS.items()}
# Calls that the provider runs itself: part of a run, answered inside the item.
_SERVER_CALL_TYPES = frozenset(
    ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
)
_OTHER_ITEM_TYPES = frozenset(
    (
        *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "item_reference"),
        *("additional_tools", "tool_search_call", "tool_search_output"),
    )
)
_PREFIXES: Mapping[str, str] = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
_ROLES = frozenset(("user", "assistant", "system", "developer"))
_ASSISTANT_PART_TYPES = frozenset(("output_text", "refusal"))
_INPUT_PART_TYPES = frozenset(("input_text", "input_image", "input_file"))
_MAX_ID_CHARS = 64
_is_id = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
_NOT_STORED = (
    "Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this "
)


class ResponsesValidator(MessageListValidator):
    """The rules over the item list: runs, ids, and calls with their outputs."""

    body_format = BodyFormat(
        "input",
        "input[",
        "]",
        bad_body=lambda body: wrong_type_text("body", "an object", body),
        bad_list=lambda items: wrong_type_text("input", "a string or array of items", items),
        bad_message=lambda where, item: wrong_type_text(where, "an object", item),
        unsendable=UNSENDABLE_TEXT,
        long_string=string_too_long_text,
    )

    def __init__(self, head: Mapping[str, object], profile: ValidationProfile = STRICT_PROFILE) -> None:
        super().__init__(head, profile)
        self._ids = IdSet()
        self._called = IdSet()
        self._open: dict[str, str] = {}  # call id -> type of the call that waits for its output
        self._in_run = False
        self._reasoned = False  # this run has a reasoning item
        self._reasoning = ""  # the reasoning item just fed, by id or place; empty if the latest item is another
        self._chained = any(head.get(key) is not None for key in ("previous_response_id", "conversation"))
        self._stored = head.get("store") is not False
        self._thinks = head.get("reasoning") is not None  # a reasoning model; also set by the first reasoning item
        self._read_head(head)

    @classmethod
    def _messages_of(cls, body: Mapping[str, object]) -> object:
        items = body.get("input")
        return [{"role": "user", "content": items}] if isinstance(items, str) else items

    def _check_message(self, message: dict[str, object], at: int, where: str) -> None:
        item = message
        kind = item.get("type", "message")
        if not isinstance(kind, str):
            self._add("SHAPE", wrong_type_text(f"{where}.type", "a string", kind), where)
            return
        is_from_model = (
            kind in _OUTPUTS or kind in _SERVER_CALL_TYPES or (kind == "message" and item.get("role") == "assistant")
        )
        self._run(kind, is_from_model, item, where)
        if item.get("id") is not None:
            self._id(item["id"], kind, is_from_model, where)
        if kind == "message":
            self._message(item, where)
        elif kind in _OUTPUTS:
            self._call(item, kind, where)
        elif kind in _CALLS:
            self._output(item, kind, where)
        elif kind == "reasoning":
            self._reason(item, where)
        elif kind == "compaction":
            if not item.get("encrypted_content") or not isinstance(item["encrypted_content"], str):
                self._add("OR12", f"Missing required parameter: '{where}.encrypted_content'.", where)
        elif kind == "item_reference" and not self._stored:
            self._add(
                "OR5",
                f"Item with id {describe_value(item.get('id'))} not found. {_NOT_STORED}item from your input.",
                where,
            )
        elif kind not in _SERVER_CALL_TYPES and kind not in _OTHER_ITEM_TYPES:
            self._add("SHAPE", f"Invalid value: '{kind[:80]}'. Supported values are item types.", f"{where}.type")

    def _check_head(self, head: Mapping[str, object]) -> None:
        if head.get("tools") not in (None, []):  # unlike chat, an empty list is allowed
            self._found.extend(check_function_tools(head["tools"], self._profile, flat=True))
        instructions = head.get("instructions")
        if instructions is not None and not isinstance(instructions, str):
            self._add("SHAPE", wrong_type_text("instructions", "a string", instructions), "instructions")
        self._found.extend(check_user_name(head))
        include = head.get("include")
        blobs = isinstance(include, list) and "reasoning.encrypted_content" in include
        if self._thinks and not self._stored and not blobs:
            # The server accepts this request, but the next one fails: it is then too late to ask for the encrypted
            # content.
            self._add("OR5", f"{_NOT_STORED}reasoning: include 'reasoning.encrypted_content'.", "include")

    def _run(self, kind: str, is_from_model: bool, item: dict[str, object], where: str) -> None:
        """OR1, OR3, OR4, OR10: the rules about adjacent items."""
        begins = (is_from_model or kind == "reasoning") and not self._in_run
        if begins:
            self._found.extend(self._unanswered(where))
            self._open.clear()
            self._reasoned = False
        self._in_run = is_from_model or kind == "reasoning"
        if self._reasoning and not is_from_model:
            self._add("OR10" if kind == "reasoning" else "OR3", _no_follower_text(self._reasoning), where)
        self._reasoning = ""
        if kind == "reasoning":
            key = item.get("id")
            self._reasoning = key[:80] if isinstance(key, str) and key else where
            self._reasoned = self._thinks = True

    def _unanswered(self, where: str) -> Iterator[RequestFault]:
        for key, kind in self._open.items():
            name = kind.removesuffix("_call").replace("_", " ")
            yield RequestFault("OR1", f"No tool output found for {name} call {key[:80]}.", where)

    def _id(self, key: object, kind: str, is_from_model: bool, where: str) -> None:
        place = f"{where}.id"
        if not isinstance(key, str):
            self._add("OR6", wrong_type_text(place, "a string", key), place)
            return
        prefix = _PREFIXES.get(kind, "")
        if not key or len(key) > _MAX_ID_CHARS:
            self._found.extend(check_id_length(key, _MAX_ID_CHARS, "OR6", place))
        elif not _is_id(key):
            text = "Expected an ID that contains letters, numbers, underscores, or dashes."
            self._add("OR6", f"Invalid '{place}': '{key}'. {text}", place)
        elif not key.startswith(prefix):
            self._add("OR6", f"Invalid '{place}': '{key}'. Expected an ID that begins with '{prefix}'.", place)
        elif not self._ids.add(key) or (self._chained and kind in _OUTPUTS):
            rule = "OR2" if self._chained and kind in _OUTPUTS else "OR6"  # the server has its calls already
            self._add(rule, f"Duplicate item found with id {key}. Remove duplicate items from your input.", place)
        elif is_from_model and prefix and self._thinks and not self._reasoned:
            needs = "preceding item of type 'reasoning'" if kind == "message" else "'reasoning' item"
            self._add("OR4", f"Item '{key}' of type '{kind}' was provided without its required {needs}.", where)

    def _call_id(self, item: dict[str, object], where: str) -> str:
        """Return the call id, or an empty string if it is unusable (its fault is then already reported)."""
        place = f"{where}.call_id"
        key = item.get("call_id")
        if not isinstance(key, str):
            self._add("OR6", f"Missing required parameter: '{place}'.", place)
            return ""
        if not key or len(key) > _MAX_ID_CHARS:
            self._found.extend(check_id_length(key, _MAX_ID_CHARS, "OR6", place))
        return key

    def _call(self, item: dict[str, object], kind: str, where: str) -> None:
        if key := self._call_id(item, where):
            if not self._called.add(key):
                self._add("OR6", f"Duplicate item found with call_id {key[:80]}.", f"{where}.call_id")
            self._open[key] = kind
        if kind not in ("function_call", "custom_tool_call"):
            return
        if text := describe_bad_function_name(f"{where}.name", item.get("name")):
            self._add("OC5", text, f"{where}.name")
        field = "arguments" if kind == "function_call" else "input"
        place = f"{where}.{field}"
        must_be_json = field == "arguments" and self._profile.json_arguments
        no_object = f"Invalid '{place}': {NO_OBJECT_TEXT}" if must_be_json else ""
        self._found.extend(check_call_arguments(item.get(field), "OR9", place, no_object=no_object))

    def _output(self, item: dict[str, object], kind: str, where: str) -> None:
        key = self._call_id(item, where)
        if key and self._open.get(key) == _CALLS[kind]:
            del self._open[key]
        elif key and (not self._chained or not self._called.add(key)):
            name = kind.removesuffix("_output").replace("_", " ")
            self._add("OR2", f"No tool call found for {name} output with call_id {key[:80]}.", where)
        if kind in ("function_call_output", "custom_tool_call_output"):
            self._parts(item.get("output"), "user", f"{where}.output")

    def _reason(self, item: dict[str, object], where: str) -> None:
        if not isinstance(item.get("summary"), list):
            self._add("OR7", f"{where.capitalize()} missing required field `summary`", f"{where}.summary")
        content = item.get("content")
        if content:
            got = len(content) if isinstance(content, list) else 1
            text = (
                f"array too long. Expected an array with maximum length 0, but got an array with length {got} instead."
            )
            self._add("OR7", f"Invalid '{where}.content': {text}", f"{where}.content")
        if "status" in item:
            self._add("OR7", f"Unknown parameter: '{where}.status'.", f"{where}.status")
        blob = item.get("encrypted_content")
        if blob is not None and not isinstance(blob, str):
            self._add("OR7", wrong_type_text(f"{where}.encrypted_content", "a string", blob), where)
        elif not blob and not self._stored:
            self._add(
                "OR5",
                f"Item with id {describe_value(item.get('id'))} not found. {_NOT_STORED}item from your input.",
                where,
            )

    def _message(self, item: dict[str, object], where: str) -> None:
        role = item.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            supported = "'assistant', 'system', 'developer', and 'user'"
            text = f"Invalid value: {describe_value(role)}. Supported values are: {supported}."
            self._add("OC9", text, f"{where}.role")
        else:
            self._parts(item.get("content"), role, f"{where}.content")

    def _parts(self, content: object, role: str, where: str) -> None:
        if not isinstance(content, str):
            self._found.extend(_check_item_content(content, role, where))

    def _end_faults(self) -> Iterator[RequestFault]:
        if not self._at and not self._chained:
            yield RequestFault("SHAPE", empty_array_text("input"), "input")
        if self._reasoning:
            yield RequestFault("OR3", _no_follower_text(self._reasoning), f"input[{self._at - 1}]")
        yield from self._unanswered("input")


def _no_follower_text(key: str) -> str:
    return f"Item '{key}' of type 'reasoning' was provided without its required following item."


def _check_item_content(content: object, role: str, where: str) -> Iterator[RequestFault]:
    """OC8: the parts that an item of this role may hold."""
    if not isinstance(content, list):
        yield RequestFault("OC8", wrong_type_text(where, "a string or array of objects", content), where)
        return
    if not content:
        yield RequestFault("OC8", empty_array_text(where), where)
    allowed = _ASSISTANT_PART_TYPES if role == "assistant" else _INPUT_PART_TYPES
    for n, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in allowed:
            choices = " and ".join(f"'{one}'" for one in sorted(allowed))
            yield RequestFault(
                "OC8", f"Invalid value: {describe_value(kind)}. Supported values are: {choices}.", f"{where}[{n}]"
            )
        elif kind.endswith("_text") and not isinstance(part.get("text"), str):
            text = wrong_type_text(f"{where}[{n}].text", "a string", part.get("text"))
            yield RequestFault("OC8", text, f"{where}[{n}]")
