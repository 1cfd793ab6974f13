"""Generate the conversation that every runner is measured on.

Only the standard library, so that it can be imported in each peer's own environment. Message `i` is a pure function of
`i`: a history of any length can be streamed without holding it, and two runners given the same numbers get the same
bytes. Texts are pieced together from sentences made once, because drawing words one by one would cost more than most
of the calls being measured.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

Chat = dict[str, Any]
"""One message in OpenAI-chat form."""

WINDOW = 128_000
"""Tokens in the window, for every runner."""

CHARS_PER_TOKEN = 4

MEAN_CHARS = 1_700
"""Text in one message on average: content plus call arguments. 300 of them fill the window."""

VISIBLE_MESSAGES = 300
"""Messages a full view holds: WINDOW * CHARS_PER_TOKEN / MEAN_CHARS, rounded."""

KEPT_MESSAGES = 240
"""What is left after a compaction, for peers that let the choice: four fifths, inspect_ai's own default."""

PRELUDE_MESSAGES = 4
"""The first messages: a user, two parallel calls, two results. After them everything comes in pairs."""

_SPREAD = 200
_ARGUMENT_CHARS = 160
_SENTENCES = 4_096
_MASK = 0xFFFFFFFF

_WORDS = """
the a this that each every no some one two first last open close read write run build test check find list make keep
drop move copy merge split parse render count measure limit budget window message result call tool agent model user
session log view edit stage policy token cache prefix file folder path line column table index key value field record
schema query server client request response error warning status code branch commit change patch release version module
package function class method argument option setting default report summary note plan step task goal reason cause fix
before after while until because although when where which without within between above below again still already only
small large early late exact rough stable broken missing empty full slow quick local remote shared private public
""".split()


@cache
def _sentences() -> tuple[str, ...]:
    draw = random.Random(20_240_817)
    sentences = []
    for _ in range(_SENTENCES):
        words = draw.choices(_WORDS, k=draw.randint(9, 18))
        sentences.append(" ".join(words).capitalize() + ". ")
    return tuple(sentences)


def make_text(seed: int, length: int) -> str:
    """Exactly `length` characters of plain prose, different for every seed."""
    sentences = _sentences()
    parts = [f"[{seed}] "]
    have = len(parts[0])
    state = (seed * 2_654_435_761 + 97) & _MASK
    while have < length:
        state = (state * 1_664_525 + 1_013_904_223) & _MASK
        piece = sentences[state >> 20]
        parts.append(piece)
        have += len(piece)
    return "".join(parts)[:length]


def _length(index: int) -> int:
    return MEAN_CHARS - _SPREAD + index * 7_919 % (2 * _SPREAD + 1)


def _call(call_id: str, seed: int) -> Chat:
    note = make_text(seed, _ARGUMENT_CHARS - 40)
    arguments = json.dumps({"path": f"src/part_{seed % 97}.py", "note": note})
    return {"id": call_id, "type": "function", "function": {"name": "read_file", "arguments": arguments}}


def _asks(index: int, ids: list[str]) -> Chat:
    calls = [_call(call_id, index + 10_000_000 + n) for n, call_id in enumerate(ids)]
    call_chars = sum(len(call["function"]["arguments"]) for call in calls)
    return {"role": "assistant", "content": make_text(index, _length(index) - call_chars), "tool_calls": calls}


def make_message(index: int) -> Chat:
    """Message number `index`: a user's, an assistant's with or without a call, or a tool's result.

    Cut after any even number of messages from PRELUDE_MESSAGES on, the conversation is ready for a model call: it ends
    in a user message or in a tool result, and no call is left without its answer.
    """
    text = make_text(index, _length(index))
    if index == 0:
        return {"role": "user", "content": text}
    if index == 1:
        return _asks(1, ["call_1a", "call_1b"])
    if index in (2, 3):
        return {"role": "tool", "tool_call_id": "call_1a" if index == 2 else "call_1b", "content": text}
    pair, second = divmod(index - PRELUDE_MESSAGES, 2)
    closing = pair % 5 == 4
    if closing:
        return {"role": "user" if second else "assistant", "content": text}
    if second:
        return {"role": "tool", "tool_call_id": f"call_{index - 1}", "content": text}
    return _asks(index, [f"call_{index}"])


def make_messages(start: int, stop: int) -> Iterator[Chat]:
    """Messages `start` up to `stop`, one at a time, so that nobody need hold the OpenAI-chat form of them all."""
    return (make_message(index) for index in range(start, stop))


def count_text_chars(message: Chat) -> int:
    """The text of a message: what counts as payload. All of it is ASCII, so characters are bytes."""
    return len(message["content"]) + sum(len(call["function"]["arguments"]) for call in message.get("tool_calls", ()))
