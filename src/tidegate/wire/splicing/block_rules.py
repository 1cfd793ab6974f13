"""How the dialects whose items have blocks write them: Anthropic's and Gemini's."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tidegate.core.messages import Result, Text
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.rendering.layout import NO_OUTPUT_TEXT

_encode = msgspec.json.encode


class BlockRules(NamedTuple):
    """How a dialect with blocks writes them. `encode_result` gets the block of the call, too.

    `wrapped_result_paths`: where a result is an object with the text in it; else it is the `content` of its block.
    `bound_types` are blocks that the provider refuses after a changed prefix.
    """

    key: str
    blocks_key: str
    assistant_role: str
    encode_text: Callable[[str], bytes]
    encode_result: Callable[[Result, JsonObject], bytes]
    is_result: Callable[[JsonObject], bool]
    call_paths: tuple[tuple[str, ...], ...]
    wrapped_result_paths: tuple[tuple[str, ...], ...]
    bound_types: tuple[str, ...] = ()


def join_result_text(result: Result) -> str:
    """The texts of a result as one; never empty, because some providers refuse that."""
    return "\n".join(part.text for part in result.parts if isinstance(part, Text)) or NO_OUTPUT_TEXT


def _encode_anthropic_result(result: Result, _: JsonObject) -> bytes:
    found: dict[str, object] = {"type": "tool_result", "tool_use_id": result.call_id}
    return _encode(found | {"content": join_result_text(result), "is_error": result.error})


def _encode_gemini_result(result: Result, call_block: JsonObject) -> bytes:
    """A response with the name of its call, and with the id that the client gave the call, if it did."""
    call = call_block.get("functionCall", call_block.get("function_call"))
    found: dict[str, object] = {"name": result.call_id, "response": wrap_result(result)}
    if isinstance(call, dict):
        found |= {key: call[key] for key in ("id", "name") if isinstance(call.get(key), str)}
    return _encode({"functionResponse": found})


def wrap_result(result: Result) -> dict[str, str]:
    """A result as an object, for a dialect that has no mark for errors."""
    return {"error" if result.error else "output": join_result_text(result)}


ANTHROPIC_BLOCKS = BlockRules(
    key="messages",
    blocks_key="content",
    assistant_role="assistant",
    encode_text=lambda text: _encode({"type": "text", "text": text}),
    encode_result=_encode_anthropic_result,
    is_result=lambda block: block.get("type") == "tool_result",
    call_paths=(("input",),),
    wrapped_result_paths=(),
    bound_types=("thinking", "redacted_thinking"),
)
GEMINI_BLOCKS = BlockRules(
    key="contents",
    blocks_key="parts",
    assistant_role="model",
    encode_text=lambda text: _encode({"text": text}),
    encode_result=_encode_gemini_result,
    is_result=lambda block: "functionResponse" in block or "function_response" in block,
    call_paths=(("functionCall", "args"), ("function_call", "args")),
    wrapped_result_paths=(("functionResponse", "response"), ("function_response", "response")),
)
