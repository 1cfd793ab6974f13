"""Anthropic's compaction on demand, strict as documented.

https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand (requests, errors, usage) and
https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks (thinking in the turns that follow)
"""

from typing import Any

import msgspec

from tests.fake.issued_thinking import IssuedThinking
from tests.fake.words import Refusal, refusal
from tidegate.core.usage import Usage

Json = dict[str, Any]
BETA = "compact-2026-09-04"
_FIELDS = frozenset({"type", "content", "signature", "cache_control"})


class OnDemandCompaction:
    """The blocks that a server has signed. `issued` learns what each stands for."""

    def __init__(self, issued: IssuedThinking | None) -> None:
        self._issued = issued
        self.blocks: dict[str, Json] = {}
        self.requests: list[Json] = []

    def judge(self, body: Json, betas: str) -> Refusal | None:
        """What is wrong with a request that asks for a block, or carries one that was signed."""
        asks, has_beta = "compaction" in body, BETA in betas
        if asks and not has_beta:
            return _refuse(f"compaction: the `compaction` parameter requires anthropic-beta: {BETA}")
        if asks:
            fault = _find_conflict(body)
            if fault:
                return _refuse(fault)
        found = [(place, number, block) for place, number, block in _list_blocks(body) if _is_compaction(block)]
        signed = [each for each in found if "signature" in each[2]]
        if not signed:
            return None
        if not has_beta:
            return _refuse(
                "messages.0.content.0: Input tag 'compaction' found using 'type' does not match any of the expected"
                " tags: 'text', 'image', 'thinking', 'redacted_thinking', 'tool_use', 'tool_result'"
            )
        return self._judge_block(body, signed)

    def _judge_block(self, body: Json, signed: list[tuple[int, int, Json]]) -> Refusal | None:
        if len(signed) > 1:
            return _refuse("messages: at most one `compaction` block is allowed per request")
        place, number, block = signed[0]
        if (place, number) != (0, 0):
            return _refuse("The `compaction` block must come first in `messages`.", "compaction_block_misplaced")
        extra = sorted(set(block) - _FIELDS)
        if extra:
            return _refuse(f"messages.0.content.0.compaction.{extra[0]}: Extra inputs are not permitted")
        known = self.blocks.get(block["signature"])
        if known is None:
            return _refuse("`compaction` block has an invalid `signature`", "compaction_signature_invalid")
        if block["content"] != known["content"]:
            text = "`compaction` block `content` does not match its `signature`"
            return _refuse(text, "compaction_content_mismatch")
        if "compact_20260112" in str(body.get("context_management")):
            return _refuse("compact_20260112 cannot run on a request with a signed `compaction` block")
        return None

    def answer(self, body: Json, text: str, usage: Usage) -> Json:
        """The answer to a request for a block; without a text, that of a call which gave no summary."""
        self.requests.append(body)
        content: list[Json] = []
        if text:
            block = {"type": "compaction", "content": text, "signature": f"sealed-{len(self.blocks)}"}
            self.blocks[block["signature"]] = block
            content = [block]
            if self._issued is not None:
                self._issued.issue_compaction(body, block["signature"])
        spent = {"type": "compaction", "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        return {
            "id": f"msg_compaction_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "compaction" if text else "refusal",
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0, "iterations": [spent]},
        }


def encode_stream(answer: Json) -> bytes:
    """ "The block arrives whole": one `content_block_start` with all of it, and no deltas."""
    start = {**answer, "content": [], "stop_reason": None}
    frames: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(answer["content"]):
        frames.append({"type": "content_block_start", "index": index, "content_block": block})
        frames.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    frames.append({"type": "message_delta", "delta": delta, "usage": answer["usage"]})
    frames.append({"type": "message_stop"})
    return b"".join(b"event: %s\ndata: %s\n\n" % (f["type"].encode(), msgspec.json.encode(f)) for f in frames)


def _refuse(text: str, code: str = "") -> Refusal:
    found = refusal("anthropic", 400, text)
    if not code:
        return found
    body = msgspec.json.decode(found.body, type=dict[str, Any])
    body["error"]["details"] = {"error_code": code}
    return found._replace(body=msgspec.json.encode(body))


def _find_conflict(body: Json) -> str:
    output, choice = body.get("output_config") or {}, body.get("tool_choice") or {}
    instructions = body["compaction"].get("instructions") or ""
    if body["compaction"].get("type") != "summarize":
        return "compaction.type: Input should be 'summarize'"
    if len(instructions) > 16_384:
        return "compaction.instructions: String should have at most 16384 characters"
    for name in ("context_management", "stop_sequences"):
        if body.get(name):
            return f"compaction: cannot be combined with `{name}`"
    if output.get("format") or (output.get("task_budget") or {}).get("remaining") is not None:
        return "compaction: cannot be combined with this `output_config`"
    if choice.get("type") in ("any", "tool"):
        return f"compaction: cannot be combined with `tool_choice` of type `{choice['type']}`"
    return ""


def _list_blocks(body: Json) -> list[tuple[int, int, Json]]:
    return [
        (place, number, block)
        for place, message in enumerate(body["messages"])
        for number, block in enumerate(message["content"] if isinstance(message["content"], list) else [])
    ]


def _is_compaction(block: Json) -> bool:
    return block.get("type") == "compaction"
