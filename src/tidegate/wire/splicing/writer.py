"""A client's request with the edits of a view spliced into its own bytes.

What the view keeps is copied from the client's body, byte for byte. A replacement changes only the value that is
replaced: the text of a block, the content of a result, the arguments of a call. All other fields of a block stay, and
so do its marks for the provider's cache.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tidegate.core.messages import (
    Call,
    Image,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    calls_of,
    compacts_history,
    result_of,
    text_of,
)
from tidegate.wire.parsing import decode_object
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.rendering.layout import FIRST_USER_FILLER
from tidegate.wire.splicing.block_rules import (
    ANTHROPIC_BLOCKS,
    GEMINI_BLOCKS,
    BlockRules,
    join_result_text,
    wrap_result,
)
from tidegate.wire.splicing.cache_marks import keep_marks
from tidegate.wire.splicing.request_text import ItemSpans, ItemTexts, OutputItem, find_items, join_items, join_list
from tidegate.wire.splicing.spans import (
    find_elements,
    find_members,
    rebuild_array,
    remove_member,
    replace_value,
)
from tidegate.wire.splicing.units import HostUnit
from tidegate.wire.splicing.write_memo import WriteMemo

_encode = msgspec.json.encode


class ShownUnit(NamedTuple):
    """One item of a view. `unit` is None for a message of the engine; `message` is None if the unit is kept as it is.

    Without `signed`, what the provider signed is left out where it would be refused. `kept_place` is the place of the
    client's item that is sent as it is; -1 if the unit is not an item, or is edited. `show_unit` finds it.
    """

    unit: HostUnit | None
    message: Message | None
    signed: bool
    kept_place: int


def show_unit(unit: HostUnit | None, message: Message | None, signed: bool = True) -> ShownUnit:
    """An item of a view."""
    kept_place = -1
    if unit is not None and message is None and unit.is_whole:
        first, last = unit.origins[0].item, unit.origins[-1].item
        is_sent = signed or Thinking not in map(type, unit.message.parts)
        kept_place = first if is_sent and first == last else -1
    return ShownUnit(unit, message, signed, kept_place)


def write_messages(
    dialect: str,
    body: bytes,
    shown: Sequence[ShownUnit],
    fixed_items: int = 0,
    items: ItemSpans | None = None,
    memo: WriteMemo | None = None,
) -> bytes:
    """The body with its list of messages as the view shows them. `fixed_items` of them stay at the front.

    `items` says where the items are in the body, if that is known already (`RequestText.list_items`). `memo` is what
    was written for the last request of the conversation.
    """
    form = _FORMS[dialect]
    member = find_members(body)[form.key] if not items else None
    if member is not None and body[member.value : member.value + 1] != b"[":  # a single text in place of a list
        said = msgspec.json.decode(body[member.value : member.end], type=str)
        body = body[: member.value] + b"[" + form.encode_item("user", [Text(said)]) + b"]" + body[member.end :]
        shown = [show_unit(_at_first_place(each.unit), each.message, each.signed) for each in shown]
    items = items or find_items(body, form.key)
    if member is not None and not items:
        written = form.write(ItemTexts(body, items), shown, 0)
        return body[: member.value] + b"[" + b",".join(item.text for item in written) + b"]" + body[member.end :]
    return join_items(body, items, _write_items(form, body, items, shown, fixed_items, memo or WriteMemo()))


def _write_items(
    form: "_Form", body: bytes, items: ItemSpans, shown: Sequence[ShownUnit], fixed_items: int, memo: WriteMemo
) -> list[OutputItem]:
    """The items to send. What was written before is one of them."""
    texts = ItemTexts(body, items)
    known = memo.find(body, items, shown)
    if known is None:
        start, first = 0, fixed_items
        written = [OutputItem("", texts[place], place) for place in range(fixed_items)]
    else:
        start, first = len(known.units), known.place
        written = [OutputItem("", known.text, 0)]
    cut = _find_cut(shown[start:]) + start
    if cut > start:
        written += form.write(texts, shown[start:cut], first)
        start, first = cut, shown[cut].kept_place
        memo.keep(body, items, shown[:cut], first, join_list(body, items, written))
    return written + form.write(texts, shown[start:], first)


def _find_cut(shown: Sequence[ShownUnit]) -> int:
    """The first answer in the last run of kept items, but not in a run from the start; 0 if there is none.

    What is before it is written without a look at what follows: no two kept items are joined, and an answer ends the
    place to which system messages are moved.
    """
    start, end = next(iter(deque(_find_kept_runs(shown), maxlen=1)), (0, 0))
    return next((place for place in range(start + 1, end) if start and _is_answer(shown[place])), 0)


def _is_answer(shown: ShownUnit) -> bool:
    return shown.unit is not None and shown.unit.message.role == "assistant"


def _at_first_place(unit: HostUnit | None) -> HostUnit | None:
    if unit is None:
        return None
    return msgspec.structs.replace(unit, origins=tuple(origin._replace(item=0) for origin in unit.origins))


def _find_kept_runs(shown: Sequence[ShownUnit]) -> Iterator[tuple[int, int]]:
    """Where at least three adjacent items of the client, each a unit of its own, are kept: start and end.

    A system message is in no run: an item of the user before it may be joined with one after it.
    """
    start, following = 0, -1
    for number, each in enumerate(shown):
        place = -1 if each.unit is not None and each.unit.message.role == "system" else each.kept_place
        if place < 0 or place != following:
            if number - start > 2 and following >= 0:
                yield start, number
            start = number
        following = place + 1 if place >= 0 else -1
    if len(shown) - start > 2 and following >= 0:
        yield start, len(shown)


class _Form:
    """How a dialect writes a list of messages. Here: each unit is one or more whole items, as in OpenAI's dialects."""

    key = "messages"
    text_type = "text"

    def encode_item(self, role: str, parts: Sequence[Text]) -> bytes:
        return _encode({"role": role, "content": "\n\n".join(part.text for part in parts)})

    def encode_result_item(self, result: Result) -> bytes:
        return _encode({"role": "tool", "tool_call_id": result.call_id, "content": join_result_text(result)})

    def encode_text_block(self, text: str) -> bytes:
        return _encode({"type": self.text_type, "text": text})

    blocks_key = "content"
    assistant_role = "assistant"

    def write(self, items: ItemTexts, shown: Sequence[ShownUnit], first: int) -> list[OutputItem]:
        found = self._write_view(items, shown)
        begins = shown[0].unit if shown else None
        is_start = begins is not None and compacts_history(begins.message)
        if found and found[0].role == self.assistant_role and found[0].place != first and not is_start:
            found.insert(0, OutputItem("user", self.encode_item("user", [Text(FIRST_USER_FILLER)])))
        return self._join_adjacent(found)

    def _write_view(self, items: ItemTexts, shown: Sequence[ShownUnit]) -> list[OutputItem]:
        """The items of a view. Kept ones between two other kept ones are copied at once: none of them is joined."""
        found: list[OutputItem] = []
        begin = 0  # of what is not written yet
        for start, end in _find_kept_runs(shown):
            first, last = shown[start + 1].unit, shown[end - 2].unit
            assert first is not None
            assert last is not None
            found += self._write_units(items, shown[begin : start + 1])
            place = first.items[0]
            found.append(OutputItem("", items.copy_run(place, last.items[-1]), place))
            begin = end - 1
        return found + self._write_units(items, shown[begin:])

    def _write_units(self, items: ItemTexts, shown: Sequence[ShownUnit]) -> list[OutputItem]:
        return [item for each in shown for item in self._write_unit(items, each)]

    def _join_adjacent(self, items: list[OutputItem]) -> list[OutputItem]:
        """Join items of one side that an edit brought together: some servers want the sides to alternate."""
        found: list[OutputItem] = []
        for item in self._move_system_items(items):
            last = found[-1] if found else None
            by_us = last is not None and not (last.place >= 0 and item.place == last.place + 1)
            if last is not None and last.role == item.role and item.role in ("user", self.assistant_role) and by_us:
                found += self._join(found.pop(), item)
            else:
                found.append(item)
        return found

    def _move_system_items(self, items: list[OutputItem]) -> list[OutputItem]:
        """The items in an order that the dialect accepts. OpenAI's takes system messages anywhere."""
        return items

    def _join(self, first: OutputItem, second: OutputItem) -> list[OutputItem]:
        """Both items as one. An answer with calls or with other fields than its text stays as it is."""
        if first.role != "user" and "tool_calls" in find_members(first.text):
            return [first, second]
        contents = [_read_content(each.text) for each in (first, second)]
        if all(isinstance(content, str | None) for content in contents):
            value = _encode("\n\n".join(content for content in contents if isinstance(content, str) and content))
        else:
            value = b"[" + b",".join([*self._blocks_of(first.text), *self._blocks_of(second.text)]) + b"]"
        text = replace_value(second.text, (self.blocks_key,), value)
        return [OutputItem(second.role, text, second.place)]

    def _blocks_of(self, text: bytes) -> list[bytes]:
        said = _read_content(text, self.blocks_key)
        if isinstance(said, list):
            return _list_blocks(text, self.blocks_key)
        return [self.encode_text_block(said)] if isinstance(said, str) and said else []

    def _write_unit(self, items: ItemTexts, shown: ShownUnit) -> Iterator[OutputItem]:
        unit, message = shown.unit, shown.message
        if unit is None:
            if message is not None:
                yield self._insert(message)
        elif message is None:
            yield from (OutputItem(unit.message.role, items[place], place) for place in unit.items)
        else:
            yield from self._rewrite(items, unit, message)

    def _insert(self, message: Message) -> OutputItem:
        result = result_of(message)
        if result is not None:
            return OutputItem("tool", self.encode_result_item(result))
        role = "assistant" if message.role == "assistant" else "user"
        return OutputItem(role, self.encode_item(role, [Text(text_of(message))]))

    def _rewrite(self, items: ItemTexts, unit: HostUnit, message: Message) -> Iterator[OutputItem]:
        place = unit.items[0]
        text = items[place]
        result = result_of(message)
        if result is not None:
            yield OutputItem("tool", self._rewrite_result(text, result, unit), place)
        elif message.role == "assistant":
            yield from self._rewrite_answer(items, unit, message)
        else:
            yield OutputItem(message.role, self._rewrite_content(text, unit.message.parts, message.parts), place)

    def _rewrite_result(self, text: bytes, result: Result, unit: HostUnit) -> bytes:
        old = result_of(unit.message)
        return replace_value(text, ("content",), self._encode_result_content(text, "content", result, old))

    def _encode_result_content(self, text: bytes, key: str, result: Result, old: Result | None) -> bytes:
        """The new content of a result: a text, or a list if it still has images and other content of the client."""
        kept = [part for part in result.parts if isinstance(part, Image)]
        if not kept or old is None:
            return _encode(join_result_text(result))
        blocks = self._match_blocks(_list_blocks(text, key), old.parts, result.parts)
        return b"[" + b",".join(blocks) + b"]"

    def _rewrite_content(self, text: bytes, old: Sequence[Part], new: Sequence[Part]) -> bytes:
        member = find_members(text).get("content")
        if member is None:
            return text
        content = text[member.value : member.end]
        if content[:1] != b"[":
            value = _encode("\n\n".join(part.text for part in new if isinstance(part, Text)))
        else:
            blocks = [content[element.start : element.end] for element in find_elements(content)]
            value = rebuild_array(content, self._match_blocks(blocks, old, new))
        return text[: member.value] + value + text[member.end :]

    def _match_blocks(self, blocks: Sequence[bytes], old: Sequence[Part], new: Sequence[Part]) -> list[bytes]:
        """The blocks for these parts: the client's own where a part is unchanged, else one with the new text."""
        unused = list(range(min(len(blocks), len(old))))
        found: list[bytes] = []
        for part in new:
            place = next((place for place in unused if old[place] == part), None)
            if place is not None:
                unused.remove(place)
                found.append(blocks[place])
            elif isinstance(part, Text):
                place = next((place for place in unused if isinstance(old[place], Text)), None)
                if place is None:
                    found.append(self.encode_text_block(part.text))
                else:  # the block goes on with another text, and keeps its marks
                    unused.remove(place)
                    found.append(replace_value(blocks[place], ("text",), _encode(part.text)))
        return found

    def _rewrite_answer(self, items: ItemTexts, unit: HostUnit, message: Message) -> Iterator[OutputItem]:
        """An answer in OpenAI's chat: text, calls and reasoning are fields of one message."""
        place = unit.items[0]
        text = items[place]
        calls = {part.id: part for part in message.parts if isinstance(part, Call)}
        old_calls = [part for part in unit.message.parts if isinstance(part, Call)]
        members = find_members(text)
        if any(call != calls.get(call.id) for call in old_calls) and "tool_calls" in members:
            listed = text[members["tool_calls"].value : members["tool_calls"].end]
            elements = [listed[element.start : element.end] for element in find_elements(listed)]
            new = [self._rewrite_call(*each, calls) for each in zip(elements, old_calls, strict=True)]
            text = replace_value(text, ("tool_calls",), rebuild_array(listed, new))
        said = [part.text for part in message.parts if isinstance(part, Text)]
        if said != [part.text for part in unit.message.parts if isinstance(part, Text)]:
            text = replace_value(text, ("content",), _encode("\n\n".join(said) if said else None if calls else "(…)"))
        if not any(isinstance(part, Thinking) for part in message.parts):
            text = remove_member(remove_member(text, "reasoning_content"), "reasoning")
        yield OutputItem("assistant", text, place)

    def _rewrite_call(self, text: bytes, old: Call, calls: Mapping[str, Call]) -> bytes:
        new = calls.get(old.id, old)
        if new.arguments == old.arguments:
            return text
        if "custom" in find_members(text):
            return replace_value(text, ("custom", "input"), _encode(_custom_input(new)))
        return replace_value(text, ("function", "arguments"), _encode(new.arguments))


def _custom_input(call: Call) -> str:
    """The text of a custom tool's call, which the engine keeps as a JSON object."""
    given = decode_object(call.arguments).get("input")
    return given if isinstance(given, str) else call.arguments


def _list_blocks(text: bytes, key: str) -> list[bytes]:
    member = find_members(text).get(key)
    content = text[member.value : member.end] if member else b""
    return [content[each.start : each.end] for each in find_elements(content)] if content[:1] == b"[" else []


class _ResponsesForm(_Form):
    """OpenAI's Responses: each part of an answer is an item."""

    key = "input"
    text_type = "input_text"

    def write(self, items: ItemTexts, shown: Sequence[ShownUnit], first: int) -> list[OutputItem]:
        return self._write_view(items, shown)  # in any order of sides

    def encode_item(self, role: str, parts: Sequence[Text]) -> bytes:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": part.text} for part in parts]
        return _encode({"type": "message", "role": role, "content": content})

    def encode_result_item(self, result: Result) -> bytes:
        output = join_result_text(result)
        return _encode({"type": "function_call_output", "call_id": result.call_id, "output": output})

    def _rewrite_result(self, text: bytes, result: Result, unit: HostUnit) -> bytes:
        old = result_of(unit.message)
        return replace_value(text, ("output",), self._encode_result_content(text, "output", result, old))

    def _rewrite_answer(self, items: ItemTexts, unit: HostUnit, message: Message) -> Iterator[OutputItem]:
        """Items are kept or left out by their parts. If reasoning is left out, the others lose the ids bound to it."""
        calls = {part.id: part for part in message.parts if isinstance(part, Call)}
        said = [part for part in message.parts if isinstance(part, Text)]
        old = list(zip(unit.message.parts, unit.origins, strict=False))
        loses_reasoning = False
        for place in unit.items:
            parts = [part for part, origin in old if origin.item == place]
            text = items[place]
            first = parts[0] if parts else None
            if isinstance(first, Thinking) and first not in message.parts:
                loses_reasoning = True
                continue
            if isinstance(first, Call):
                text = self._rewrite_call(text, first, calls)
            elif any(isinstance(part, Text) for part in parts) and not all(part in message.parts for part in parts):
                if not said:
                    continue
                text = replace_value(text, ("content",), _encode([_output_text(said)]))
                said = []
            yield OutputItem("assistant", remove_member(text, "id") if loses_reasoning else text, place)

    def _rewrite_call(self, text: bytes, old: Call, calls: Mapping[str, Call]) -> bytes:
        new = calls.get(old.id, old)
        members = find_members(text)
        if new.arguments == old.arguments:
            return text
        if "arguments" in members:
            return replace_value(text, ("arguments",), _encode(new.arguments))
        return replace_value(text, ("input",), _encode(_custom_input(new))) if "input" in members else text


def _output_text(said: Sequence[Text]) -> dict[str, object]:
    return {"type": "output_text", "text": "\n\n".join(part.text for part in said), "annotations": []}


class _BlockForm(_Form):
    """Anthropic and Gemini: an item has a list of blocks, and the results of a turn are blocks of one user item."""

    def __init__(self, rules: BlockRules) -> None:
        self._rules = rules
        self.key, self.blocks_key, self.assistant_role = rules.key, rules.blocks_key, rules.assistant_role

    def _move_system_items(self, items: list[OutputItem]) -> list[OutputItem]:
        """A system message is the last item of the user's turn. One that an edit brought into it is moved behind it."""
        found, held = list[OutputItem](), list[OutputItem]()
        for item in items:
            is_between = item.role == "system" and bool(found) and found[-1].role == "user"
            if is_between:
                held.append(item)
                continue
            if item.role != "user" or (held and item.place == held[-1].place + 1):
                found += held
                held = []
            found.append(item)
        return found + held

    def encode_text_block(self, text: str) -> bytes:
        return self._rules.encode_text(text)

    def encode_item(self, role: str, parts: Sequence[Text]) -> bytes:
        written = self.assistant_role if role == "assistant" else role
        return self._encode_blocks(written, [self.encode_text_block(part.text) for part in parts])

    def _encode_blocks(self, role: str, blocks: Sequence[bytes]) -> bytes:
        return b'{"role":"%s","%s":[%s]}' % (role.encode(), self.blocks_key.encode(), b",".join(blocks))

    def _write_units(self, items: ItemTexts, shown: Sequence[ShownUnit]) -> list[OutputItem]:
        found: list[OutputItem] = []
        caller: HostUnit | None = None
        for place, group in groupby(shown, lambda each: each.unit.items[0] if each.unit else -1):
            units = list(group)
            if place < 0:
                found += [self._insert_after(each.message, caller, items) for each in units if each.message is not None]
                continue
            caller = next((each.unit for each in units if each.unit and calls_of(each.unit.message)), caller)
            if item := self._write_item(items[place], place, units):
                found.append(item)
        return found

    def _insert_after(self, message: Message, caller: HostUnit | None, items: ItemTexts) -> OutputItem:
        """A message of the engine. A result of one names the call as the client does, whose last calls are given."""
        result = result_of(message)
        if result is None:
            item = self._insert(message)
            return item._replace(role=self.assistant_role if item.role == "assistant" else item.role)
        block = self._find_call_block(result.call_id, caller, items) if caller is not None else {}
        return OutputItem("user", self._encode_blocks("user", [self._rules.encode_result(result, block)]))

    def _find_call_block(self, call_id: str, caller: HostUnit, items: ItemTexts) -> JsonObject:
        for part, origin in zip(caller.message.parts, caller.origins, strict=False):
            if isinstance(part, Call) and part.id == call_id and origin.block >= 0:
                return decode_object(_list_blocks(items[origin.item], self.blocks_key)[origin.block].decode())
        return {}

    def _write_item(self, text: bytes, place: int, shown: list[ShownUnit]) -> OutputItem | None:
        role = _role_of(text)
        member = find_members(text).get(self.blocks_key) if text.startswith(b"{") else None
        content = text[member.value : member.end] if member else b""
        if member is None or content[:1] != b"[":
            new = shown[0].message
            if new is not None and member is not None:
                value = _encode("\n\n".join(part.text for part in new.parts if isinstance(part, Text)))
                text = text[: member.value] + value + text[member.end :]
            return OutputItem(role, text, place)
        blocks = [content[element.start : element.end] for element in find_elements(content)]
        written = [block for each in shown for block in self._write_blocks(blocks, each)]
        if not written:
            return None if blocks else OutputItem(role, text, place)
        if written != blocks:
            written = keep_marks(blocks, written)
            text = text[: member.value] + rebuild_array(content, written) + text[member.end :]
        return OutputItem(role, text, place)

    def _write_blocks(self, blocks: list[bytes], shown: ShownUnit) -> list[bytes]:
        unit, message = shown.unit, shown.message
        if unit is None:
            return []
        own = [(part, origin.block) for part, origin in zip(unit.message.parts, unit.origins, strict=False)]
        if message is None or not own:
            kept = [blocks[block] for part, block in own if shown.signed or not self.is_bound(part)]
            return kept if own else blocks
        if unit.message.role == "tool":
            result = result_of(message)
            return [self.rewrite_result_block(blocks[own[0][1]], result, unit)] if result else []
        raw = [blocks[block] for _, block in own]
        return self._match_blocks(raw, unit.message.parts, self._sendable(message.parts, shown.signed))

    def _sendable(self, parts: Sequence[Part], signed: bool) -> list[Part]:
        return [part for part in parts if signed or not self.is_bound(part)]

    def is_bound(self, part: Part) -> bool:
        """Whether the provider refuses this part after a prefix that was changed."""
        kind = decode_object(part.block).get("type") if isinstance(part, Thinking) and part.block else None
        return kind in self._rules.bound_types

    def rewrite_result_block(self, block: bytes, result: Result, unit: HostUnit) -> bytes:
        if not self._rules.wrapped_result_paths:
            old = result_of(unit.message)
            return replace_value(block, ("content",), self._encode_result_content(block, "content", result, old))
        for path in self._rules.wrapped_result_paths:
            block = replace_value(block, path, _encode(wrap_result(result)))
        return block

    def _match_blocks(self, blocks: Sequence[bytes], old: Sequence[Part], new: Sequence[Part]) -> list[bytes]:
        calls = [(part.id, block) for part, block in zip(old, blocks, strict=False) if isinstance(part, Call)]
        changed = [part for part in new if isinstance(part, Call) and part not in old]
        if not changed:
            return super()._match_blocks(blocks, old, new)
        found: list[bytes] = []
        for part in new:
            if part in changed and isinstance(part, Call):
                block = next(block for ident, block in calls if ident == part.id)
                calls.remove((part.id, block))
                found.append(self.rewrite_call_block(block, part))
            else:
                found += super()._match_blocks(blocks, old, [part])
        return found

    def rewrite_call_block(self, block: bytes, call: Call) -> bytes:
        for path in self._rules.call_paths:
            block = replace_value(block, path, call.arguments.encode())
        return block

    def _join(self, first: OutputItem, second: OutputItem) -> list[OutputItem]:
        blocks = [*self._blocks_of(first.text), *self._blocks_of(second.text)]
        blocks.sort(key=lambda block: not self.is_result_block(block))  # results come first
        text = b"[" + b",".join(blocks) + b"]"
        return [OutputItem(first.role, replace_value(first.text, (self.blocks_key,), text), second.place)]

    def is_result_block(self, block: bytes) -> bool:
        return self._rules.is_result(decode_object(block.decode()))


def _read_content(text: bytes, key: str = "content") -> object:
    return decode_object(text.decode("utf-8", "replace")).get(key)


def _role_of(item: bytes) -> str:
    try:
        return msgspec.json.decode(item, type=_Roled).role
    except (msgspec.MsgspecError, UnicodeError):
        return ""


class _Roled(msgspec.Struct):
    role: str = "user"


_FORMS: Mapping[str, _Form] = MappingProxyType(
    {
        "anthropic": _BlockForm(ANTHROPIC_BLOCKS),
        "openai_chat": _Form(),
        "openai_responses": _ResponsesForm(),
        "gemini": _BlockForm(GEMINI_BLOCKS),
    }
)
