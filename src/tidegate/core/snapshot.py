"""A view as bytes, so that it need not be folded from the log again.

Everything that decides what the view does next is in there; only the meter is not, for it is code. The bytes are
msgpack of declared types: whatever is read back is data, or it is refused.
"""

from typing import Any

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.events import UsageReported
from tidegate.core.messages import Tool
from tidegate.core.view import Item, Meter, RuleFiring, View

SNAPSHOT_VERSION = 4
"""Goes up with every change of what is frozen, or of what the fold makes of a log: an older snapshot is then void."""


class _Frozen(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The fields of a View, by their names. `version` stands first, to be read before the rest is believed."""

    version: int
    skip: tuple[int, ...]
    items: list[Item]
    orphans: list[Item]
    unanswered: dict[str, list[str]]
    system: str
    system_tokens: int
    system_at: int
    tools: tuple[Tool, ...]
    tools_tokens: int
    tools_at: int
    tokens: int
    metered: int
    visible_turns: int
    tool_result_count: int
    tool_call_count: int
    total_turns: int
    started_turns: int
    total_tokens_said: int
    reply_count: int
    last_reply_time: float
    head: int
    said_seq: int
    prefix_seq: int
    edited_seq: int
    recoveries: int
    newest_request: str
    last_fired: dict[str, RuleFiring]
    usage: UsageReported | None
    tokens_since_report: int
    metered_since_report: int
    scale_by_model: dict[str, float]
    fruitless_rules: dict[str, int]
    model_note: str
    removed_rules: dict[str, int]


_AFTER = 2  # the version and what is skipped
_FIELDS = _Frozen.__struct_fields__[_AFTER:]
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Frozen)


def freeze_view(view: View, **instead: Any) -> bytes:
    """Equal views give equal bytes. `instead` are fields to be frozen with another value."""
    fields = {name: getattr(view, name) for name in _FIELDS} | instead
    return _encoder.encode(_Frozen(version=SNAPSHOT_VERSION, skip=tuple(sorted(view._skip)), **fields))


def thaw_view(data: bytes | memoryview, meter: Meter | None) -> View:
    """The view that was frozen. BadInput if these bytes are no view, or one of another version."""
    try:
        frozen = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise _void(str(fault)) from fault
    if frozen.version != SNAPSHOT_VERSION:
        raise _void(f"it is of version {frozen.version}, not {SNAPSHOT_VERSION}")
    view = View(meter, frozenset(frozen.skip))
    for name, value in zip(_FIELDS, msgspec.structs.astuple(frozen)[_AFTER:], strict=True):
        setattr(view, name, value)
    return view


def _void(why: str) -> BadInput:
    return BadInput(f"This is not a snapshot of a view: {why}.", "Fold the view from its log.")
