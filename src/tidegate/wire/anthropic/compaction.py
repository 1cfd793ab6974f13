"""Compaction on demand: the provider writes a signed block that takes the place of all messages of a request.

The rules follow https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand, read in November 2026. The
block comes first in `messages` of every later request, with the same beta header, as it was returned.
"""

from collections.abc import Mapping
from typing import Final

from tidegate.core.messages import Compaction, Message
from tidegate.wire.anthropic.models import compacts_on_demand, serves_compaction
from tidegate.wire.dialect import CompactionForm
from tidegate.wire.parsing import decode_object
from tidegate.wire.rendering.blocks import JsonObject

COMPACTION_BETA: Final = "compact-2026-09-04"
_OPTION: Final = "compaction"
_MAX_INSTRUCTION_CHARS: Final = 16_384
_REFUSED_OPTIONS: Final = ("stop_sequences", "context_management", _OPTION)
_REFUSED_CHOICES: Final = ("any", "tool")


def _ask(head: JsonObject, instructions: str) -> JsonObject | None:
    """The head of a request that asks for a block; None if it has an option that the provider refuses beside it."""
    choice, output = head.get("tool_choice"), head.get("output_config")
    if any(head.get(name) for name in _REFUSED_OPTIONS):
        return None
    if isinstance(choice, Mapping) and choice.get("type") in _REFUSED_CHOICES:
        return None
    if isinstance(output, Mapping) and (output.get("format") or _has_remaining(output.get("task_budget"))):
        return None
    return {**head, _OPTION: {"type": "summarize", "instructions": instructions}}


def _has_remaining(budget: object) -> bool:
    return isinstance(budget, Mapping) and budget.get("remaining") is not None


def _read(answer: Message) -> Compaction | None:
    """The block of an answer, which has nothing else; None if it is not such a block."""
    part = answer.parts[0] if len(answer.parts) == 1 else None
    if not isinstance(part, Compaction):
        return None
    block = decode_object(part.block)
    is_signed = isinstance(block.get("signature"), str) and bool(block["signature"])
    return part if is_signed and part.text.strip() else None


ANTHROPIC_COMPACTION: Final = CompactionForm(
    beta=("anthropic-beta", COMPACTION_BETA),
    option=_OPTION,
    max_instruction_chars=_MAX_INSTRUCTION_CHARS,
    is_offered=compacts_on_demand,
    is_served=serves_compaction,
    ask=_ask,
    read=_read,
)
