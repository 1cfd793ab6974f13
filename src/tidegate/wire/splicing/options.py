"""What a client's request asks for beside its messages, where tidegate reads or changes it: output, thinking, cache."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.spans import remove_member, replace_value

# --- the limit of output tokens -------------------------------------------------------------------------------------


class OutputLimit(NamedTuple):
    """Where a dialect writes the limit. `lower_thinking` lowers with it what the request gives to thinking, where that
    is part of the output.
    """

    paths: tuple[tuple[str, ...], ...]
    lower_thinking: Callable[[bytes, JsonObject, int], bytes] | None = None

    def read(self, body: JsonObject) -> int:
        """The output tokens that a request asks for; 0 if it does not say."""
        return max((self._read(body, path) for path in self.paths), default=0)

    def lower(self, text: bytes, body: JsonObject, room: int) -> bytes:
        """The request with at most `room` tokens of output; unchanged if it asks for no more than that."""
        for path in self.paths:
            if self._read(body, path) > room > 0:
                text = replace_value(text, path, str(room).encode())
                if self.lower_thinking is not None:
                    text = self.lower_thinking(text, body, room)
        return text

    def raise_to(self, text: bytes, body: JsonObject, least: int) -> bytes:
        """The request with at least `least` tokens of output; unchanged if it sets no limit, or a higher one."""
        for path in self.paths:
            if 0 < self._read(body, path) < least:
                text = replace_value(text, path, str(least).encode())
        return text

    def _read(self, body: JsonObject, path: tuple[str, ...]) -> int:
        value: object = body
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else 0


# --- the option that turns thinking on ------------------------------------------------------------------------------

THINKING_OPTION: Final = "thinking"


class ThinkingOption:
    """The field `thinking`: Anthropic's, and that of servers of other dialects which follow it.

    `beta` is the name and value of a header without which the provider refuses the field of `allow_dropping`.
    """

    beta: tuple[str, str] = "", ""

    def is_demanded(self, body: Mapping[str, object]) -> bool:
        """Whether a running tool loop must begin with thinking. The other modes leave it to the model."""
        thinking = body.get(THINKING_OPTION)
        return isinstance(thinking, dict) and thinking.get("type") == "enabled"

    def read_budget(self, body: Mapping[str, object]) -> int:
        """The tokens that a request gives to thinking; 0 for none or an amount that is not known."""
        thinking = body.get(THINKING_OPTION)
        budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
        return budget if isinstance(budget, int) else 0

    def leave_out(self, text: bytes) -> bytes:
        """The request without thinking."""
        return remove_member(text, THINKING_OPTION)

    def may_drop(self, model: str, host: str) -> bool:
        """Whether a server surely knows the field of `allow_dropping`."""
        return False

    def allow_dropping(self, text: bytes) -> bytes:
        """The request that lets the provider drop thinking in a wrong place; as it is if that is not possible."""
        return text


# --- how long the prefix is to be cached ----------------------------------------------------------------------------

_AMOUNT: Final = LazyPattern(r"(\d{1,5})([smhd])")
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
