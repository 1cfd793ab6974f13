"""Messages in OpenAI chat form: how much they weigh, and what must stay together.

Only the standard library, and nothing of tidegate: each peer's own interpreter finds this file beside its script.
"""

import json
from collections.abc import Sequence
from typing import Any

Chat = dict[str, Any]
"""One message in OpenAI chat form."""

CHARS_PER_TOKEN = 4
"""As in the figures that the requests are compared by: text, names and arguments of calls."""

SYSTEM_ROLES = frozenset({"system", "developer"})


def read_chat_text(message: Chat) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or () if isinstance(part, dict))


def count_chars(message: Chat) -> int:
    """Characters."""
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
    """How many messages of the system stand at the beginning."""
    count = 0
    while count < len(messages) and messages[count].get("role") in SYSTEM_ROLES:
        count += 1
    return count


def split_chat_groups(messages: Sequence[Chat]) -> list[list[Chat]]:
    """What can only leave together: an assistant message with calls and the results behind it, else one message."""
    made: list[list[Chat]] = []
    for message in messages:
        joins = message.get("role") == "tool" and made and made[-1][0].get("tool_calls")
        if joins:
            made[-1].append(message)
        else:
            made.append([message])
    return made


def parse_arguments_object(call: Chat) -> dict[str, Any]:
    """The arguments as an object, for libraries that know no other; the few that are not one are wrapped."""
    try:
        value = json.loads(call["function"]["arguments"] or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"input": call["function"]["arguments"]}
