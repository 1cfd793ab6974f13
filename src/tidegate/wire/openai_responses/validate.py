"""Judges the body of an OpenAI Responses request.

Here a message, a call, its output and the reasoning that led to it are items of one flat list, so the rules are about
neighbours: a *run* is what the model said in one go (reasoning, messages, calls), and everything it called must be
answered before its next run begins.
"""

import re
from collections.abc import Iterator, Mapping

from tidegate.wire.openai_chat.validate_fields import (
    check_function_tools,
    check_item_content,
    describe_bad_function_name,
    describe_unsendable,
    empty_array_text,
    empty_string_text,
    string_too_long_text,
    wrong_type_text,
)
from tidegate.wire.validation.faults import STRICT_PROFILE, FaultLog, IdSet, RequestFault, ValidationProfile
from tidegate.wire.validation.json_checks import MAX_ARGUMENT_CHARS, describe_value, is_json_object

# A call and the item that answers it; the middle of the sentence in which the server names the pair.
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
_OTHER_ITEM_TYPES = frozenset(("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "item_reference"))
_PREFIXES: Mapping[str, str] = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
_ROLES = frozenset(("user", "assistant", "system", "developer"))
_is_id = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
_NOT_STORED = (
    "Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this "
)


def validate(body: object, profile: ValidationProfile = STRICT_PROFILE) -> list[RequestFault]:
    """Every fault of the body; a body of any shape is judged, none raises."""
    if not isinstance(body, Mapping):
        return [RequestFault("SHAPE", wrong_type_text("body", "an object", body), "")]
    state = ResponsesValidator(body, profile)
    items = body.get("input")
    if isinstance(items, str):  # short for one user message
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        return [
            *state.faults,
            RequestFault("SHAPE", wrong_type_text("input", "a string or array of items", items), "input"),
        ]
    for item in items:
        state.feed(item)
    return state.finish()


class ResponsesValidator:
    """Feed the items in order; `finish` may be asked at any point and changes nothing."""

    def __init__(self, head: Mapping[str, object], profile: ValidationProfile = STRICT_PROFILE) -> None:
        self._profile = profile
        self._found = FaultLog()
        self._at = 0
        self._ids = IdSet()
        self._called = IdSet()
        self._open: dict[str, str] = {}  # call id -> type of the call that waits for its output
        self._in_run = False
        self._reasoned = False  # this run has a reasoning item
        self._reasoning = ""  # the reasoning item just fed, by id or place; empty if the newest item is none
        self._chained = any(head.get(key) is not None for key in ("previous_response_id", "conversation"))
        self._stored = head.get("store") is not False
        self._thinks = head.get("reasoning") is not None  # a model that reasons; also once a reasoning item was met
        self._head(head)

    @property
    def faults(self) -> list[RequestFault]:
        return self._found.all()

    def fork(self) -> "ResponsesValidator":
        child = ResponsesValidator.__new__(ResponsesValidator)
        child.__dict__.update(self.__dict__)
        child._found = self._found.fork()
        child._ids = self._ids.fork()
        child._called = self._called.fork()
        child._open = dict(self._open)
        return child

    def finish(self) -> list[RequestFault]:
        return [*self._found.all(), *self._end()]

    def feed(self, item: object) -> None:
        at = self._at
        self._at = at + 1
        where = f"input[{at}]"
        if not isinstance(item, dict):
            self._say("SHAPE", wrong_type_text(where, "an object", item), where)
            return
        self._sendable(item, where)
        kind = item.get("type", "message")
        if not isinstance(kind, str):
            self._say("SHAPE", wrong_type_text(f"{where}.type", "a string", kind), where)
            return
        spoken = (
            kind in _OUTPUTS or kind in _SERVER_CALL_TYPES or (kind == "message" and item.get("role") == "assistant")
        )
        self._run(kind, spoken, item, where)
        if item.get("id") is not None:
            self._id(item["id"], kind, spoken, where)
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
                self._say("OR12", f"Missing required parameter: '{where}.encrypted_content'.", where)
        elif kind == "item_reference" and not self._stored:
            self._say(
                "OR5",
                f"Item with id {describe_value(item.get('id'))} not found. {_NOT_STORED}item from your input.",
                where,
            )
        elif kind not in _SERVER_CALL_TYPES and kind not in _OTHER_ITEM_TYPES:
            self._say("SHAPE", f"Invalid value: '{kind[:80]}'. Supported values are item types.", f"{where}.type")

    def _say(self, rule: str, text: str, where: str) -> None:
        self._found.add(rule, text, where)

    def _sendable(self, value: object, where: str) -> None:
        if text := describe_unsendable(value, where):
            self._say("OC10", text, where)

    def _head(self, head: Mapping[str, object]) -> None:
        for key, value in head.items():
            if key != "input":
                self._sendable(value, str(key))
        if head.get("tools") not in (None, []):  # unlike chat, an empty list is taken
            self._found.extend(check_function_tools(head["tools"], self._profile, flat=True))
        instructions = head.get("instructions")
        if instructions is not None and not isinstance(instructions, str):
            self._say("SHAPE", wrong_type_text("instructions", "a string", instructions), "instructions")
        user = head.get("user")
        if isinstance(user, str) and len(user) > 64:
            self._say("OC6", string_too_long_text("user", 64, len(user)), "user")
        include = head.get("include")
        blobs = isinstance(include, list) and "reasoning.encrypted_content" in include
        if self._thinks and not self._stored and not blobs:
            # The server takes this request; it is the next one that fails, when it is too late to ask for the blob.
            self._say("OR5", f"{_NOT_STORED}reasoning: include 'reasoning.encrypted_content'.", "include")

    def _run(self, kind: str, spoken: bool, item: dict[str, object], where: str) -> None:
        """OR1, OR3, OR4, OR10: the rules about neighbours."""
        begins = (spoken or kind == "reasoning") and not self._in_run
        if begins:
            self._found.extend(self._unanswered(where))
            self._open.clear()
            self._reasoned = False
        self._in_run = spoken or kind == "reasoning"
        if self._reasoning and not spoken:
            self._say("OR10" if kind == "reasoning" else "OR3", _no_follower_text(self._reasoning), where)
        self._reasoning = ""
        if kind == "reasoning":
            key = item.get("id")
            self._reasoning = key[:80] if isinstance(key, str) and key else where
            self._reasoned = self._thinks = True

    def _unanswered(self, where: str) -> Iterator[RequestFault]:
        for key, kind in self._open.items():
            name = kind.removesuffix("_call").replace("_", " ")
            yield RequestFault("OR1", f"No tool output found for {name} call {key[:80]}.", where)

    def _id(self, key: object, kind: str, spoken: bool, where: str) -> None:
        place = f"{where}.id"
        if not isinstance(key, str):
            self._say("OR6", wrong_type_text(place, "a string", key), place)
            return
        prefix = _PREFIXES.get(kind, "")
        if not key:
            self._say("OR6", empty_string_text(place), place)
        elif len(key) > 64:
            self._say("OR6", string_too_long_text(place, 64, len(key)), place)
        elif not _is_id(key):
            text = "Expected an ID that contains letters, numbers, underscores, or dashes."
            self._say("OR6", f"Invalid '{place}': '{key}'. {text}", place)
        elif not key.startswith(prefix):
            self._say("OR6", f"Invalid '{place}': '{key}'. Expected an ID that begins with '{prefix}'.", place)
        elif not self._ids.add(key) or (self._chained and kind in _OUTPUTS):
            rule = "OR2" if self._chained and kind in _OUTPUTS else "OR6"  # the chain holds its calls already
            self._say(rule, f"Duplicate item found with id {key}. Remove duplicate items from your input.", place)
        elif spoken and prefix and self._thinks and not self._reasoned:
            needs = "preceding item of type 'reasoning'" if kind == "message" else "'reasoning' item"
            self._say("OR4", f"Item '{key}' of type '{kind}' was provided without its required {needs}.", where)

    def _call_id(self, item: dict[str, object], where: str) -> str:
        """The call id, or an empty string if it is unusable (then the fault is already told)."""
        place = f"{where}.call_id"
        key = item.get("call_id")
        if not isinstance(key, str):
            self._say("OR6", f"Missing required parameter: '{place}'.", place)
            return ""
        if not key:
            self._say("OR6", empty_string_text(place), place)
        elif len(key) > 64:
            self._say("OR6", string_too_long_text(place, 64, len(key)), place)
        return key

    def _call(self, item: dict[str, object], kind: str, where: str) -> None:
        if key := self._call_id(item, where):
            if not self._called.add(key):
                self._say("OR6", f"Duplicate item found with call_id {key[:80]}.", f"{where}.call_id")
            self._open[key] = kind
        if kind not in ("function_call", "custom_tool_call"):
            return
        if text := describe_bad_function_name(f"{where}.name", item.get("name")):
            self._say("OC5", text, f"{where}.name")
        field = "arguments" if kind == "function_call" else "input"
        place = f"{where}.{field}"
        given = item.get(field)
        if not isinstance(given, str):
            self._say("OR9", wrong_type_text(place, "a string", given), place)
        elif len(given) > MAX_ARGUMENT_CHARS:
            self._say("OR9", string_too_long_text(place, MAX_ARGUMENT_CHARS, len(given)), place)
        elif field == "arguments" and self._profile.json_arguments and not is_json_object(given):
            self._say("OR9", f"Invalid '{place}': arguments must be a valid JSON object string", place)

    def _output(self, item: dict[str, object], kind: str, where: str) -> None:
        key = self._call_id(item, where)
        if key and self._open.get(key) == _CALLS[kind]:
            del self._open[key]
        elif key and (not self._chained or not self._called.add(key)):
            name = kind.removesuffix("_output").replace("_", " ")
            self._say("OR2", f"No tool call found for {name} output with call_id {key[:80]}.", where)
        if kind in ("function_call_output", "custom_tool_call_output"):
            self._parts(item.get("output"), "user", f"{where}.output")

    def _reason(self, item: dict[str, object], where: str) -> None:
        if not isinstance(item.get("summary"), list):
            self._say("OR7", f"{where.capitalize()} missing required field `summary`", f"{where}.summary")
        content = item.get("content")
        if content:
            got = len(content) if isinstance(content, list) else 1
            text = (
                f"array too long. Expected an array with maximum length 0, but got an array with length {got} instead."
            )
            self._say("OR7", f"Invalid '{where}.content': {text}", f"{where}.content")
        if "status" in item:
            self._say("OR7", f"Unknown parameter: '{where}.status'.", f"{where}.status")
        blob = item.get("encrypted_content")
        if blob is not None and not isinstance(blob, str):
            self._say("OR7", wrong_type_text(f"{where}.encrypted_content", "a string", blob), where)
        elif not blob and not self._stored:
            self._say(
                "OR5",
                f"Item with id {describe_value(item.get('id'))} not found. {_NOT_STORED}item from your input.",
                where,
            )

    def _message(self, item: dict[str, object], where: str) -> None:
        role = item.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            text = f"Invalid value: {describe_value(role)}. Supported values are: 'assistant', 'system', 'developer', and 'user'."
            self._say("OC9", text, f"{where}.role")
        else:
            self._parts(item.get("content"), role, f"{where}.content")

    def _parts(self, content: object, role: str, where: str) -> None:
        if not isinstance(content, str):
            self._found.extend(check_item_content(content, role, where))

    def _end(self) -> Iterator[RequestFault]:
        if not self._at and not self._chained:
            yield RequestFault("SHAPE", empty_array_text("input"), "input")
        if self._reasoning:
            yield RequestFault("OR3", _no_follower_text(self._reasoning), f"input[{self._at - 1}]")
        yield from self._unanswered("input")


def _no_follower_text(key: str) -> str:
    return f"Item '{key}' of type 'reasoning' was provided without its required following item."
