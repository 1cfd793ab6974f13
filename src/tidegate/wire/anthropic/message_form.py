"""How Anthropic writes messages, calls and results into a client's request."""

import msgspec

from tidegate.core.messages import Result, Tool
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.block_form import BlockForm, BlockRules
from tidegate.wire.splicing.call_form import CallForm
from tidegate.wire.splicing.hidden_answers import HiddenResult
from tidegate.wire.splicing.message_form import join_result_text

_encode = msgspec.json.encode


def _encode_result(result: Result, _: JsonObject) -> bytes:
    block: dict[str, object] = {"type": "tool_result", "tool_use_id": result.call_id}
    return _encode(block | {"content": join_result_text(result), "is_error": result.error})


def _encode_hidden_result(result: HiddenResult) -> bytes:
    return _encode({"type": "tool_result", "tool_use_id": result.call_id, "content": result.text})


def _encode_tool(tool: Tool, schema: msgspec.Raw) -> bytes:
    return _encode({"name": tool.name, "description": tool.description, "input_schema": schema})


ANTHROPIC_FORM = BlockForm(
    BlockRules(
        key="messages",
        blocks_key="content",
        assistant_role="assistant",
        encode_text=lambda text: _encode({"type": "text", "text": text}),
        encode_result=_encode_result,
        encode_hidden_result=_encode_hidden_result,
        is_result=lambda block: block.get("type") == "tool_result",
        call_paths=(("input",),),
        bound_types=("thinking", "redacted_thinking"),
    )
)
ANTHROPIC_CALLS = CallForm(_encode_tool, calls_key="content", call_type="tool_use", arguments_key="input")
