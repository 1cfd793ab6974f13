"""Conversion of chat messages to LangChain's and back, for the lab's scripts and for bench/.

A message that comes back unchanged is the recorded dict itself, byte for byte. It is found by the id that LangGraph
would give a message.
"""

# mypy: disable-error-code="import-not-found, no-any-return"

import json
from collections.abc import Sequence

from chat_messages import CHARS_PER_TOKEN, SYSTEM_ROLES, Chat, count_chars, parse_arguments_object, read_chat_text
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

_ROLE_BY_TYPE = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}


class LangChainConverter:
    """Converts the messages of one recording and remembers which is which."""

    def __init__(self) -> None:
        self.head: list[Chat] = []
        self.known: dict[str, tuple[Chat, AnyMessage]] = {}

    def to_native(self, index: int, message: Chat) -> AnyMessage | None:
        """Convert a message, or return None for a leading system message: an agent holds it apart from its messages."""
        if message["role"] in SYSTEM_ROLES and not self.known:
            self.head.append(message)
            return None
        native = to_native(f"m{index}", message)
        self.known[native.id] = (message, native)
        return native

    def make_system_message(self) -> SystemMessage | None:
        return SystemMessage("\n\n".join(map(read_chat_text, self.head))) if self.head else None

    def to_chat(self, message: AnyMessage) -> Chat:
        recorded, native = self.known.get(message.id or "", (None, None))
        if recorded is None:
            return {"role": _ROLE_BY_TYPE[message.type], "content": message.text}
        if message is native:
            return recorded
        same = dict(recorded)
        if message.content != native.content:
            same["content"] = message.text
        calls = getattr(message, "tool_calls", None) or []
        for number, call in enumerate(calls):
            if call["args"] != native.tool_calls[number]["args"]:
                function = {**recorded["tool_calls"][number]["function"], "arguments": json.dumps(call["args"])}
                same["tool_calls"] = list(same["tool_calls"])
                same["tool_calls"][number] = {**recorded["tool_calls"][number], "function": function}
        return recorded if same == recorded else same

    def count_tokens(self, messages: Sequence[AnyMessage]) -> int:
        """Count tokens; these libraries are given this as their counter."""
        return sum(count_chars(self.to_chat(message)) for message in messages) // CHARS_PER_TOKEN

    def to_request(self, messages: Sequence[AnyMessage]) -> list[Chat]:
        return [*self.head, *map(self.to_chat, messages)]


def to_native(message_id: str, message: Chat) -> AnyMessage:
    text = read_chat_text(message)
    if message["role"] == "tool":
        return ToolMessage(content=text, tool_call_id=message["tool_call_id"], id=message_id)
    if message["role"] == "user":
        return HumanMessage(content=text, id=message_id)
    if message["role"] != "assistant":
        return SystemMessage(content=text, id=message_id)
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "args": parse_arguments_object(call)}
        for call in message.get("tool_calls") or ()
    ]
    return AIMessage(content=text, tool_calls=calls, id=message_id)
