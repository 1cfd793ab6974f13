"""Limits on what model providers and MCP servers may send.

Neither is trusted: a broken or hostile one must not exhaust the memory, block the event loop or keep the agent waiting.
All limits are defined here and listed in docs/agent.md. Data over a limit is refused with `LimitExceeded`, which names
the limit and says what to do. The limits on a single message are low enough that parsing it takes well under 100 ms,
even if every byte is chosen to make parsing slow.
"""

from typing import Final

import msgspec

from tidegate.core.errors import TidegateError

MAX_JSON_VALUES: Final = 50_000
"""Values in one JSON text. A value costs a parser up to 200 bytes and a microsecond, and takes 2 bytes to write."""
MAX_ANSWER_VALUES: Final = 1_000_000
"""Values in a whole answer that is passed on: probabilities of tokens are many. An answer with more is not logged."""
MAX_CALLS: Final = 128
"""Tool calls in one answer of a model. OpenAI refuses a history with more."""
MAX_TOOLS: Final = 128
"""Tools that a model is offered, of all MCP servers and our own. OpenAI refuses more."""
MAX_PARTS: Final = 4_096
"""Parts of one answer of a model: blocks, items, reasoning details, citations."""
MAX_USAGE_FIELDS: Final = 64
"""Fields of a usage report that are kept."""
MAX_LISTING_BYTES: Final = 4_194_304
MAX_LISTING_VALUES: Final = 200_000
"""A provider's list of models. The longest known has 700 KB and 40,000 values."""

_PIECE: Final = 65_536


class ProviderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds and bytes for one answer of a model provider.

    `idle_seconds` is the time between two pieces: a model may think for long before the first. `max_answer_bytes`
    counts the bytes as received, `content` those that are kept: most of a stream is the frames around them.
    `max_line_bytes` limits one line or frame, and an answer that is not streamed. `max_error_bytes` is how much of an
    error body is read. `keepalive_connections` is the number of idle connections; they belong to the event loop that
    made them.
    """

    connect_seconds: float = 15.0
    idle_seconds: float = 300.0
    total_seconds: float = 1800.0
    max_answer_bytes: int = 67_108_864
    content: int = 4_194_304
    max_line_bytes: int = 8_388_608
    max_error_bytes: int = 262_144
    keepalive_connections: int = 20


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one MCP server may send.

    `message` is in bytes. In any `period` of seconds it may send `messages` (answers, notifications and requests, and
    HTTP responses) and `sent` bytes (its error output counts). `unread` is how many seconds it may leave its input
    unread. Of the tools it lists the first `tools` are used; a longer `name` (characters) leaves the tool out, a longer
    `description` is cut, a longer `schema` is not shown. The seconds it has to start, and to answer a call, are
    `McpServer.seconds`.
    """

    message: int = 4_194_304
    messages: int = 5_000
    sent: int = 67_108_864
    period: float = 60.0
    unread: float = 30.0
    tools: int = 200
    name: int = 128
    description: int = 1_000
    schema: int = 16_000


class LimitExceeded(TidegateError):
    """A provider or server exceeded a limit. Nothing of the message was kept."""

    def __init__(self, cause: str, remedy: str = "Ask for less at once.") -> None:
        super().__init__(cause, remedy)


def has_too_many_values(text: str | bytes, most: int = MAX_JSON_VALUES) -> bool:
    """Return whether a JSON text holds more than `most` values, without parsing it.

    Counts the commas and opening brackets outside strings, and the strings. Of a text that is not JSON the count may
    be wrong, but a parser stops where the two begin to differ.
    """
    if len(text) <= most:
        return False
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if _count_openers(data) <= most:
        return False
    count, strings, start, in_string = 0, 0, 0, False
    while start < len(data) and count <= most:
        piece = data[start : start + _PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # never cut after a backslash that escapes the next byte
            piece = data[start : start + _PIECE + 1]
        start += len(piece)
        runs = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        count += _count_openers(b"".join(runs[in_string::2]))
        in_string ^= len(runs) % 2 == 0
        strings += len(runs) // 2
        count = max(count, strings // 2)
    return count > most


def _count_openers(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")
