"""Checks of signed thinking: what must be sent back (AN12), and what it is bound to (AN13)."""

from collections.abc import Iterator, Mapping
from typing import Self

from tidegate.wire.validation.faults import FaultWording, RequestFault
from tidegate.wire.validation.validator import ForkableState

THINKING_TYPES = ("thinking", "redacted_thinking")

_MODIFIED_TEXT = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
_UNBOUND_TEXT = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


def check_thinking_block(block: dict[str, object], where: str, unsigned: FaultWording) -> Iterator[RequestFault]:
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


class ToolLoop(ForkableState):
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
        if self._calls and self._first not in THINKING_TYPES:
            where = f"messages.{self._at}.content.0"
            text = (
                f"Expected `thinking` or `redacted_thinking`, but found `{self._first[:80]}`. When `thinking` is "
                "enabled, a final `assistant` message must start with a thinking block (preceding the lastmost set of "
                "`tool_use` and `tool_result` blocks)."
            )
            yield RequestFault("AN12", f"{where}.type: {text}", where)


def check_thinking_bindings(
    earlier: "Mapping[str, object] | FlatRequest", later: "Mapping[str, object] | FlatRequest"
) -> list[RequestFault]:
    """AN13, which needs two requests: check that each thinking block of `later` still follows the content it is bound
    to.

    `earlier` is the previous request of the same conversation. A block that was in `earlier`, or that answered it,
    needs the same system, tools and messages before it. Cache markers are not compared. Older thinking may be missing
    at the front of a run but not in its middle. A caller that checks a series of requests may pass `FlatRequest`s.
    """
    try:
        after = later if isinstance(later, FlatRequest) else FlatRequest(later)
        if after.drops_unbound_blocks:
            return []
        return _find_unbound(earlier if isinstance(earlier, FlatRequest) else FlatRequest(earlier), after)
    except RecursionError:
        return [RequestFault("SHAPE", "messages: nested too deeply", "messages")]


def _find_unbound(before: "FlatRequest", after: "FlatRequest") -> list[RequestFault]:
    for key, mine in after.block_by_signature.items():
        theirs = before.block_by_signature.get(key)
        if theirs is not None:
            if after.blocks[mine] != before.blocks[theirs]:
                return [RequestFault("AN12", f"{after.places[mine]}: {_MODIFIED_TEXT}", after.places[mine])]
            same = _has_same_prefix(before, theirs, after, mine)
        elif after.message_indexes[mine] < before.messages:
            continue  # older than both requests can tell
        else:
            same = _has_same_prefix(before, len(before.blocks), after, mine)
        if not same:
            return [RequestFault("AN13", f"{after.places[mine]}: {_UNBOUND_TEXT}", after.places[mine])]
    return []


class FlatRequest:
    """A request as one list of blocks, each with its role, without cache markers."""

    def __init__(self, body: Mapping[str, object]) -> None:
        thinking = body.get("thinking")
        binding = thinking.get("block_binding") if isinstance(thinking, dict) else None
        self.drops_unbound_blocks = (
            isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"
        )
        self.head = [_strip_cache_markers(body.get("system")), _strip_cache_markers(body.get("tools"))]
        self.blocks: list[object] = []
        self.places: list[str] = []
        self.message_indexes: list[int] = []
        self.block_by_signature: dict[str, int] = {}  # signature -> index in blocks
        messages = body.get("messages")
        messages = messages if isinstance(messages, list) else []
        self.messages = len(messages)
        for at, message in enumerate(messages):
            content = message.get("content") if isinstance(message, dict) else None
            role = message.get("role") if isinstance(message, dict) else None
            parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
            for n, block in enumerate(parts):
                key = _signature(block)
                if key:
                    self.block_by_signature.setdefault(key, len(self.blocks))
                self.blocks.append([role, _strip_cache_markers(block)])
                self.places.append(f"messages.{at}.content.{n}")
                self.message_indexes.append(at)


def _signature(block: object) -> str:
    if not isinstance(block, dict) or block.get("type") not in THINKING_TYPES:
        return ""
    key = block.get("signature") or block.get("data")
    return key if isinstance(key, str) else ""


def _has_same_prefix(before: FlatRequest, theirs: int, after: FlatRequest, mine: int) -> bool:
    """Return whether the prefixes are equal. A block that answered `earlier` comes with the rest of that answer."""
    new = theirs == len(before.blocks)
    old, own = before.blocks[:theirs], after.blocks[:mine]
    if new:
        own = [block for block, owner in zip(own, after.message_indexes, strict=False) if owner < before.messages]
    old_signed = [one for one in old if _is_thinking(one)]
    own_signed = [one for one in own if _is_thinking(one)]
    kept = old_signed[len(old_signed) - len(own_signed) :] if len(own_signed) <= len(old_signed) else old_signed
    old_plain = [one for one in old if not _is_thinking(one)]
    own_plain = [one for one in own if not _is_thinking(one)]
    return before.head == after.head and own_signed == kept and own_plain == old_plain


def _is_thinking(entry: object) -> bool:
    block = entry[1] if isinstance(entry, list) else None
    return isinstance(block, dict) and block.get("type") in THINKING_TYPES


def _strip_cache_markers(value: object) -> object:
    if isinstance(value, list):
        return [_strip_cache_markers(one) for one in value]
    if isinstance(value, dict):
        return {key: _strip_cache_markers(one) for key, one in value.items() if key != "cache_control"}
    return value
