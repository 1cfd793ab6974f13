"""How long a provider keeps a request's prefix in its cache, as far as the request asks for it."""

import re
from collections.abc import Mapping
from typing import Final

_AMOUNT: Final = re.compile(r"(\d{1,5})([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(value: object) -> float:
    """Return the seconds of a text such as `5m`, `1h` or `24h`; 0 for everything else."""
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) * _SECONDS[match[2]] if match else 0.0


def read_marked_lifetime(body: Mapping[str, object]) -> float:
    """Return the longest lifetime that `cache_control` marks ask for, in seconds; 0 without a `ttl`.

    In a request, longer lifetimes come before shorter ones. So it is enough to look at the marks before the messages,
    and at those of the first and the last message: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    messages = body.get("messages")
    ends = [messages[0], messages[-1]] if isinstance(messages, list) and messages else []
    blocks: list[object] = [body, *_list_objects(body.get("system")), *_list_objects(body.get("tools"))]
    for message in ends:
        blocks += _list_objects(message.get("content")) if isinstance(message, Mapping) else []
    return max(_read_mark(each) for each in blocks)


def read_requested_lifetime(body: Mapping[str, object]) -> float:
    """Return the lifetime that a request of OpenAI's dialects asks for, in seconds; 0 if it does not.

    `prompt_cache_options.ttl` from GPT-5.6 on, before that `prompt_cache_retention`:
    https://developers.openai.com/api/docs/guides/prompt-caching
    """
    options = body.get("prompt_cache_options")
    ttl = options.get("ttl") if isinstance(options, Mapping) else None
    return max(parse_duration(ttl), parse_duration(body.get("prompt_cache_retention")))


def _list_objects(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _read_mark(value: object) -> float:
    mark = value.get("cache_control") if isinstance(value, Mapping) else None
    return parse_duration(mark.get("ttl")) if isinstance(mark, Mapping) else 0.0
