"""A snapshot: a view as bytes, so that it need not be folded from the log again.

It has every field of the view except the meter, which is a function. The bytes are msgpack of declared types; bytes
that do not fit them are refused.
"""

from typing import Any

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.events import UsageReported
from tidegate.core.messages import Tool, encode_into_bytes
from tidegate.core.view import Item, LogView, Meter, RuleFiring, View

SNAPSHOT_VERSION = 9
"""Raise it with every change of the fields or of the fold: older snapshots are then refused, and the log is folded."""


class _Frozen(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The fields of a View. Their order is the stored format."""

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
    first_edit_seq: int
    rejected_seq: int
    state_note: str
    state_note_seq: int
    compaction_id: str
    compaction_tokens: int
    covered_items: list[Item]
    cleared_tokens: int


_SAME_FIELDS = tuple(name for name in _Frozen.__struct_fields__ if name not in ("version", "skip"))
"""The fields that have the same name and type in a View."""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Frozen)


def freeze_view(view: View, **overrides: Any) -> bytes:
    """The view as bytes. Equal views give equal bytes. `overrides` are fields to freeze with another value."""
    fields = view.fields() | overrides
    same = {name: fields[name] for name in _SAME_FIELDS}
    frozen = _Frozen(version=SNAPSHOT_VERSION, skip=tuple(sorted(view.skipped_edits)), **same)
    return encode_into_bytes(_encoder, frozen)


def thaw_view(data: bytes | memoryview, meter: Meter | None) -> LogView:
    """The view that was frozen. BadInput if these bytes are not a view, or one of another version."""
    frozen = _decode(data)
    view = LogView(meter, frozenset(frozen.skip))
    for name in _SAME_FIELDS:
        setattr(view, name, getattr(frozen, name))
    return view


def _decode(data: bytes | memoryview) -> _Frozen:
    try:
        frozen = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise _make_error(str(fault)) from fault
    if frozen.version != SNAPSHOT_VERSION:
        raise _make_error(f"it is of version {frozen.version}, not {SNAPSHOT_VERSION}")
    return frozen


def _make_error(why: str) -> BadInput:
    return BadInput(f"This is not a snapshot of a view: {why}.", "Fold the view from its log.")
