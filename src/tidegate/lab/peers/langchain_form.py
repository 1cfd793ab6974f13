"""Recorded messages as LangChain's and back, for the scripts that run LangChain's code.

Whatever comes back as it went in is the recorded dict itself, byte for byte; the id that LangGraph would stamp on a
message tells which one it was.
"""

# mypy: disable-error-code="import-not-found, no-any-return"

import json
from collections.abc import Sequence

from chat_form import CHARS_PER_TOKEN, SYSTEM, Chat, arguments_of, size, text_of
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

_ROLE_BY_TYPE = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}


class Form:
    def __init__(self) -> None:
        self.head: list[Chat] = []
        self.known: dict[str, tuple[Chat, AnyMessage]] = {}

    def native(self, index: int, message: Chat) -> AnyMessage | None:
        """None for what stands at the beginning of the system's: an agent holds it apart from its messages."""
        if message["role"] in SYSTEM and not self.known:
            self.head.append(message)
            return None
        made = _to_native(f"m{index}", message)
        self.known[made.id] = (message, made)
        return made

    def system(self) -> SystemMessage | None:
        return SystemMessage("\n\n".join(map(text_of, self.head))) if self.head else None

    def back(self, message: AnyMessage) -> Chat:
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

    def count(self, messages: Sequence[AnyMessage]) -> int:
        """The token counter that these libraries are given."""
        return sum(size(self.back(message)) for message in messages) // CHARS_PER_TOKEN

    def view(self, messages: Sequence[AnyMessage]) -> list[Chat]:
        return [*self.head, *map(self.back, messages)]


def _to_native(name: str, message: Chat) -> AnyMessage:
    text = text_of(message)
    if message["role"] == "tool":
        return ToolMessage(content=text, tool_call_id=message["tool_call_id"], id=name)
    if message["role"] == "user":
        return HumanMessage(content=text, id=name)
    if message["role"] != "assistant":
        return SystemMessage(content=text, id=name)
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "args": arguments_of(call)}
        for call in message.get("tool_calls") or ()
    ]
    return AIMessage(content=text, tool_calls=calls, id=name)
