"""A client's request with the edits of a view, and with hidden exchanges, spliced into its own bytes.

What the view keeps is copied from the client's body, byte for byte. A replacement changes only the value that is
replaced: the text of a block, the content of a result, the arguments of a call. All other fields of a block stay, and
so do its marks for the provider's cache.

Hidden exchanges are calls of a tool that the client does not declare, and their results. The client's list lacks them.
They are put back at their places, so that the provider gets every answer as it gave it:

    client:   answer(text 1, text 2, call)
    sent:     answer(text 1, hidden call)   result   answer(text 2, call)
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidegate.core.messages import (
    Image,
    Message,
    Part,
    Result,
    Text,
    compacts_history,
    read_out_compaction,
    result_of,
    text_of,
)
from tidegate.wire.parsing import decode_object
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.rendering.layout import FIRST_USER_FILLER, NO_OUTPUT_TEXT
from tidegate.wire.splicing.hidden_answers import HiddenAnswer, HiddenResult
from tidegate.wire.splicing.memo import WriteMemo
from tidegate.wire.splicing.request_text import ItemSpans, ItemTexts, OutputItem, find_items, join_items, join_list
from tidegate.wire.splicing.spans import find_elements, find_members, rebuild_array, replace_value
from tidegate.wire.splicing.units import HostRequest, HostUnit, ShownUnit, move_to_first_place, show_unit

_encode = msgspec.json.encode


def join_result_text(result: Result) -> str:
    """The texts of a result as one; never empty, because some providers refuse that."""
    return "\n".join(part.text for part in result.parts if isinstance(part, Text)) or NO_OUTPUT_TEXT


def _find_kept_runs(view: Sequence[ShownUnit]) -> Iterator[tuple[int, int]]:
    """Where at least three adjacent items of the client, each a unit of its own, are kept: start and end.

    A system message is in no run: an item of the user before it may be joined with one after it.
    """
    start, following = 0, -1
    for number, each in enumerate(view):
        place = -1 if each.unit is not None and each.unit.message.role == "system" else each.kept_place
        if place < 0 or place != following:
            if number - start > 2 and following >= 0:
                yield start, number
            start = number
        following = place + 1 if place >= 0 else -1
    if len(view) - start > 2 and following >= 0:
        yield start, len(view)


def _find_cut(view: Sequence[ShownUnit]) -> int:
    """The last kept answer that is not joined with what is before it; 0 if nothing before it is edited.

    What is before it is written without a look at what follows: an answer ends the place to which system messages are
    moved, and it is only joined with another answer. Two kept items are never joined.
    """
    first_edit = next((place for place, each in enumerate(view) if each.kept_place < 0), len(view))
    return next(
        (place for place in range(len(view) - 1, first_edit, -1) if _begins_anew(*view[place - 1 : place + 1])), 0
    )


def _begins_anew(before: ShownUnit, answer: ShownUnit) -> bool:
    """Whether this is a kept answer, and `before` is the client's item before it, or a message of the engine's user."""
    if answer.kept_place < 0 or answer.unit is None or answer.unit.message.role != "assistant":
        return False
    if before.unit is None:
        return before.message is not None and before.message.role == "user"
    return before.kept_place >= 0 and before.kept_place == answer.kept_place - 1


class MessageForm:
    """How a dialect writes a list of messages. Here: each unit is one or more whole items of the list.

    `blocks_key` is the key of an item's contents. `text_type` is the type of a block of text. Where `joins_user_text`,
    a text of the user that follows an item of the user goes into it.
    """

    key = "messages"
    blocks_key = "content"
    assistant_role = "assistant"
    text_type = "text"
    joins_user_text = True

    # --- what differs ---------------------------------------------------------------------------------------------

    def encode_item(self, role: str, parts: Sequence[Text]) -> bytes:
        """A message of texts."""
        raise NotImplementedError

    def encode_result_item(self, call_id: str, text: str) -> bytes:
        """The result of a call."""
        raise NotImplementedError

    def rewrite_result(self, text: bytes, result: Result, unit: HostUnit) -> bytes:
        """An item of the client with another result."""
        raise NotImplementedError

    def rewrite_answer(self, items: ItemTexts, unit: HostUnit, message: Message) -> Iterator[OutputItem]:
        """The items of an answer with other contents."""
        raise NotImplementedError

    def join_items(self, run: Sequence[OutputItem]) -> list[OutputItem]:
        """Adjacent items of one side as one, as far as that is possible. There are at least two."""
        raise NotImplementedError

    def expand_answer(self, items: list[list[bytes]], unit: HostUnit, answers: Sequence[HiddenAnswer]) -> None:
        """Put the answers of the provider in place of the one that the client has."""
        raise NotImplementedError

    # --- the view -------------------------------------------------------------------------------------------------

    def write_messages(
        self,
        body: bytes,
        view: Sequence[ShownUnit],
        fixed_items: int = 0,
        items: ItemSpans | None = None,
        memo: WriteMemo | None = None,
    ) -> bytes:
        """The body with its list of messages as the view shows them. `fixed_items` of them stay at the front.

        `items` says where the items are in the body, if that is known already (`RequestText.list_items`). `memo` is
        what was written for the last request of the conversation.
        """
        member = find_members(body)[self.key] if not items else None
        if member is not None and body[member.value : member.value + 1] != b"[":  # a single text in place of a list
            text = msgspec.json.decode(body[member.value : member.end], type=str)
            body = body[: member.value] + b"[" + self.encode_item("user", [Text(text)]) + b"]" + body[member.end :]
            view = [show_unit(move_to_first_place(each.unit), each.message, each.signed) for each in view]
        items = items or find_items(body, self.key)
        if member is not None and not items:
            output = self.write(ItemTexts(body, items), view, 0)
            return body[: member.value] + b"[" + b",".join(item.text for item in output) + b"]" + body[member.end :]
        return join_items(body, items, self._write_list(body, items, view, fixed_items, memo or WriteMemo()))

    def _write_list(
        self, body: bytes, items: ItemSpans, view: Sequence[ShownUnit], fixed_items: int, memo: WriteMemo
    ) -> list[OutputItem]:
        """The items to send. What was written before is one of them."""
        texts = ItemTexts(body, items)
        start_of_view = memo.find(body, items, view)
        if start_of_view is None:
            start, first = 0, fixed_items
            output = [OutputItem("", texts[place], place) for place in range(fixed_items)]
        else:
            start, first = len(start_of_view.units), start_of_view.place
            output = [OutputItem("", start_of_view.text, 0)]
        cut = _find_cut(view[start:]) + start
        if cut > start:
            output += self.write(texts, view[start:cut], first)
            start, first = cut, view[cut].kept_place
            memo.keep(body, items, view[:cut], first, join_list(body, items, output))
        return output + self.write(texts, view[start:], first)

    def encode_text_block(self, text: str) -> bytes:
        return _encode({"type": self.text_type, "text": text})

    def write(self, items: ItemTexts, view: Sequence[ShownUnit], first: int) -> list[OutputItem]:
        output = self.write_view(items, view)
        is_start = bool(view) and begins_with_block(view[0])
        if output and output[0].role == self.assistant_role and output[0].place != first and not is_start:
            output.insert(0, OutputItem("user", self.encode_item("user", [Text(FIRST_USER_FILLER)])))
        return self._join_adjacent(output)

    def write_view(self, items: ItemTexts, view: Sequence[ShownUnit]) -> list[OutputItem]:
        """The items of a view. Kept ones between two other kept ones are copied at once: none of them is joined."""
        output: list[OutputItem] = []
        begin = 0  # of what is not written yet
        for start, end in _find_kept_runs(view):
            first, last = view[start + 1].unit, view[end - 2].unit
            assert first is not None
            assert last is not None
            output += self.write_units(items, view[begin : start + 1])
            place = first.items[0]
            output.append(OutputItem("", items.copy_run(place, last.items[-1]), place))
            begin = end - 1
        return output + self.write_units(items, view[begin:])

    def write_units(self, items: ItemTexts, view: Sequence[ShownUnit]) -> list[OutputItem]:
        return [item for each in view for item in self._write_unit(items, each)]

    def _join_adjacent(self, items: list[OutputItem]) -> list[OutputItem]:
        """Join items of one side that an edit brought together: some servers want the sides to alternate."""
        runs: list[list[OutputItem]] = []
        for item in self.move_system_items(items):
            last = runs[-1][-1] if runs else None
            by_us = last is not None and not (last.place >= 0 and item.place == last.place + 1)
            if last is not None and last.role == item.role and item.role in ("user", self.assistant_role) and by_us:
                runs[-1].append(item)
            else:
                runs.append([item])
        return [item for run in runs for item in (self.join_items(run) if len(run) > 1 else run)]

    def move_system_items(self, items: list[OutputItem]) -> list[OutputItem]:
        """The items in an order that the dialect accepts. OpenAI's takes system messages anywhere."""
        return items

    def blocks_of(self, text: bytes) -> list[bytes]:
        content = read_content(text, self.blocks_key)
        if isinstance(content, list):
            return list_blocks(text, self.blocks_key)
        return [self.encode_text_block(content)] if isinstance(content, str) and content else []

    def _write_unit(self, items: ItemTexts, entry: ShownUnit) -> Iterator[OutputItem]:
        unit, message = entry.unit, entry.message
        if unit is None:
            if message is not None:
                yield self.insert_message(message)
        elif message is None:
            yield from (OutputItem(unit.message.role, items[place], place) for place in unit.items)
        else:
            yield from self._rewrite(items, unit, message)

    def insert_message(self, message: Message) -> OutputItem:
        """A message of the engine. Of a compaction by another provider, what it says."""
        result = result_of(message)
        if result is not None:
            return OutputItem("tool", self.encode_result_item(result.call_id, join_result_text(result)))
        role = "assistant" if message.role == "assistant" else "user"
        return OutputItem(role, self.encode_item(role, [Text(text_of(read_out_compaction(message)))]))

    def _rewrite(self, items: ItemTexts, unit: HostUnit, message: Message) -> Iterator[OutputItem]:
        place = unit.items[0]
        text = items[place]
        result = result_of(message)
        if result is not None:
            yield OutputItem("tool", self.rewrite_result(text, result, unit), place)
        elif message.role == "assistant":
            yield from self.rewrite_answer(items, unit, message)
        else:
            yield OutputItem(message.role, self._rewrite_content(text, unit.message.parts, message.parts), place)

    def encode_result_content(self, text: bytes, key: str, result: Result, old: Result | None) -> bytes:
        """The new content of a result: a text, or a list if it still has images and other content of the client."""
        images = [part for part in result.parts if isinstance(part, Image)]
        if not images or old is None:
            return _encode(join_result_text(result))
        blocks = self.match_blocks(list_blocks(text, key), old.parts, result.parts)
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
            value = rebuild_array(content, self.match_blocks(blocks, old, new))
        return text[: member.value] + value + text[member.end :]

    def match_blocks(self, blocks: Sequence[bytes], old: Sequence[Part], new: Sequence[Part]) -> list[bytes]:
        """The blocks for these parts: the client's own where a part is unchanged, else one with the new text."""
        unused = list(range(min(len(blocks), len(old))))
        output: list[bytes] = []
        for part in new:
            place = next((place for place in unused if old[place] == part), None)
            if place is not None:
                unused.remove(place)
                output.append(blocks[place])
            elif isinstance(part, Text):
                place = next((place for place in unused if isinstance(old[place], Text)), None)
                if place is None:
                    output.append(self.encode_text_block(part.text))
                else:  # the block goes on with another text, and keeps its marks
                    unused.remove(place)
                    output.append(replace_value(blocks[place], ("text",), _encode(part.text)))
        return output

    # --- hidden exchanges -----------------------------------------------------------------------------------------

    def append_exchange(self, text: bytes, messages: Sequence[JsonObject], results: Sequence[HiddenResult]) -> bytes:
        """The request continued by an answer of the provider and the results of its hidden calls."""
        member = find_members(text)[self.key]
        listed = text[member.value : member.end]
        if listed[:1] != b"[":  # a single text in place of a list
            listed = b"[" + _encode({"role": "user", "content": msgspec.Raw(listed)}) + b"]"
        items = [listed[each.start : each.end] for each in find_elements(listed)]
        new = rebuild_array(listed, [*items, *self.encode_answer(messages), *self.encode_results(results)])
        return text[: member.value] + new + text[member.end :]

    def insert_exchanges(
        self,
        text: bytes,
        host: HostRequest,
        answers: Mapping[int, Sequence[HiddenAnswer]],
        results: Mapping[int, Sequence[HiddenResult]],
    ) -> bytes:
        """The request with hidden exchanges put back, by the place of a unit of the client.

        `answers` stand for the answer at a place; `results` come before the unit at a place.
        """
        member = find_members(text)[self.key]
        listed = text[member.value : member.end]
        items = [[listed[each.start : each.end]] for each in find_elements(listed)]
        for place in sorted(answers.keys() | results.keys(), reverse=True):  # from the end: earlier places stay valid
            unit = host.units[place]
            if place in answers:
                self.expand_answer(items, unit, answers[place])
            else:
                self.insert_results(items, unit, results[place])
        new = rebuild_array(listed, [item for group in items for item in group])
        return text[: member.value] + new + text[member.end :]

    def encode_answer(self, messages: Sequence[JsonObject]) -> list[bytes]:
        """The items of an answer as the provider gave it."""
        return [_encode(each) for each in messages]

    def encode_results(self, results: Sequence[HiddenResult]) -> list[bytes]:
        """The items with the results of hidden calls."""
        return [self.encode_result_item(each.call_id, each.text) for each in results]

    def insert_results(self, items: list[list[bytes]], unit: HostUnit, results: Sequence[HiddenResult]) -> None:
        """Put the results before a unit of the client."""
        items[unit.items[0]][0:0] = self.encode_results(results)


def begins_with_block(entry: ShownUnit) -> bool:
    """Whether a unit is a compaction by the provider, which may come first."""
    if entry.unit is not None:
        return compacts_history(entry.unit.message)
    return entry.signed and entry.message is not None and compacts_history(entry.message)


def list_blocks(text: bytes, key: str) -> list[bytes]:
    member = find_members(text).get(key)
    content = text[member.value : member.end] if member else b""
    return [content[each.start : each.end] for each in find_elements(content)] if content[:1] == b"[" else []


def read_content(text: bytes, key: str = "content") -> object:
    return decode_object(text.decode("utf-8", "replace")).get(key)
