"""A snapshot: a view as bytes, so that it need not be folded from the log again.

It has every field of the view except the meter, which is a function. The bytes are msgpack of declared types; bytes
that do not fit them are refused.
"""

from typing import Any

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.events import UsageReported
from tidegate.core.messages import Tool, encode_into_bytes
from tidegate.core.view import Item, Meter, RuleFiring, View

SNAPSHOT_VERSION = 4
"""Raise it with every change of the fields or of the fold: older snapshots are then refused."""


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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Frozen)


def freeze_view(view: View, **replaced: Any) -> bytes:
    """The view as bytes. Equal views give equal bytes. `replaced` are fields to freeze with another value."""
    frozen = _Frozen(
        version=SNAPSHOT_VERSION,
        skip=tuple(sorted(view.skipped_edits)),
        items=view.items,
        orphans=view.orphans,
        unanswered=view.unanswered,
        system=view.system,
        system_tokens=view.system_tokens,
        system_at=view.system_at,
        tools=view.tools,
        tools_tokens=view.tools_tokens,
        tools_at=view.tools_at,
        tokens=view.tokens,
        metered=view.metered,
        visible_turns=view.visible_turns,
        tool_result_count=view.tool_result_count,
        tool_call_count=view.tool_call_count,
        total_turns=view.total_turns,
        started_turns=view.started_turns,
        total_tokens_said=view.total_tokens_said,
        reply_count=view.reply_count,
        last_reply_time=view.last_reply_time,
        head=view.head,
        said_seq=view.said_seq,
        prefix_seq=view.prefix_seq,
        edited_seq=view.edited_seq,
        recoveries=view.recoveries,
        newest_request=view.newest_request,
        last_fired=view.last_fired,
        usage=view.usage,
        tokens_since_report=view.tokens_since_report,
        metered_since_report=view.metered_since_report,
        scale_by_model=view.scale_by_model,
        fruitless_rules=view.fruitless_rules,
        model_note=view.model_note,
        removed_rules=view.removed_rules,
    )
    return encode_into_bytes(_encoder, msgspec.structs.replace(frozen, **replaced) if replaced else frozen)


def thaw_view(data: bytes | memoryview, meter: Meter | None) -> View:
    """The view that was frozen. BadInput if these bytes are no view, or one of another version."""
    frozen = _decode(data)
    view = View(meter, frozenset(frozen.skip))
    view.items = frozen.items
    view.orphans = frozen.orphans
    view.unanswered = frozen.unanswered
    view.system = frozen.system
    view.system_tokens = frozen.system_tokens
    view.system_at = frozen.system_at
    view.tools = frozen.tools
    view.tools_tokens = frozen.tools_tokens
    view.tools_at = frozen.tools_at
    view.tokens = frozen.tokens
    view.metered = frozen.metered
    view.visible_turns = frozen.visible_turns
    view.tool_result_count = frozen.tool_result_count
    view.tool_call_count = frozen.tool_call_count
    view.total_turns = frozen.total_turns
    view.started_turns = frozen.started_turns
    view.total_tokens_said = frozen.total_tokens_said
    view.reply_count = frozen.reply_count
    view.last_reply_time = frozen.last_reply_time
    view.head = frozen.head
    view.said_seq = frozen.said_seq
    view.prefix_seq = frozen.prefix_seq
    view.edited_seq = frozen.edited_seq
    view.recoveries = frozen.recoveries
    view.newest_request = frozen.newest_request
    view.last_fired = frozen.last_fired
    view.usage = frozen.usage
    view.tokens_since_report = frozen.tokens_since_report
    view.metered_since_report = frozen.metered_since_report
    view.scale_by_model = frozen.scale_by_model
    view.fruitless_rules = frozen.fruitless_rules
    view.model_note = frozen.model_note
    view.removed_rules = frozen.removed_rules
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
