"""Repair a peer's request that no provider would accept, so that its figures can be compared.

This is not the peer's own code, and every repaired request is marked. Standard library only.
"""

# mypy: disable-error-code="import-not-found"

from collections.abc import Sequence
from typing import NamedTuple

from chat_messages import (
    CHARS_PER_TOKEN,
    Chat,
    count_chars,
    count_leading_system,
    fits_window,
    read_chat_text,
    split_chat_groups,
)

FILLER_MESSAGE: Chat = {"role": "user", "content": "[earlier messages left out]"}
"""The first message where a conversation would start with an answer."""

CUT_MARK = "\n[... cut ...]\n"


class GuardedRequest(NamedTuple):
    messages: list[Chat]
    dropped: int
    clipped: int


def _is_whole_group(group: Sequence[Chat]) -> bool:
    """Return whether every call is answered once and every result has its call."""
    call_ids = [call.get("id") for call in group[0].get("tool_calls") or ()]
    answer_ids = [message.get("tool_call_id") for message in group if message.get("role") == "tool"]
    return sorted(map(str, call_ids)) == sorted(map(str, answer_ids))


def find_request_defects(view: Sequence[Chat], window: int, begins: Sequence[Chat] = ()) -> list[str]:
    """Return the defects for which a provider would reject this request. A request may begin as the recording does."""
    defects = []
    if not fits_window(view, window):
        defects.append("over")
    conversation = view[count_leading_system(view) :]
    if not conversation:
        return [*defects, "empty"]
    if conversation[0].get("role") != "user" and conversation[0] not in begins:
        defects.append("headless")
    if not all(map(_is_whole_group, split_chat_groups(conversation))):
        defects.append("unpaired")
    return defects


def guard_request(view: Sequence[Chat], window: int, newest: Sequence[Chat]) -> GuardedRequest:
    """Change as little as possible of a peer's request to make it valid.

    Broken pairs are dropped, then the oldest groups until the rest fits, and a filler message is put first where a
    user message is missing. `newest` is what must be answered now: it is sent if the peer left nothing. Texts are cut
    only if the newest group alone is too large.
    """
    head = list(view[: count_leading_system(view)])
    groups = [group for group in split_chat_groups(view[len(head) :]) if _is_whole_group(group)] or [
        list(newest) or [FILLER_MESSAGE]
    ]
    drops = len(view) - len(head) - sum(map(len, groups))
    room = window * CHARS_PER_TOKEN - sum(map(count_chars, head))
    weights = [sum(map(count_chars, group)) for group in groups]
    size = sum(weights)
    first = 0
    while (
        first < len(groups) - 1
        and size + (0 if groups[first][0]["role"] == "user" else count_chars(FILLER_MESSAGE)) > room
    ):
        size -= weights[first]
        drops += len(groups[first])
        first += 1
    tail = [message for group in groups[first:] for message in group]
    if tail[0]["role"] != "user":
        tail.insert(0, FILLER_MESSAGE)
    messages = head + tail
    clips = 0
    while not fits_window(messages, window) and (at := _longest(messages)) is not None:
        excess = sum(map(count_chars, messages)) - window * CHARS_PER_TOKEN
        messages[at] = _cut(messages[at], excess)
        clips += 1
    return GuardedRequest(messages, drops, clips)


def _longest(messages: Sequence[Chat]) -> int | None:
    at = max(range(len(messages)), key=lambda index: count_chars(messages[index]))
    return at if count_chars(messages[at]) > 2 * len(CUT_MARK) else None


def _cut(message: Chat, excess: int) -> Chat:
    """Return the message about `excess` characters shorter. Arguments are dropped whole: half a JSON text is none."""
    text = read_chat_text(message)
    if message.get("tool_calls") and count_chars(message) > 2 * len(text):
        calls = [{**call, "function": {**call["function"], "arguments": "{}"}} for call in message["tool_calls"]]
        return {**message, "tool_calls": calls}
    half = max(0, len(text) - excess - len(CUT_MARK)) // 2
    return {**message, "content": text[:half] + CUT_MARK + text[len(text) - half :]}
