"""Renderer for Gemini generateContent.

Calls have no id: results come in the order of the calls, one for each, all in one content, under the same name. A name
therefore serves as the id of a call that was read from a history without ids.

Gemini 3 signs the first call of each step and refuses it unsigned in the current turn. A call of another provider, or
one that lost its signature to an edit, gets the provider's placeholder. The placeholder stays after the turn: it is not
checked then, and removing it would change the prefix.
"""

import re
from collections.abc import Iterable

from tidegate.core.messages import Call, Image, Text, Thinking, Tool
from tidegate.wire.gemini.parse import FAMILY, SIGNATURE_PLACEHOLDER
from tidegate.wire.parsing import (
    decode_object,
)
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import IdentifierRules, ToolDefinition, define_tools
from tidegate.wire.rendering.layout import RESULT_SEPARATOR_CHARS, is_blank, join_within_spare

_IDENTIFIERS = IdentifierRules(re.compile(r"[!-~]+"), re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"))
CAPABILITIES = DialectCapabilities(FAMILY, _IDENTIFIERS, assistant_images=True)
_MODEL_PART_KEYS = frozenset(("text", "executableCode", "codeExecutionResult"))
_THOUGHT_KEYS = frozenset(("thought", "thoughtSignature"))
_UNSIGNED_MODELS = re.compile(r"gemini-[12]\b")


def render_head(system: str, tools: Iterable[Tool], options: RequestOptions, calls: bool = False) -> JsonObject:
    """Render the body without its contents. The model is part of the address."""
    body: JsonObject = {}
    if not is_blank(system):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    defined = define_tools(tools, CAPABILITIES.identifiers)
    if defined:
        body["tools"] = [{"functionDeclarations": [_render_declaration(each) for each in defined]}]
    config: JsonObject = {"maxOutputTokens": options.max_tokens} if options.max_tokens else {}
    config |= {{"top_p": "topP"}.get(name, name): value for name, value in options.sampling().items()}
    if options.thinking_budget:
        config["thinkingConfig"] = {"thinkingBudget": options.thinking_budget}
    if config:
        body["generationConfig"] = config
    return body


def _render_declaration(tool: ToolDefinition) -> JsonObject:
    declaration: JsonObject = {"name": tool.name}
    if tool.description:
        declaration["description"] = tool.description
    declaration["parametersJsonSchema"] = tool.schema
    return declaration


def render_leading_messages(system: str) -> list[JsonObject]:
    return []


def render_block(block: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    if block.side == "assistant":
        return [{"role": "model", "parts": _render_model_parts(block, requires_signatures(options.model))}]
    parts: list[JsonObject] = []
    for answer in block.answers:
        text = join_within_spare([part.text for part in answer.parts if isinstance(part, Text)], RESULT_SEPARATOR_CHARS)
        response = {"error" if answer.error else "output": text}
        parts.append({"functionResponse": {"name": answer.name, "response": response}})
    for part in block.parts:
        if isinstance(part, Text):
            parts.append({"text": part.text})
        elif isinstance(part, Image):
            parts.append(_render_image(part))
    return [{"role": "user", "parts": parts}]


def requires_signatures(model: str) -> bool:
    """Return whether calls must be signed: Gemini 3 and later, and any model without a known name."""
    return not _UNSIGNED_MODELS.search(model)


def _render_model_parts(block: LayoutBlock, signed: bool) -> list[JsonObject]:
    parts: list[JsonObject] = []
    has_call = False
    for part in block.parts:
        rendered_part: JsonObject = {}
        opaque = ""
        if isinstance(part, Text):
            rendered_part, opaque = {"text": part.text}, part.opaque
        elif isinstance(part, Image):
            rendered_part = _render_image(part)
        elif isinstance(part, Thinking):
            rendered_part = _validate_model_part(decode_object(part.block))
        elif isinstance(part, Call):
            rendered_part = {"functionCall": {"name": part.name, "args": decode_object(part.arguments)}}
            opaque = part.opaque or (SIGNATURE_PLACEHOLDER if signed and not has_call else "")
            has_call = True
        if opaque:
            rendered_part["thoughtSignature"] = opaque
        if rendered_part:
            parts.append(rendered_part)
    return parts


def _validate_model_part(part: JsonObject) -> JsonObject:
    """Return a part that Gemini made and that is more than a text (a signed thought, code it ran); {} for anything
    else.
    """
    whole = len(_MODEL_PART_KEYS & part.keys()) == 1 and part.keys() <= _MODEL_PART_KEYS | _THOUGHT_KEYS
    return part if whole and isinstance(part.get("text", ""), str) else {}


def _render_image(image: Image) -> JsonObject:
    if image.url:
        return {"fileData": {"mimeType": image.media, "fileUri": image.url}}
    return {"inlineData": {"mimeType": image.media, "data": image.data}}
