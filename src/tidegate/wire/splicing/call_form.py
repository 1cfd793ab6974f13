"""How a dialect writes a hidden tool in a client's request, and its calls in a provider's answer."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from tidegate.core.messages import Tool
from tidegate.wire.parsing import is_object_text
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.spans import find_elements, find_members, rebuild_array
from tidegate.wire.streaming.reply import as_list, as_object

_encode = msgspec.json.encode


class CallForm(NamedTuple):
    """The calls of a dialect.

    `calls_key` is the key of a message's list in which calls are; without one, the message itself is a call. The name
    and the arguments of a call are in the object under the key `holder`; without one, in the call, which then has the
    type `call_type`. `arguments_are_text`: JSON as a text, else an object. `add_tool` adds a tool to a client's list;
    None if the list has no functions. Clients of some dialects declare tools in an item of the list of messages, of
    the type `tool_item_type`. `list_functions` gives the functions that a tool of the list declares, beside
    those that every dialect could have.
    """

    encode_tool: Callable[[Tool, msgspec.Raw], bytes]
    calls_key: str = ""
    holder: str = ""
    call_type: str = ""
    arguments_key: str = "arguments"
    arguments_are_text: bool = False
    tool_item_type: str = ""
    add_tool: Callable[[list[bytes], Tool, msgspec.Raw], list[bytes] | None] | None = None
    list_functions: Callable[[JsonObject], Sequence[object]] = lambda tool: ()

    def append_tool(self, text: bytes, tool: Tool) -> bytes | None:
        """The request with one more tool in its list; None if it has no list of functions, or has this name."""
        member = find_members(text).get("tools")
        listed = text[member.value : member.end] if member else b""
        if member is None or listed[:1] != b"[":
            return None
        elements = [listed[each.start : each.end] for each in find_elements(listed)]
        if not all(each[:1] == b"{" for each in elements):
            return None
        schema = msgspec.Raw(tool.parameters.encode())
        if self.add_tool is not None:
            new = self.add_tool(elements, tool, schema)
        else:
            new = [*elements, self.encode_tool(tool, schema)] if elements else None
        if new is None or any(self._names_tool(each, tool.name) for each in elements):
            return None
        return text[: member.value] + rebuild_array(listed, new) + text[member.end :]

    def append_tool_to_item(self, text: bytes, key: str, leading: int, tool: Tool) -> bytes | None:
        """The request with one more tool in one of the `leading` items under this key that declares tools, or None."""
        member = find_members(text).get(key) if self.tool_item_type else None
        listed = text[member.value : member.end] if member else b""
        for each in find_elements(listed)[:leading] if listed[:1] == b"[" else ():
            item = listed[each.start : each.end]
            is_list = item[:1] == b"{" and msgspec.json.decode(item).get("type") == self.tool_item_type
            new = self.append_tool(item, tool) if is_list else None
            if member is not None and new is not None:
                start = member.value + each.start
                return text[:start] + new + text[member.value + each.end :]
        return None

    def _names_tool(self, element: bytes, name: str) -> bool:
        value = as_object(msgspec.json.decode(element))
        listed = [value, value.get("function"), *self.list_functions(value), *as_list(value.get("tools"))]
        return any(as_object(each).get("name") == name for each in listed)

    def list_raw_calls(self, messages: Sequence[JsonObject], name: str) -> list[msgspec.Raw]:
        """The calls of this tool in an answer, in the provider's own JSON."""
        listed: list[object] = []
        for message in messages:
            listed += as_list(message.get(self.calls_key)) if self.calls_key else [message]
        return [msgspec.Raw(_encode(each)) for each in listed if isinstance(each, dict) and self._name(each) == name]

    def bound_arguments(self, messages: Sequence[JsonObject], name: str, most: int) -> list[JsonObject]:
        """An answer that can be sent back: calls of this tool lose arguments that are not an object or are too long."""
        if not self.calls_key:
            return [self._bound_call(message, name, most) for message in messages]
        output: list[JsonObject] = []
        for message in messages:
            listed = as_list(message.get(self.calls_key))
            calls = [self._bound_call(each, name, most) if isinstance(each, dict) else each for each in listed]
            output.append({**message, self.calls_key: calls} if listed else message)
        return output

    def _bound_call(self, value: JsonObject, name: str, most: int) -> JsonObject:
        if self._name(value) != name:
            return value
        call = as_object(value[self.holder]) if self.holder else value
        arguments = call.get(self.arguments_key)
        text = arguments if self.arguments_are_text and isinstance(arguments, str) else _encode(arguments).decode()
        if len(text) <= most and (arguments is None or is_object_text(text)):
            return value
        bounded = {**call, self.arguments_key: "{}" if self.arguments_are_text else {}}
        return {**value, self.holder: bounded} if self.holder else bounded

    def _name(self, value: JsonObject) -> object:
        """The name of a call; None for anything else."""
        if self.holder:
            return as_object(value.get(self.holder)).get("name")
        return value.get("name") if value.get("type") == self.call_type else None
