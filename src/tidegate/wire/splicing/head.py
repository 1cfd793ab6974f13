"""The changes outside the messages that a request may need: another output limit, and no thinking."""

from collections.abc import Mapping
from typing import Final

import msgspec

from tidegate.wire.registry import get_dialect
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.read_memo import LastList
from tidegate.wire.splicing.request_text import RequestText, decode_request
from tidegate.wire.splicing.spans import find_members, rebuild_array, remove_member, replace_value
from tidegate.wire.validation.faults import RequestFault
from tidegate.wire.validation.validator import RequestValidator

MIN_THINKING_BUDGET: Final = 1024
_OUTPUT_KEYS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "anthropic": (("max_tokens",),),
    "openai_chat": (("max_completion_tokens",), ("max_tokens",)),
    "openai_responses": (("max_output_tokens",),),
    "gemini": (("generationConfig", "maxOutputTokens"),),
}


def _read_path(body: Mapping[str, object], path: tuple[str, ...]) -> object:
    value: object = body
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def read_requested_output(dialect: str, body: JsonObject) -> int:
    """The output tokens that a request asks for; 0 if it does not say."""
    asked = [_read_path(body, path) for path in _OUTPUT_KEYS[dialect]]
    return max((each for each in asked if isinstance(each, int) and not isinstance(each, bool)), default=0)


def lower_output(dialect: str, text: bytes, body: JsonObject, room: int) -> bytes:
    """The request with at most `room` tokens of output; unchanged if it asks for no more than that."""
    for path in _OUTPUT_KEYS[dialect]:
        asked = _read_path(body, path)
        if isinstance(asked, int) and not isinstance(asked, bool) and asked > room > 0:
            text = replace_value(text, path, str(room).encode())
            budget = _read_path(body, ("thinking", "budget_tokens"))
            if dialect == "anthropic" and isinstance(budget, int) and budget >= room:
                text = _lower_budget(text, room)
    return text


def raise_output(dialect: str, text: bytes, body: JsonObject, least: int) -> bytes:
    """The request with at least `least` tokens of output; unchanged if it sets no limit, or a higher one."""
    for path in _OUTPUT_KEYS[dialect]:
        asked = _read_path(body, path)
        if isinstance(asked, int) and not isinstance(asked, bool) and 0 < asked < least:
            text = replace_value(text, path, str(least).encode())
    return text


def _lower_budget(text: bytes, room: int) -> bytes:
    """Thinking needs a budget of its own, below the output; where that is impossible it is left out."""
    budget = max(MIN_THINKING_BUDGET, room // 2)
    if budget >= room:
        return leave_out_thinking(text)
    return replace_value(text, ("thinking", "budget_tokens"), str(budget).encode())


def leave_out_thinking(text: bytes) -> bytes:
    """The request without thinking, and without the provider's own edits of thinking, which need it."""
    text = remove_member(text, "thinking")
    member = find_members(text).get("context_management")
    if member is None:
        return text
    managed = text[member.value : member.end]
    inner = find_members(managed).get("edits") if managed[:1] == b"{" else None
    if inner is None:
        return text
    listed = managed[inner.value : inner.end]
    edits = [
        bytes(raw) for raw in msgspec.json.decode(listed, type=list[msgspec.Raw]) if b"clear_thinking" not in bytes(raw)
    ]
    if not edits:
        return remove_member(text, "context_management")
    return replace_value(text, ("context_management", "edits"), rebuild_array(listed, edits))


def is_thinking_demanded(body: JsonObject) -> bool:
    """Whether a running tool loop must begin with thinking. The other modes leave it to the model."""
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def ask_to_drop_thinking(text: bytes) -> bytes:
    """The request of Anthropic's that lets the provider drop thinking in a wrong place; as it is if it has no say.

    `thinking` must be on, and the client's own choice stays.
    """
    member = find_members(text).get("thinking")
    option = text[member.value : member.end] if member else b""
    if member is None or option[:1] != b"{":
        return text
    known = find_members(option)
    kind = option[known["type"].value : known["type"].end] if "type" in known else b""
    if kind not in (b'"adaptive"', b'"enabled"') or "block_binding" in known:
        return text
    asking = option[:-1].rstrip() + b',"block_binding":{"prefix_mismatch_behavior":"drop_block"}}'
    return text[: member.value] + asking + text[member.end :]


class RequestCheck:
    """The provider's validator for the requests of a conversation. What a request repeats is not checked again."""

    def __init__(self, dialect: str) -> None:
        self._dialect = get_dialect(dialect)
        self._last: RequestText | None = None
        self._messages = LastList[object]()
        self._head: object = None
        self._validator: RequestValidator | None = None

    def find_faults(self, text: bytes, model: str) -> list[RequestFault]:
        """What the validator finds wrong in a request."""
        dialect = self._dialect
        self._last = decode_request(text, dialect.messages_key, self._last)
        body = dict(self._last.body) if self._last else msgspec.json.decode(text, type=dict[str, object])
        given = body.pop(dialect.messages_key, None)
        for key in ("stream", "stream_options"):
            body.pop(key, None)
        messages = given if isinstance(given, list) else [{"role": "user", "content": given}]
        known = len(self._messages.items)
        is_continued = self._messages.update(messages) == known and self._head == (model, body)
        if self._validator is None or not is_continued:
            self._head, known = (model, body), 0
            self._validator = dialect.create_validator(body, dialect.profile_for_model(model))
        for message in messages[known:]:
            self._validator.feed(message)
        return self._validator.finish()


def find_request_faults(dialect: str, text: bytes, model: str) -> list[RequestFault]:
    """What the provider's validator finds wrong in a single request."""
    return RequestCheck(dialect).find_faults(text, model)
