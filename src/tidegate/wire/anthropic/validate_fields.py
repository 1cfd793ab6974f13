"""Checks of single blocks and of the head of an Anthropic request, and Anthropic's wording of its rules."""

import re
from collections.abc import Iterator, Mapping

from tidegate.wire.anthropic.validate_thinking import THINKING_TYPES
from tidegate.wire.validation.faults import FaultWording, RequestFault
from tidegate.wire.validation.json_checks import (
    describe_value,
    find_schema_fault,
    has_only_finite_numbers,
    is_tool_name,
)
from tidegate.wire.validation.validator import walk_tools

RESULT_BLOCK_TYPES = frozenset(("text", "image", "document", "search_result", "tool_reference"))
USER_BLOCK_TYPES = RESULT_BLOCK_TYPES | {"tool_result", "container_upload"}
MODEL_BLOCK_TYPES = frozenset(("text", "tool_use", "server_tool_use", "mcp_tool_use", "compaction", *THINKING_TYPES))
MAX_CACHE_MARKERS = 4
TOO_MANY_MARKERS_TEXT = "A maximum of {} blocks with cache_control may be provided. Found {}."

_is_id = re.compile(r"[a-zA-Z0-9_-]+").fullmatch


ANTHROPIC_WORDING: Mapping[str, FaultWording] = {
    "first": FaultWording("AN1", 'messages: first message must use the "user" role'),
    "alternate": FaultWording(
        "AN2",
        'messages: roles must alternate between "user" and "assistant", but found multiple "{role}" roles in a row',
    ),
    "unanswered": FaultWording(
        "AN3",
        "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {key}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    ),
    "orphan": FaultWording(
        "AN4",
        "messages.{at}.content.{n}: unexpected `tool_use_id` found in `tool_result` blocks: {key}. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
    ),
    "twice": FaultWording(
        "AN6",
        "messages.{at}.content.{n}: each tool_use must have a single result. "
        "Found multiple `tool_result` blocks with id: {key}",
    ),
    "reused": FaultWording("AN6", "messages.{at}.content.{n}: tool_use ids must be unique"),
    "empty": FaultWording("AN7", "messages: text content blocks must be non-empty"),
    "blank": FaultWording("AN7", "messages: text content blocks must contain non-whitespace text"),
    "void": FaultWording(
        "AN7",
        "messages.{at}: all messages must have non-empty content except for the optional final assistant message",
    ),
    "void_user": FaultWording("AN7", "messages.{at}: user messages must have non-empty content"),
    "unsigned": FaultWording("AN12", "{where}.thinking.signature: Field required"),
    "no_tools": FaultWording("AN9", "Requests which include `tool_use` or `tool_result` blocks must define tools."),
}
NO_PREFILL_TEXT = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)


def check_cache_marker(block: Mapping[str, object], where: str) -> Iterator[RequestFault]:
    """AN11, for a block that has a cache marker; the caller counts them."""
    mark = block["cache_control"]
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        yield RequestFault("AN11", f"{where}.cache_control.type: Input should be 'ephemeral'", where)
    if block.get("type") in THINKING_TYPES:
        yield RequestFault("AN11", f"{where}.cache_control: Extra inputs are not permitted", where)
    if block.get("type") == "text" and not block.get("text"):
        yield RequestFault("AN7", f"{where}: cache_control cannot be set for empty text blocks", where)


def check_tool_use(block: dict[str, object], where: str) -> Iterator[RequestFault]:
    """Check a single tool_use block: id, name, input."""
    key = block.get("id")
    if not isinstance(key, str) or not _is_id(key):
        yield RequestFault("AN6", f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", where)
    name = block.get("name")
    if not isinstance(name, str) or not is_tool_name(name):
        text = "tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"
        yield RequestFault("AN10", f"{where}.{text}", where)
    given = block.get("input")
    if not isinstance(given, dict):
        yield RequestFault("AN10", f"{where}.tool_use.input: Input should be a valid dictionary", where)
    elif not has_only_finite_numbers(given):
        yield RequestFault("OC10", f"The request body is not valid JSON: NaN or Infinity at {where}", where)


# The head of a request: system, tools, thinking, tool_choice.


def check_head(head: Mapping[str, object]) -> Iterator[RequestFault]:
    yield from _check_system(head.get("system"))
    tools = head.get("tools")
    if tools is not None:
        yield from _check_tools(tools)
    choice = head.get("tool_choice")
    if choice is not None and not tools:
        yield RequestFault("AN16", "tool_choice may only be specified while providing tools.", "tool_choice")
    yield from _check_thinking_settings(head.get("thinking"), head.get("max_tokens"), choice)


def is_thinking_enabled(head: Mapping[str, object]) -> bool:
    """Return whether the model always thinks. In adaptive mode it may not, so no thinking can be demanded."""
    thinking = head.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def _check_system(system: object) -> Iterator[RequestFault]:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        yield RequestFault("SHAPE", "system: Input should be a valid list", "system")
        return
    for n, block in enumerate(system):
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if not isinstance(text, str):
            yield RequestFault("SHAPE", f"system.{n}.type: Input should be 'text'", f"system.{n}")
        elif not text:
            yield RequestFault("AN7", "system: text content blocks must be non-empty", f"system.{n}")
        elif text.isspace():
            yield RequestFault("AN7", "system: text content blocks must contain non-whitespace text", f"system.{n}")


def _check_tools(tools: object) -> Iterator[RequestFault]:
    if not isinstance(tools, list):
        yield RequestFault("AN10", "tools: Input should be a valid list", "tools")
        return
    for where, _, tool, problem in walk_tools(
        ((f"tools.{n}", tool) for n, tool in enumerate(tools)), is_tool_name, set()
    ):
        if tool is None:
            yield RequestFault("AN10", f"{where}: Input should be a valid dictionary", where)
            continue
        if problem == "bad name":
            text = f"{where}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            yield RequestFault("AN10", text, f"{where}.name")
        elif problem:
            yield RequestFault("AN10", "tools: Tool names must be unique.", f"{where}.name")
        if tool.get("type", "custom") == "custom":  # the provider's own tools have no schema
            yield from _check_input_schema(tool.get("input_schema"), f"{where}.custom.input_schema")


def _check_input_schema(schema: object, where: str) -> Iterator[RequestFault]:
    if not isinstance(schema, dict):
        yield RequestFault("AN10", f"{where}: Field required", where)
    elif schema.get("type") != "object":
        yield RequestFault("AN10", f"{where}.type: Input should be 'object'", where)
    elif fault := find_schema_fault(schema):
        yield RequestFault("AN10", f"{where}: JSON schema is invalid. {fault}", where)


def _check_thinking_settings(thinking: object, most: object, choice: object) -> Iterator[RequestFault]:
    """AN14."""
    if thinking is None:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if not isinstance(thinking, dict) or kind not in ("enabled", "disabled", "adaptive"):
        yield RequestFault(
            "AN14", f"thinking: Input tag {describe_value(kind)} found using 'type' does not match", "thinking"
        )
        return
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1024:
            text = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
            yield RequestFault("AN14", text, "thinking.budget_tokens")
        elif isinstance(most, int) and most <= budget:
            yield RequestFault("AN14", "max_tokens must be greater than thinking.budget_tokens", "max_tokens")
    forced = choice.get("type") if isinstance(choice, dict) else None
    if kind != "disabled" and forced in ("any", "tool"):
        yield RequestFault("AN14", "Thinking may not be enabled when tool_choice forces tool use.", "tool_choice")
