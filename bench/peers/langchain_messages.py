"""OpenAI-chat messages to LangChain's and back to bytes, for every runner built on LangChain."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence

from conversation import CHARS_PER_TOKEN, Chat
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage, convert_to_openai_messages

_ids = itertools.count()


def native(said: Chat) -> AnyMessage:
    """With an id, as LangGraph stamps on whatever enters a state."""
    name = f"m{next(_ids)}"
    if said["role"] == "user":
        return HumanMessage(content=said["content"], id=name)
    if said["role"] == "tool":
        return ToolMessage(content=said["content"], tool_call_id=said["tool_call_id"], id=name)
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "args": json.loads(call["function"]["arguments"])}
        for call in said.get("tool_calls", ())
    ]
    return AIMessage(content=said["content"], tool_calls=calls, id=name)


def natives(history: Iterable[Chat]) -> list[AnyMessage]:
    return [native(said) for said in history]


def body(view: Sequence[AnyMessage]) -> bytes:
    """LangChain's own converter to the OpenAI form, then `json.dumps`."""
    return json.dumps({"model": "none", "messages": convert_to_openai_messages(view)}).encode()


def tokens(view: Sequence[AnyMessage]) -> int:
    return sum(len(message.content) for message in view) // CHARS_PER_TOKEN
