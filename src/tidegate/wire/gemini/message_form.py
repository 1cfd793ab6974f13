"""How Gemini writes messages, calls and results into a client's request."""

import msgspec

from tidegate.core.messages import Result, Tool
from tidegate.wire.gemini.field_names import get_field
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.splicing.block_form import BlockForm, BlockRules, wrap_result
from tidegate.wire.splicing.call_form import CallForm
from tidegate.wire.splicing.hidden_answers import HiddenResult
from tidegate.wire.splicing.spans import find_elements, find_members, rebuild_array, replace_value
from tidegate.wire.streaming.reply import as_list

_encode = msgspec.json.encode


def _encode_result(result: Result, call_block: JsonObject) -> bytes:
    """A response with the name of its call, and with the id that the client gave the call, if it did."""
    call = call_block.get("functionCall", call_block.get("function_call"))
    response: dict[str, object] = {"name": result.call_id, "response": wrap_result(result)}
    if isinstance(call, dict):
        response |= {key: call[key] for key in ("id", "name") if isinstance(call.get(key), str)}
    return _encode({"functionResponse": response})


def _encode_hidden_result(result: HiddenResult) -> bytes:
    ident = {} if result.call_id == result.name else {"id": result.call_id}  # a call without an id has its name
    return _encode({"functionResponse": {**ident, "name": result.name, "response": {"output": result.text}}})


def _encode_tool(tool: Tool, schema: msgspec.Raw) -> bytes:
    return _encode({"name": tool.name, "description": tool.description, "parametersJsonSchema": schema})


def _add_declaration(elements: list[bytes], tool: Tool, schema: msgspec.Raw) -> list[bytes] | None:
    for place in reversed(range(len(elements))):
        for key in ("functionDeclarations", "function_declarations"):
            if member := find_members(elements[place]).get(key):
                listed = elements[place][member.value : member.end]
                if listed[:1] != b"[":
                    return None
                declared = [listed[each.start : each.end] for each in find_elements(listed)]
                new = rebuild_array(listed, [*declared, _encode_tool(tool, schema)])
                return [*elements[:place], replace_value(elements[place], (key,), new), *elements[place + 1 :]]
    return None


GEMINI_FORM = BlockForm(
    BlockRules(
        key="contents",
        blocks_key="parts",
        assistant_role="model",
        encode_text=lambda text: _encode({"text": text}),
        encode_result=_encode_result,
        encode_hidden_result=_encode_hidden_result,
        is_result=lambda block: "functionResponse" in block or "function_response" in block,
        call_paths=(("functionCall", "args"), ("function_call", "args")),
        wrapped_result_paths=(("functionResponse", "response"), ("function_response", "response")),
    )
)
GEMINI_CALLS = CallForm(
    _encode_tool,
    calls_key="parts",
    holder="functionCall",
    arguments_key="args",
    add_tool=_add_declaration,
    list_functions=lambda tool: as_list(get_field(tool, "functionDeclarations")),
)
