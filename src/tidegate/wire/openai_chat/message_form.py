"""How OpenAI chat writes messages, calls and results into a client's request: each is one item of the list."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec

from tidegate.core.messages import Call, Message, Result, Text, Thinking, Tool, result_of
from tidegate.wire.parsing import decode_object
from tidegate.wire.splicing.call_form import CallForm
from tidegate.wire.splicing.hidden_answers import HiddenAnswer
from tidegate.wire.splicing.message_form import MessageForm, read_content
from tidegate.wire.splicing.request_text import ItemTexts, OutputItem
from tidegate.wire.splicing.spans import find_elements, find_members, rebuild_array, remove_member, replace_value
from tidegate.wire.splicing.units import HostUnit

_encode = msgspec.json.encode


class ChatForm(MessageForm):
    """An answer is one item: text, calls and reasoning are fields of it."""

    def encode_item(self, role: str, parts: Sequence[Text]) -> bytes:
        return _encode({"role": role, "content": "\n\n".join(part.text for part in parts)})

    def encode_result_item(self, call_id: str, text: str) -> bytes:
        return _encode({"role": "tool", "tool_call_id": call_id, "content": text})

    def rewrite_result(self, text: bytes, result: Result, unit: HostUnit) -> bytes:
        old = result_of(unit.message)
        return replace_value(text, ("content",), self.encode_result_content(text, "content", result, old))

    def join_items(self, run: Sequence[OutputItem]) -> list[OutputItem]:
        """The items as one. Nothing is joined to an answer with calls."""
        groups: list[list[OutputItem]] = [[]]
        for item in run:
            groups[-1].append(item)
            if item is not run[-1] and item.role != "user" and "tool_calls" in find_members(item.text):
                groups.append([])
        return [self._join_contents(items) if len(items) > 1 else items[0] for items in groups]

    def _join_contents(self, items: Sequence[OutputItem]) -> OutputItem:
        """The last item with the contents of all: a text, or a list if one of them is a list."""
        contents = [read_content(each.text) for each in items]
        start = list(takewhile(lambda content: isinstance(content, str | None), contents))
        text = "\n\n".join(content for content in start if isinstance(content, str) and content)
        if len(start) == len(items):
            value = _encode(text)
        else:
            blocks = [block for each in items[len(start) :] for block in self.blocks_of(each.text)]
            value = b"[" + b",".join([*([self.encode_text_block(text)] if text else []), *blocks]) + b"]"
        last = items[-1]
        return last._replace(text=replace_value(last.text, (self.blocks_key,), value))

    def rewrite_answer(self, items: ItemTexts, unit: HostUnit, message: Message) -> Iterator[OutputItem]:
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
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        if texts != [part.text for part in unit.message.parts if isinstance(part, Text)]:
            text = replace_value(text, ("content",), _encode("\n\n".join(texts) if texts else None if calls else "(…)"))
        if not any(isinstance(part, Thinking) for part in message.parts):
            text = remove_member(remove_member(text, "reasoning_content"), "reasoning")
        yield OutputItem("assistant", text, place)

    def _rewrite_call(self, text: bytes, old: Call, calls: Mapping[str, Call]) -> bytes:
        new = calls.get(old.id, old)
        if new.arguments == old.arguments:
            return text
        if "custom" in find_members(text):
            return replace_value(text, ("custom", "input"), _encode(read_custom_input(new)))
        return replace_value(text, ("function", "arguments"), _encode(new.arguments))

    def expand_answer(self, items: list[list[bytes]], unit: HostUnit, answers: Sequence[HiddenAnswer]) -> None:
        group = items[unit.items[0]]
        item = group[-1]
        content = decode_object(item.decode("utf-8", "replace")).get("content")
        new: list[bytes] = []
        for answer in answers[:-1]:
            text = "".join(part.text for part in answer.message.parts if isinstance(part, Text))
            splits = isinstance(content, str) and content.startswith(text)
            if splits and isinstance(content, str):
                content = content[len(text) :]
            calls = [msgspec.Raw(bytes(call.raw)) for call in answer.calls]
            new.append(
                _encode({"role": "assistant", "content": text if splits and text else None, "tool_calls": calls})
            )
            new += self.encode_results(answer.results)
        if isinstance(content, str) and len(answers) > 1:
            item = replace_value(item, ("content",), _encode(content or None))
        if answers[-1].calls:
            item = self._insert_calls(item, answers[-1])
        if content or "tool_calls" in find_members(item):
            new.append(item)
        group[-1:] = new

    def _insert_calls(self, item: bytes, answer: HiddenAnswer) -> bytes:
        member = find_members(item)["tool_calls"]
        listed = item[member.value : member.end]
        own = [listed[each.start : each.end] for each in find_elements(listed)]
        raw_calls = {call.id: bytes(call.raw) for call in answer.calls}
        calls = [part for part in answer.message.parts if isinstance(part, Call)]
        new = [
            raw_calls[call.id] if call.id in raw_calls else own.pop(0) for call in calls if call.id in raw_calls or own
        ]
        return item[: member.value] + rebuild_array(listed, [*new, *own]) + item[member.end :]


def read_custom_input(call: Call) -> str:
    """The text of a custom tool's call, which the engine keeps as a JSON object."""
    raw_input = decode_object(call.arguments).get("input")
    return raw_input if isinstance(raw_input, str) else call.arguments


def _encode_tool(tool: Tool, schema: msgspec.Raw) -> bytes:
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return _encode({"type": "function", "function": function})


CHAT_CALLS = CallForm(
    _encode_tool, calls_key="tool_calls", holder="function", arguments_key="arguments", arguments_are_text=True
)
