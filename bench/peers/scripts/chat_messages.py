"""Messages in OpenAI chat form: their size, and which of them must stay together.

Standard library only: the interpreter of each peer imports this file.
"""

import json
from collections.abc import Sequence
from typing import Any

Chat = dict[str, Any]
"""One message in OpenAI chat form."""

CHARS_PER_TOKEN = 4
"""Requests are compared by the same count: text, names and arguments of calls."""

SYSTEM_ROLES = frozenset({"system", "developer"})


def read_chat_text(message: Chat) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or () if isinstance(part, dict))


def count_chars(message: Chat) -> int:
    """Return the characters of the text, and of the names and arguments of calls."""
    content = message.get("content")
    if isinstance(content, str):
        length = len(content)
    else:
        length = sum(len(part.get("text") or "") for part in content or () if isinstance(part, dict))
    for call in message.get("tool_calls") or ():
        length += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return length


def count_chat_tokens(messages: Sequence[Chat]) -> int:
    return sum(map(count_chars, messages)) // CHARS_PER_TOKEN


def fits_window(messages: Sequence[Chat], window: int) -> bool:
    return sum(map(count_chars, messages)) <= window * CHARS_PER_TOKEN


def count_leading_system(messages: Sequence[Chat]) -> int:
    """Return the number of leading system messages."""
    count = 0
    while count < len(messages) and messages[count].get("role") in SYSTEM_ROLES:
        count += 1
    return count


def split_chat_groups(messages: Sequence[Chat]) -> list[list[Chat]]:
    """Split into groups that can only be dropped whole: an assistant message with its results, else one message."""
    groups: list[list[Chat]] = []
    for message in messages:
        joins = message.get("role") == "tool" and groups and groups[-1][0].get("tool_calls")
        if joins:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def parse_arguments_object(call: Chat) -> dict[str, Any]:
    """Return the arguments as an object, which some libraries require; others are wrapped in one."""
    try:
        value = json.loads(call["function"]["arguments"] or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"input": call["function"]["arguments"]}
