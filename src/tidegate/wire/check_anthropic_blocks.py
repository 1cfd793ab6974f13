"""Single blocks of an Anthropic message, and the two wordings in which its structure is enforced."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidegate.wire.check_schema import is_finite, is_name
from tidegate.wire.check_thinking import THINKING
from tidegate.wire.faults import Fault

RESULT_BLOCKS = frozenset(("text", "image", "document", "search_result", "tool_reference"))
USER_BLOCKS = RESULT_BLOCKS | {"tool_result", "container_upload"}
MODEL_BLOCKS = frozenset(("text", "tool_use", "server_tool_use", "mcp_tool_use", "compaction", *THINKING))
MOST_MARKS = 4
TOO_MANY_MARKS = "A maximum of {} blocks with cache_control may be provided. Found {}."

_is_id = re.compile(r"[a-zA-Z0-9_-]+").fullmatch


class Wording(NamedTuple):
    rule: str
    text: str


# Bedrock enforces the same structure under its own names and words.
ANTHROPIC: Mapping[str, Wording] = {
    "first": Wording("AN1", 'messages: first message must use the "user" role'),
    "alternate": Wording(
        "AN2",
        'messages: roles must alternate between "user" and "assistant", but found multiple "{role}" roles in a row',
    ),
    "unanswered": Wording(
        "AN3",
        "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {key}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    ),
    "orphan": Wording(
        "AN4",
        "messages.{at}.content.{n}: unexpected `tool_use_id` found in `tool_result` blocks: {key}. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
    ),
    "twice": Wording(
        "AN6",
        "messages.{at}.content.{n}: each tool_use must have a single result. "
        "Found multiple `tool_result` blocks with id: {key}",
    ),
    "reused": Wording("AN6", "messages.{at}.content.{n}: tool_use ids must be unique"),
    "empty": Wording("AN7", "messages: text content blocks must be non-empty"),
    "blank": Wording("AN7", "messages: text content blocks must contain non-whitespace text"),
    "void": Wording(
        "AN7",
        "messages.{at}: all messages must have non-empty content except for the optional final assistant message",
    ),
    "void_user": Wording("AN7", "messages.{at}: user messages must have non-empty content"),
    "no_tools": Wording("AN9", "Requests which include `tool_use` or `tool_result` blocks must define tools."),
}
NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
_BLANK = (
    "The text field in the ContentBlock object at messages.{at}.content.{n} is blank. "
    "Add text to the text field, and try again."
)
_VOID = "The content field in the Message object at messages.{at} is empty. Add a ContentBlock object and try again."
_MORE = (
    "The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks of previous turn."
)
BEDROCK: Mapping[str, Wording] = {
    "first": Wording(
        "BR1",
        "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
    ),
    "alternate": Wording(
        "BR1",
        "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between "
        "user and assistant roles and try again.",
    ),
    "unanswered": Wording("BR2", "Expected toolResult blocks at messages.{next}.content for the following Ids: {key}"),
    "orphan": Wording("BR2", _MORE),
    "twice": Wording("BR2", _MORE),
    "reused": Wording("BR2", "The toolUse blocks at messages.{at}.content contain duplicate Ids: {key}"),
    "empty": Wording("BR3", _BLANK),
    "blank": Wording("BR3", _BLANK),
    "void": Wording("BR3", _VOID),
    "void_user": Wording("BR3", _VOID),
    "no_tools": Wording(
        "BR4", "The toolConfig field must be defined when using toolUse and toolResult content blocks."
    ),
}


def mark_faults(block: Mapping[str, object], where: str) -> Iterator[Fault]:
    """AN11, for a block that carries a cache mark; their number is the caller's to count."""
    mark = block["cache_control"]
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        yield Fault("AN11", f"{where}.cache_control.type: Input should be 'ephemeral'", where)
    if block.get("type") in THINKING:
        yield Fault("AN11", f"{where}.cache_control: Extra inputs are not permitted", where)
    if block.get("type") == "text" and not block.get("text"):
        yield Fault("AN7", f"{where}: cache_control cannot be set for empty text blocks", where)


def use_faults(block: dict[str, object], where: str) -> Iterator[Fault]:
    """A tool_use block taken alone: id, name, input."""
    key = block.get("id")
    if not isinstance(key, str) or not _is_id(key):
        yield Fault("AN6", f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", where)
    name = block.get("name")
    if not isinstance(name, str) or not is_name(name):
        text = "tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"
        yield Fault("AN10", f"{where}.{text}", where)
    given = block.get("input")
    if not isinstance(given, dict):
        yield Fault("AN10", f"{where}.tool_use.input: Input should be a valid dictionary", where)
    elif not is_finite(given):
        yield Fault("OC10", f"The request body is not valid JSON: NaN or Infinity at {where}", where)
