"""The user's own request options: temperature, tool choice, thinking, or anything else that a provider knows.

They are sent as they are, in the provider's form. Only the names that tidegate sets itself are refused.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.wire.dialect import Dialect
from tidegate.wire.parsing import to_plain_json
from tidegate.wire.rendering.blocks import JsonObject

_MAX_TOKENS_REMEDY: Final = "Give Session(max_tokens=...) instead."
_REMEDIES: Final[Mapping[str, str]] = {
    "model": "Give Session(model) instead.",
    "tools": "Give Session(tools=...) instead.",
    "system": "Give Session(system=...) instead.",
    "instructions": "Give Session(system=...) instead.",
    "systemInstruction": "Give Session(system=...) instead.",
    "system_instruction": "Give Session(system=...) instead.",
    "max_tokens": _MAX_TOKENS_REMEDY,
    "max_completion_tokens": _MAX_TOKENS_REMEDY,
    "max_output_tokens": _MAX_TOKENS_REMEDY,
    "maxOutputTokens": _MAX_TOKENS_REMEDY,
    "previous_response_id": "Leave it out: tidegate sends the whole view with every request.",
    "conversation": "Leave it out: tidegate sends the whole view with every request.",
}


class GivenOptions(NamedTuple):
    """Options as `RequestRenderer` takes them: sampling, which every dialect writes its own way, and the rest."""

    temperature: float | None
    top_p: float | None
    extra: JsonObject


def read_request_options(options: Mapping[str, object], dialect: Dialect) -> GivenOptions:
    """Check the options that a user gave. BadInput if one of them is set by tidegate, or is not JSON."""
    plain = to_plain_json(options)
    assert isinstance(plain, dict)
    config = plain.get("generationConfig")
    for name in [*plain, *(config if isinstance(config, dict) else ())]:
        if name == dialect.messages_key:
            raise BadInput(f"tidegate sets {name!r} in every request.", "Add messages with add().")
        if name in _REMEDIES:
            raise BadInput(f"tidegate sets {name!r} in every request.", _REMEDIES[name])
    try:
        extra: JsonObject = msgspec.json.decode(msgspec.json.encode(plain))
    except (TypeError, ValueError, msgspec.MsgspecError) as refused:
        raise BadInput(f"The request options cannot be written as JSON: {refused}.", "Use JSON values only.") from None
    return GivenOptions(_take_number(extra, "temperature"), _take_number(extra, "top_p"), extra)


def _take_number(options: JsonObject, name: str) -> float | None:
    value = options.pop(name, None)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise BadInput(f"The option {name} is {value!r:.40}.", "Give a number.")
    return value


def merge_extra_options(head: JsonObject, extra: JsonObject) -> JsonObject:
    """Add options to the head of a request. Objects are merged, lists are joined, other values replace."""
    result = dict(head)
    for name, value in extra.items():
        mine = result.get(name)
        if isinstance(mine, dict) and isinstance(value, dict):
            result[name] = merge_extra_options(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            result[name] = [*mine, *(each for each in value if each not in mine)]
        else:
            result[name] = value
    return result
