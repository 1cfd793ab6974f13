"""The option `thinking` of Anthropic: its budget, and what a request may say about thinking in a wrong place."""

import msgspec

from tidegate.wire.anthropic.models import accepts_block_binding
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.options import THINKING_OPTION, ThinkingOption
from tidegate.wire.splicing.spans import find_members, rebuild_array, remove_member, replace_value

_MIN_BUDGET = 1024


class AnthropicThinking(ThinkingOption):
    beta = "anthropic-beta", "thinking-binding-controls-2026-08-01"

    def leave_out(self, text: bytes) -> bytes:
        """The request without thinking, and without the provider's own edits of thinking, which need it."""
        text = remove_member(text, THINKING_OPTION)
        member = find_members(text).get("context_management")
        if member is None:
            return text
        managed = text[member.value : member.end]
        inner = find_members(managed).get("edits") if managed[:1] == b"{" else None
        if inner is None:
            return text
        listed = managed[inner.value : inner.end]
        edits = [
            bytes(raw)
            for raw in msgspec.json.decode(listed, type=list[msgspec.Raw])
            if b"clear_thinking" not in bytes(raw)
        ]
        if not edits:
            return remove_member(text, "context_management")
        return replace_value(text, ("context_management", "edits"), rebuild_array(listed, edits))

    def may_drop(self, model: str, host: str) -> bool:
        return accepts_block_binding(model, host)

    def allow_dropping(self, text: bytes) -> bytes:
        """The request that lets the provider drop thinking in a wrong place; as it is if it has no say.

        `thinking` must be on, and the client's own choice stays.
        """
        member = find_members(text).get(THINKING_OPTION)
        option = text[member.value : member.end] if member else b""
        if member is None or option[:1] != b"{":
            return text
        members = find_members(option)
        kind = option[members["type"].value : members["type"].end] if "type" in members else b""
        if kind not in (b'"adaptive"', b'"enabled"') or "block_binding" in members:
            return text
        asking = option[:-1].rstrip() + b',"block_binding":{"prefix_mismatch_behavior":"drop_block"}}'
        return text[: member.value] + asking + text[member.end :]

    def lower_budget(self, text: bytes, body: JsonObject, room: int) -> bytes:
        """Thinking needs a budget of its own, below the output; where that is impossible it is left out."""
        if self.read_budget(body) < room:
            return text
        budget = max(_MIN_BUDGET, room // 2)
        if budget >= room:
            return self.leave_out(text)
        return replace_value(text, (THINKING_OPTION, "budget_tokens"), str(budget).encode())


ANTHROPIC_THINKING = AnthropicThinking()
