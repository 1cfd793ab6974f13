"""How the dialects whose items have blocks write messages: the results of a turn are blocks of one item of the user."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from tidegate.core.messages import Call, Part, Result, Text, Thinking, calls_of, compaction_of, result_of
from tidegate.wire.parsing import decode_object
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.hidden_answers import HiddenAnswer, HiddenResult, PlacedPart, arrange_parts
from tidegate.wire.splicing.message_form import MessageForm, join_result_text, list_blocks
from tidegate.wire.splicing.request_text import ItemTexts, OutputItem
from tidegate.wire.splicing.spans import find_elements, find_members, rebuild_array, replace_value
from tidegate.wire.splicing.units import HostUnit, ShownUnit

_encode = msgspec.json.encode


def wrap_result(result: Result) -> dict[str, str]:
    """A result as an object, for a dialect that has no mark for errors."""
    return {"error" if result.error else "output": join_result_text(result)}


class BlockRules(NamedTuple):
    """How a dialect with blocks writes them.

    `encode_result` gets the block of the call, too. `call_paths` say where the arguments of a call are in its block.
    `wrapped_result_paths`: where a result is an object with the text in it; else it is the `content` of its block.
    `bound_types` are blocks that the provider refuses after a changed prefix.
    """

    key: str
    blocks_key: str
    assistant_role: str
    encode_text: Callable[[str], bytes]
    encode_result: Callable[[Result, JsonObject], bytes]
    encode_hidden_result: Callable[[HiddenResult], bytes]
    is_result: Callable[[JsonObject], bool]
    call_paths: tuple[tuple[str, ...], ...]
    wrapped_result_paths: tuple[tuple[str, ...], ...] = ()
    bound_types: tuple[str, ...] = ()


class BlockForm(MessageForm):
    """An item has a list of blocks."""

    def __init__(self, rules: BlockRules) -> None:
        self._rules = rules
        self.key, self.blocks_key, self.assistant_role = rules.key, rules.blocks_key, rules.assistant_role

    def move_system_items(self, items: list[OutputItem]) -> list[OutputItem]:
        """A system message is the last item of the user's turn. One that an edit brought into it is moved behind it."""
        items_in_order, system_items = list[OutputItem](), list[OutputItem]()
        for item in items:
            is_between = item.role == "system" and bool(items_in_order) and items_in_order[-1].role == "user"
            if is_between:
                system_items.append(item)
                continue
            if item.role != "user" or (system_items and item.place == system_items[-1].place + 1):
                items_in_order += system_items
                system_items = []
            items_in_order.append(item)
        return items_in_order + system_items

    def encode_text_block(self, text: str) -> bytes:
        return self._rules.encode_text(text)

    def encode_item(self, role: str, parts: Sequence[Text]) -> bytes:
        item_role = self.assistant_role if role == "assistant" else role
        return self._encode_blocks(item_role, [self.encode_text_block(part.text) for part in parts])

    def _encode_blocks(self, role: str, blocks: Sequence[bytes]) -> bytes:
        return b'{"role":"%s","%s":[%s]}' % (role.encode(), self.blocks_key.encode(), b",".join(blocks))

    def write_units(self, items: ItemTexts, view: Sequence[ShownUnit]) -> list[OutputItem]:
        output: list[OutputItem] = []
        caller: HostUnit | None = None
        for place, group in groupby(view, lambda each: each.unit.items[0] if each.unit else -1):
            units = list(group)
            if place < 0:
                output += [self._insert_after(each, caller, items) for each in units if each.message is not None]
                continue
            caller = next((each.unit for each in units if each.unit and calls_of(each.unit.message)), caller)
            if item := self._write_item(items[place], place, units):
                output.append(item)
        return output

    def _insert_after(self, entry: ShownUnit, caller: HostUnit | None, items: ItemTexts) -> OutputItem:
        """A message of the engine. A result of one names the call as the client does, whose last calls are given."""
        message = entry.message
        assert message is not None
        result, block = result_of(message), compaction_of(message) if entry.signed else None
        if block is not None:
            role = self.assistant_role
            return OutputItem(role, self._encode_blocks(role, [block.block.encode()]))
        if result is None:
            item = self.insert_message(message)
            return item._replace(role=self.assistant_role if item.role == "assistant" else item.role)
        call = self._find_call_block(result.call_id, caller, items) if caller is not None else {}
        return OutputItem("user", self._encode_blocks("user", [self._rules.encode_result(result, call)]))

    def _find_call_block(self, call_id: str, caller: HostUnit, items: ItemTexts) -> JsonObject:
        for part, origin in zip(caller.message.parts, caller.origins, strict=False):
            if isinstance(part, Call) and part.id == call_id and origin.block >= 0:
                return decode_object(list_blocks(items[origin.item], self.blocks_key)[origin.block].decode())
        return {}

    def _write_item(self, text: bytes, place: int, entries: list[ShownUnit]) -> OutputItem | None:
        role = _role_of(text)
        member = find_members(text).get(self.blocks_key) if text.startswith(b"{") else None
        content = text[member.value : member.end] if member else b""
        if member is None or content[:1] != b"[":
            new = entries[0].message
            if new is not None and member is not None:
                value = _encode("\n\n".join(part.text for part in new.parts if isinstance(part, Text)))
                text = text[: member.value] + value + text[member.end :]
            return OutputItem(role, text, place)
        blocks = [content[element.start : element.end] for element in find_elements(content)]
        new_blocks = [block for each in entries for block in self._write_blocks(blocks, each)]
        if not new_blocks:
            return None if blocks else OutputItem(role, text, place)
        if new_blocks != blocks:
            new_blocks = keep_marks(blocks, new_blocks)
            text = text[: member.value] + rebuild_array(content, new_blocks) + text[member.end :]
        return OutputItem(role, text, place)

    def _write_blocks(self, blocks: list[bytes], entry: ShownUnit) -> list[bytes]:
        unit, message = entry.unit, entry.message
        if unit is None:
            return []
        own = [(part, origin.block) for part, origin in zip(unit.message.parts, unit.origins, strict=False)]
        if message is None or not own:
            own_blocks = [blocks[block] for part, block in own if entry.signed or not self.is_bound(part)]
            return own_blocks if own else blocks
        if unit.message.role == "tool":
            result = result_of(message)
            return [self.rewrite_result_block(blocks[own[0][1]], result, unit)] if result else []
        raw = [blocks[block] for _, block in own]
        return self.match_blocks(raw, unit.message.parts, self._sendable(message.parts, entry.signed))

    def _sendable(self, parts: Sequence[Part], signed: bool) -> list[Part]:
        return [part for part in parts if signed or not self.is_bound(part)]

    def is_bound(self, part: Part) -> bool:
        """Whether the provider refuses this part after a prefix that was changed."""
        kind = decode_object(part.block).get("type") if isinstance(part, Thinking) and part.block else None
        return kind in self._rules.bound_types

    def rewrite_result_block(self, block: bytes, result: Result, unit: HostUnit) -> bytes:
        if not self._rules.wrapped_result_paths:
            old = result_of(unit.message)
            return replace_value(block, ("content",), self.encode_result_content(block, "content", result, old))
        for path in self._rules.wrapped_result_paths:
            block = replace_value(block, path, _encode(wrap_result(result)))
        return block

    def match_blocks(self, blocks: Sequence[bytes], old: Sequence[Part], new: Sequence[Part]) -> list[bytes]:
        calls = [(part.id, block) for part, block in zip(old, blocks, strict=False) if isinstance(part, Call)]
        new_calls = [part for part in new if isinstance(part, Call) and part not in old]
        if not new_calls:
            return super().match_blocks(blocks, old, new)
        output: list[bytes] = []
        for part in new:
            if part in new_calls and isinstance(part, Call):
                block = next(block for ident, block in calls if ident == part.id)
                calls.remove((part.id, block))
                output.append(self.rewrite_call_block(block, part))
            else:
                output += super().match_blocks(blocks, old, [part])
        return output

    def rewrite_call_block(self, block: bytes, call: Call) -> bytes:
        for path in self._rules.call_paths:
            block = replace_value(block, path, call.arguments.encode())
        return block

    def join_items(self, run: Sequence[OutputItem]) -> list[OutputItem]:
        blocks = [block for item in run for block in self.blocks_of(item.text)]
        blocks.sort(key=lambda block: not self.is_result_block(block))  # results come first
        text = b"[" + b",".join(blocks) + b"]"
        return [OutputItem(run[0].role, replace_value(run[0].text, (self.blocks_key,), text), run[-1].place)]

    def is_result_block(self, block: bytes) -> bool:
        return self._rules.is_result(decode_object(block.decode()))

    # --- hidden exchanges -----------------------------------------------------------------------------------------

    def encode_results(self, results: Sequence[HiddenResult]) -> list[bytes]:
        return (
            [self._encode_blocks("user", [self._rules.encode_hidden_result(each) for each in results])]
            if results
            else []
        )

    def _read_blocks(self, item: bytes) -> list[bytes]:
        member = find_members(item).get(self.blocks_key)
        content = item[member.value : member.end] if member else b""
        if content[:1] == b'"':
            return [self.encode_text_block(msgspec.json.decode(content, type=str))]
        return [content[each.start : each.end] for each in find_elements(content)] if content[:1] == b"[" else []

    def expand_answer(self, items: list[list[bytes]], unit: HostUnit, answers: Sequence[HiddenAnswer]) -> None:
        group = items[unit.items[0]]
        item = group[-1]
        blocks = self._read_blocks(item)
        places = [PlacedPart(part, raw) for part, raw in zip(unit.message.parts, blocks, strict=False)]
        arranged = arrange_parts(places, answers, restores_thinking=True)
        new: list[bytes] = []
        for answer, own in zip(answers[:-1], arranged[:-1], strict=True):
            new.append(self._encode_blocks(self.assistant_role, own))
            new += self.encode_results(answer.results)
        if arranged[-1]:
            new.append(replace_value(item, (self.blocks_key,), b"[" + b",".join(arranged[-1]) + b"]"))
        group[-1:] = new

    def insert_results(self, items: list[list[bytes]], unit: HostUnit, results: Sequence[HiddenResult]) -> None:
        group, block = items[unit.items[0]], unit.origins[0].block
        if block < 0 or unit.message.role == "assistant":
            group[-1:] = [*self.encode_results(results), group[-1]]
            return
        blocks = self._read_blocks(group[-1])
        blocks[block:block] = [self._rules.encode_hidden_result(each) for each in results]
        group[-1] = replace_value(group[-1], (self.blocks_key,), b"[" + b",".join(blocks) + b"]")


def _role_of(item: bytes) -> str:
    try:
        return msgspec.json.decode(item, type=_Roled).role
    except (msgspec.MsgspecError, UnicodeError):
        return ""


class _Roled(msgspec.Struct):
    role: str = "user"


# --- marks for the provider's cache ----------------------------------------------------------------------------------
# A client puts `cache_control` on blocks of its newest messages. Without its mark, a request reads and writes nothing
# in the cache beyond the mark before. So an edit that takes the marked block away leaves the mark on another block.


_KEY: Final = "cache_control"
_QUOTED_KEY: Final = b'"cache_control"'
_UNMARKED_TYPES: Final = frozenset({"thinking", "redacted_thinking"})
"""Blocks on which the provider refuses a mark."""


def keep_marks(old: Sequence[bytes], new: list[bytes]) -> list[bytes]:
    """Return the new blocks of a message. If fewer have a mark than of the old ones, the last gets the last mark."""
    if not any(_QUOTED_KEY in block for block in old):
        return new
    marks = [mark for block in old for mark in _find_marks(block)]
    if sum(1 for block in new for _ in _find_marks(block)) >= len(marks):
        return new
    place = next((place for place in reversed(range(len(new))) if _may_be_marked(new[place])), None)
    if place is None or _KEY in find_members(new[place]):
        return new
    block = new[place].rstrip()
    last_block = block[:-1] + b"," + _QUOTED_KEY + b":" + marks[-1] + b"}"
    return [*new[:place], last_block, *new[place + 1 :]]


def _find_marks(block: bytes) -> Iterator[bytes]:
    """The marks of a block and of the blocks in it."""
    if _QUOTED_KEY not in block or block.lstrip()[:1] != b"{":
        return
    members = find_members(block)
    content = members.get("content")
    inner = block[content.value : content.end] if content is not None else b""
    for element in find_elements(inner) if inner[:1] == b"[" else ():
        if inner[element.start : element.start + 1] == b"{":
            yield from _find_marks(inner[element.start : element.end])
    mark = members.get(_KEY)
    if mark is not None and block[mark.value : mark.end] != b"null":
        yield block[mark.value : mark.end]


def _may_be_marked(block: bytes) -> bool:
    read = decode_object(block.decode("utf-8", "replace"))
    kind = read.get("type")
    return isinstance(kind, str) and kind not in _UNMARKED_TYPES and read.get("text") != ""
