"""Chat messages to LangChain's and back to bytes, for every runner built on LangChain."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence

from bench_conversation import CHARS_PER_TOKEN, Chat
from langchain_core.messages import AnyMessage, convert_to_openai_messages
from langchain_messages import to_native

_ids = itertools.count()


def convert_message(message: Chat) -> AnyMessage:
    """Convert with a fresh id, as LangGraph gives to whatever enters a state."""
    return to_native(f"m{next(_ids)}", message)


def convert_messages(messages: Iterable[Chat]) -> list[AnyMessage]:
    return [convert_message(message) for message in messages]


def render_body(view: Sequence[AnyMessage]) -> bytes:
    """LangChain's own converter to the OpenAI form, then `json.dumps`."""
    return json.dumps({"model": "none", "messages": convert_to_openai_messages(view)}).encode()


def count_view_tokens(view: Sequence[AnyMessage]) -> int:
    return sum(len(message.content) for message in view) // CHARS_PER_TOKEN
