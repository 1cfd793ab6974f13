"""Validator for Anthropic Messages requests, and for servers that take the same structure but word faults differently.

Calls and results are blocks inside messages, so the unit is the *run*: adjacent messages of one role, which the server
reads as one message. The results of a run answer exactly the calls of the run before it. A strict profile refuses runs
of more than one message.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Self

from tidegate.wire.anthropic.models import accepts_system_messages, demands_loop_start
from tidegate.wire.anthropic.validate_media import MediaTally
from tidegate.wire.validation.faults import STRICT_PROFILE, FaultWording, RequestFault, ValidationProfile
from tidegate.wire.validation.json_checks import (
    describe_value,
    find_schema_fault,
    has_only_finite_numbers,
    is_tool_name,
)
from tidegate.wire.validation.validator import BodyFormat, ForkableState, IdSet, MessageListValidator, walk_tools

_THINKING_TYPES = ("thinking", "redacted_thinking")
RESULT_BLOCK_TYPES = frozenset(("text", "image", "document", "search_result", "tool_reference"))
USER_BLOCK_TYPES = RESULT_BLOCK_TYPES | {"tool_result", "container_upload"}
MODEL_BLOCK_TYPES = frozenset(("text", "tool_use", "server_tool_use", "mcp_tool_use", "compaction", *_THINKING_TYPES))
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
    if block.get("type") in _THINKING_TYPES:
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
    arguments = block.get("input")
    if not isinstance(arguments, dict):
        yield RequestFault("AN10", f"{where}.tool_use.input: Input should be a valid dictionary", where)
    elif not has_only_finite_numbers(arguments):
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


class AnthropicValidator(MessageListValidator):
    """The rules over the message list: runs, calls with their results, thinking, cache markers, media."""

    body_format = BodyFormat(
        "messages",
        "messages.",
        "",
        bad_body=lambda body: "Input should be a valid dictionary",
        bad_list=lambda messages: "messages: Input should be a valid list",
        bad_message=lambda where, message: f"{where}: Input should be a valid dictionary",
        unsendable="The request body is not valid JSON",
        max_bytes=33_554_432,
        too_large=RequestFault("AN15", "Request exceeds the maximum size", "body"),
    )

    def __init__(self, head: Mapping[str, object], profile: ValidationProfile = STRICT_PROFILE) -> None:
        super().__init__(head, profile)
        self._words = profile.message_wording or ANTHROPIC_WORDING
        self._role = ""
        self._ids = IdSet()
        self._uses: dict[str, bool] = {}  # calls of the latest assistant run: id -> answered
        self._uses_at = 0
        self._served: frozenset[str] = frozenset()  # provider-run calls of that run without their result
        self._others = False  # this user run holds something other than results
        self._tool_blocks = False
        self._void_at = -1  # index of the latest message if it is an empty assistant message
        self._ragged = False  # the latest message ends in white space
        model = head.get("model")
        demands_start = demands_loop_start(model if isinstance(model, str) else "")
        self._loop = _ToolLoop() if is_thinking_enabled(head) and demands_start else None
        self._takes_system = isinstance(model, str) and accepts_system_messages(model)
        self._marks = 0
        self._media: MediaTally | None = None
        self._tools = bool(head.get("tools"))
        self._read_head(head)

    def _check_message(self, message: dict[str, object], at: int, where: str) -> None:
        if self._void_at >= 0:
            self._tell("void", f"messages.{self._void_at}", at=self._void_at)
            self._void_at = -1
        role = message.get("role")
        if role == "system" and self._takes_system:
            if self._role != "user":
                text = "role 'system' must follow a 'user' message"
                self._add("AN1", f"{where}: {text} or an 'assistant' message ending in a server tool result", where)
            return
        if role not in ("user", "assistant") or not isinstance(role, str):
            text = "The Messages API accepts a top-level `system` parameter"
            self._add("AN1", f"messages: Unexpected role {describe_value(role)}. {text}", f"{where}.role")
            return
        content = message.get("content")
        begins = content[0] if isinstance(content, list) and content else None
        self._take_turn(role, where, compacts=isinstance(begins, Mapping) and begins.get("type") == "compaction")
        content = message.get("content")
        if isinstance(content, str):
            self._string(content, role, at)
        elif isinstance(content, list):
            self._blocks(content, role, at)
        else:
            self._add("SHAPE", f"{where}.content: Input should be a valid list", f"{where}.content")

    def _tell(self, word: str, where: str, at: int = 0, n: int = 0, key: str = "", role: str = "") -> None:
        self._found.extend([self._fault(word, where, at, n, key, role)])

    def _fault(self, word: str, where: str, at: int = 0, n: int = 0, key: str = "", role: str = "") -> RequestFault:
        rule, text = self._words[word]
        return RequestFault(rule, text.format(at=at, n=n, key=key, role=role, next=at + 1), where)

    def _check_head(self, head: Mapping[str, object]) -> None:
        self._found.extend(check_head(head))
        for key in ("system", "tools"):
            blocks = head.get(key)
            for n, block in enumerate(blocks if isinstance(blocks, list) else ()):
                self._mark(block, f"{key}.{n}")
        self._mark(head, "body")

    def _mark(self, block: object, where: str) -> None:
        if isinstance(block, Mapping) and block.get("cache_control") is not None:
            self._marks += 1
            self._found.extend(check_cache_marker(block, where))

    def _take_turn(self, role: str, where: str, *, compacts: bool = False) -> None:
        """With `compacts`, an answer may come first: https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand"""
        before, self._role = self._role, role
        if not before and role != "user" and not compacts:
            self._tell("first", where)
        if before == role:
            if self._profile.alternate:
                self._tell("alternate", where, role=role)
            return
        if role == "user":
            self._others = False
            return
        if self._uses:
            self._found.extend(self._unanswered())
            self._uses = {}
        self._served = frozenset()

    def _unanswered(self) -> Iterator[RequestFault]:
        missing = ", ".join(key[:80] for key, has_result in self._uses.items() if not has_result)
        if missing:
            yield self._fault("unanswered", f"messages.{self._uses_at}", at=self._uses_at, key=missing)

    def _string(self, content: str, role: str, at: int) -> None:
        self._ragged = content[-1:].isspace()
        if not content:
            self._empty(role, at)
        elif content.isspace():
            self._tell("blank", f"messages.{at}", at=at)
        if role == "user":
            self._others = True
            if self._loop:
                self._loop.start_turn()
            self._only_results(f"messages.{at}")
        elif self._loop:
            self._loop.add_assistant_message("text", at, calls=False)

    def _empty(self, role: str, at: int) -> None:
        if role == "user":
            self._tell("void_user", f"messages.{at}", at=at)
        else:
            self._void_at = at

    def _blocks(self, content: list[object], role: str, at: int) -> None:
        self._ragged = False
        if not content:
            self._empty(role, at)
        kinds: list[str] = []
        for n, block in enumerate(content):
            kind = block.get("type") if isinstance(block, dict) else None
            if not isinstance(block, dict) or not isinstance(kind, str):
                self._add("SHAPE", f"messages.{at}.content.{n}: Input should be a valid dictionary", f"messages.{at}")
                continue
            kinds.append(kind)
            if "cache_control" in block:
                self._mark(block, f"messages.{at}.content.{n}")
            if role == "user":
                self._user_block(block, kind, at, n)
            else:
                self._model_block(block, kind, at, n)
        if self._loop and role == "assistant":
            self._loop.add_assistant_message(kinds[0] if kinds else "", at, calls="tool_use" in kinds)
        elif self._loop and "tool_result" not in kinds:
            self._loop.start_turn()

    def _user_block(self, block: dict[str, object], kind: str, at: int, n: int) -> None:
        where = f"messages.{at}.content.{n}"
        if kind == "tool_result":
            self._result(block, at, n)
            return
        self._others = True
        self._only_results(where)
        if kind not in USER_BLOCK_TYPES:
            rule = {"tool_use": "AN3", "thinking": "AN12", "redacted_thinking": "AN12"}.get(kind, "SHAPE")
            self._add(rule, f"{where}: `{kind[:80]}` blocks can only be in `assistant` messages", where)
        self._plain(block, kind, at, n, where)

    def _only_results(self, where: str) -> None:
        if self._served:
            self._add("AN5", f"{where}: only `tool_result` blocks may follow while a server tool has no result", where)

    def _result(self, block: dict[str, object], at: int, n: int) -> None:
        where = f"messages.{at}.content.{n}"
        self._tool_blocks = True
        if self._others:
            self._add("AN5", f"{where}: tool_result blocks must come first in the content of a user message", where)
        key = block.get("tool_use_id")
        if not isinstance(key, str):
            self._add("AN4", f"{where}.tool_result.tool_use_id: Field required", where)
        elif key not in self._uses:
            self._tell("orphan", where, at, n, key[:80])
        elif self._uses[key]:
            self._tell("twice", where, at, n, key[:80])
        else:
            self._uses[key] = True
        content = block.get("content")
        if not content and block.get("is_error") is True:
            self._add("AN7", f"{where}.tool_result: content cannot be empty if `is_error` is true", where)
        if content is None or isinstance(content, str):
            return
        for m, inner in enumerate(content if isinstance(content, list) else [content]):
            kind = inner.get("type") if isinstance(inner, dict) else None
            if not isinstance(inner, dict) or not isinstance(kind, str) or kind not in RESULT_BLOCK_TYPES:
                self._add(
                    "SHAPE", f"{where}.tool_result.content.{m}: Input tag {describe_value(kind)} does not match", where
                )
                continue
            self._mark(inner, f"{where}.content.{m}")
            self._plain(inner, kind, at, n, f"{where}.content.{m}")

    def _plain(self, block: dict[str, object], kind: str, at: int, n: int, where: str) -> None:
        """AN7 and AN15: the blocks that are allowed in messages and in results."""
        if kind == "text":
            text = block.get("text")
            if not isinstance(text, str):
                self._add("SHAPE", f"{where}.text.text: Field required", where)
            elif not text:
                self._tell("empty", where, at, n)
            elif text.isspace():
                self._tell("blank", where, at, n)
            else:
                self._ragged = text[-1].isspace()
        elif kind in ("image", "document"):
            self._media = self._media or MediaTally()
            self._found.extend(self._media.add(block, where))

    def _model_block(self, block: dict[str, object], kind: str, at: int, n: int) -> None:
        where = f"messages.{at}.content.{n}"
        if kind == "text":
            self._plain(block, kind, at, n, where)
        elif kind == "tool_use":
            self._use(block, at, n)
        elif kind in ("server_tool_use", "mcp_tool_use"):
            key = block.get("id")
            self._served |= {key if isinstance(key, str) else ""}
        elif kind.endswith("_tool_result"):
            self._served = frozenset(key for key in self._served if key != block.get("tool_use_id"))
        elif kind in _THINKING_TYPES:
            self._found.extend(_check_thinking_block(block, where, self._words["unsigned"]))
        elif kind not in MODEL_BLOCK_TYPES:
            rule = "AN4" if kind == "tool_result" else "SHAPE"
            self._add(rule, f"{where}: `{kind[:80]}` blocks can only be in `user` messages", where)

    def _use(self, block: dict[str, object], at: int, n: int) -> None:
        where = f"messages.{at}.content.{n}"
        self._tool_blocks = True
        self._uses_at = at
        self._found.extend(check_tool_use(block, where))
        key = block.get("id")
        if isinstance(key, str):
            if not self._ids.add(key):
                self._tell("reused", where, at, n, key[:80])
            self._uses[key] = False

    def _end_faults(self) -> Iterator[RequestFault]:
        last = f"messages.{self._at - 1}"
        if not self._at:
            yield RequestFault("AN1", "messages: at least one message is required", "messages")
        yield from self._unanswered()
        if self._tool_blocks and not self._tools:
            yield self._fault("no_tools", "tools")
        if self._role == "assistant" and not self._profile.allows_prefill:
            yield RequestFault("AN8", NO_PREFILL_TEXT, last)
        elif self._role == "assistant" and self._ragged:
            yield RequestFault("AN8", "messages: final assistant content cannot end with trailing whitespace", last)
        if self._loop:
            yield from self._loop.end_faults()
        if self._marks > MAX_CACHE_MARKERS:
            yield RequestFault("AN11", TOO_MANY_MARKERS_TEXT.format(MAX_CACHE_MARKERS, self._marks), "body")
        if self._media is not None:
            yield from self._media.end_faults()


# --- signed thinking -------------------------------------------------------------------------------------------------


def _check_thinking_block(block: dict[str, object], where: str, unsigned: FaultWording) -> Iterator[RequestFault]:
    """AN12 and BR5: a thinking block without its signature was cut off."""
    if block.get("type") == "redacted_thinking":
        data = block.get("data")
        if not isinstance(data, str) or not data:
            yield RequestFault("AN12", f"{where}.redacted_thinking.data: Field required", where)
        return
    if not isinstance(block.get("thinking"), str):
        yield RequestFault("AN12", f"{where}.thinking.thinking: Field required", where)
    signature = block.get("signature")
    if not isinstance(signature, str) or not signature:
        yield RequestFault(unsigned.rule, unsigned.text.format(where=where), where)


class _ToolLoop(ForkableState):
    """The running tool loop: the model's messages since the last user message. It must begin with thinking.

    A user message with results, with or without text, does not end the loop. Later steps of a loop need no thinking:
    without interleaved thinking the model makes none.
    """

    __slots__ = ("_at", "_calls", "_first")

    def __init__(self, first: str = "", at: int = 0, calls: bool = False) -> None:
        self._first = first  # the type of the first block; empty before the first model message
        self._at = at
        self._calls = calls

    def fork(self) -> Self:
        return type(self)(self._first, self._at, self._calls)

    def start_turn(self) -> None:
        self._first = ""
        self._calls = False

    def add_assistant_message(self, first: str, at: int, calls: bool) -> None:
        if not self._first:
            self._first, self._at = first, at
        self._calls = self._calls or calls

    def end_faults(self) -> Iterator[RequestFault]:
        if self._calls and self._first not in _THINKING_TYPES:
            where = f"messages.{self._at}.content.0"
            text = (
                f"Expected `thinking` or `redacted_thinking`, but found `{self._first[:80]}`. When `thinking` is "
                "enabled, a final `assistant` message must start with a thinking block (preceding the lastmost set of "
                "`tool_use` and `tool_result` blocks)."
            )
            yield RequestFault("AN12", f"{where}.type: {text}", where)
