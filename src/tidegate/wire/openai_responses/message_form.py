"""How OpenAI Responses writes messages, calls and results into a client's request."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidegate.core.messages import Call, Message, Result, Text, Thinking, Tool, result_of
from tidegate.wire.openai_chat.message_form import read_custom_input
from tidegate.wire.parsing import decode_object
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.call_form import CallForm
from tidegate.wire.splicing.hidden_answers import HiddenAnswer, PlacedPart, arrange_parts
from tidegate.wire.splicing.message_form import MessageForm
from tidegate.wire.splicing.request_text import ItemTexts, OutputItem
from tidegate.wire.splicing.spans import find_members, remove_member, replace_value
from tidegate.wire.splicing.units import HostUnit, ShownUnit

_encode = msgspec.json.encode


class ResponsesForm(MessageForm):
    """An answer is several items. One with a server's id needs the reasoning that it was made with."""

    key = "input"
    text_type = "input_text"
    joins_user_text = False

    def write(self, items: ItemTexts, view: Sequence[ShownUnit], first: int) -> list[OutputItem]:
        return self.write_view(items, view)  # in any order of sides

    def encode_item(self, role: str, parts: Sequence[Text]) -> bytes:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": part.text} for part in parts]
        return _encode({"type": "message", "role": role, "content": content})

    def encode_result_item(self, call_id: str, text: str) -> bytes:
        return _encode({"type": "function_call_output", "call_id": call_id, "output": text})

    def rewrite_result(self, text: bytes, result: Result, unit: HostUnit) -> bytes:
        old = result_of(unit.message)
        return replace_value(text, ("output",), self.encode_result_content(text, "output", result, old))

    def rewrite_answer(self, items: ItemTexts, unit: HostUnit, message: Message) -> Iterator[OutputItem]:
        """Items are kept or left out by their parts. If reasoning is left out, the others lose the ids bound to it."""
        calls = {part.id: part for part in message.parts if isinstance(part, Call)}
        texts = [part for part in message.parts if isinstance(part, Text)]
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
                if not texts:
                    continue
                text = replace_value(text, ("content",), _encode([_output_text(texts)]))
                texts = []
            yield OutputItem("assistant", remove_member(text, "id") if loses_reasoning else text, place)

    def _rewrite_call(self, text: bytes, old: Call, calls: Mapping[str, Call]) -> bytes:
        new = calls.get(old.id, old)
        members = find_members(text)
        if new.arguments == old.arguments:
            return text
        if "arguments" in members:
            return replace_value(text, ("arguments",), _encode(new.arguments))
        return replace_value(text, ("input",), _encode(read_custom_input(new))) if "input" in members else text

    def encode_answer(self, messages: Sequence[JsonObject]) -> list[bytes]:
        if any(each.get("type") == "reasoning" for each in messages):
            return [_encode(each) for each in messages]
        return [_encode({key: value for key, value in each.items() if key != "id"}) for each in messages]

    def expand_answer(self, items: list[list[bytes]], unit: HostUnit, answers: Sequence[HiddenAnswer]) -> None:
        places = unit.items
        parts = {
            origin.item: part for part, origin in reversed(list(zip(unit.message.parts, unit.origins, strict=True)))
        }
        pieces = [PlacedPart(parts[place], items[place][-1]) for place in places]
        new: list[bytes] = []
        for answer, own in zip(answers, arrange_parts(pieces, answers), strict=True):
            raw = {bytes(call.raw) for call in answer.calls}
            has_reasoning = any(_is_reasoning(each) for each in own)
            new += [remove_member(each, "id") if each in raw and not has_reasoning else each for each in own]
            new += self.encode_results(answer.results)
        before = [item for place in places for item in items[place][:-1]]
        for place in places:
            items[place] = []
        items[places[0]] = [*before, *new]


def _is_reasoning(item: bytes) -> bool:
    return decode_object(item.decode("utf-8", "replace")).get("type") == "reasoning"


def _output_text(texts: Sequence[Text]) -> dict[str, object]:
    return {"type": "output_text", "text": "\n\n".join(part.text for part in texts), "annotations": []}


def _encode_tool(tool: Tool, schema: msgspec.Raw) -> bytes:
    head = {"name": tool.name, "description": tool.description}
    return _encode({"type": "function", **head, "parameters": schema, "strict": False})


RESPONSES_CALLS = CallForm(
    _encode_tool,
    call_type="function_call",
    arguments_key="arguments",
    arguments_are_text=True,
    tool_item_type="additional_tools",
)
