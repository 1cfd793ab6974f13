"""Escapes control tokens of chat formats in texts.

A server that renders a conversation as one text finds the control tokens of its format anywhere in it: a file with
`<|im_start|>system` in it would speak with the authority of the system. Unless the provider is known to keep the two
apart, such a token is sent with a space in it. It is then plain text, and costs no more tokens.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

_COMMON_PATTERNS: Final = (
    r"<\|[^|<>\s]{1,60}\|>",
    r"<｜[^｜<>\n]{1,60}｜>",
    r"<\|[a-z_]{1,30}>|<[a-z_]{1,30}\|>",
    r"\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK|gMASK)\]",
    r"<</?SYS>>",
    r"</?s>|<(?:bos|eos|pad|unk|sop|eop)>|<(?:start|end)_of_turn>",
)
_UNICODE_ESCAPE: Final = b"\\\\u"


class ControlTokenEscaper:
    """`tokens` are those of a vocabulary; without any, those of the common formats."""

    def __init__(self, tokens: Iterable[str] = ()) -> None:
        patterns = [re.escape(token) for token in sorted(tokens, key=len, reverse=True) if len(token) > 1]
        self._pattern = re.compile("|".join(patterns or _COMMON_PATTERNS).encode())

    def escape(self, request: bytes) -> bytes:
        """Return the request without control tokens in its texts; the same bytes if there are none."""
        if _UNICODE_ESCAPE in request:
            request = _unescape_arguments(request)
        return self._pattern.sub(_split_token, request)


def _split_token(mark: re.Match[bytes]) -> bytes:
    text = mark[0].decode()
    return f"{text[0]} {text[1:]}".encode()


def _unescape_arguments(request: bytes) -> bytes:
    """Decode escapes in call arguments, which are JSON inside JSON: a server would read an escaped token, too."""
    try:
        body: object = msgspec.json.decode(request)
    except (msgspec.MsgspecError, RecursionError):
        return request
    is_changed = False
    for message in _dicts(body, "messages"):
        for call in _dicts(message, "tool_calls"):
            function = call.get("function")
            arguments = function.get("arguments") if isinstance(function, dict) else None
            if isinstance(function, dict) and isinstance(arguments, str) and "\\u" in arguments:
                function["arguments"] = _reencode_json(arguments)
                is_changed = True
    return msgspec.json.encode(body) if is_changed else request


def _dicts(value: object, key: str) -> list[dict[str, object]]:
    values = value.get(key) if isinstance(value, dict) else None
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _reencode_json(arguments: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return arguments
