"""Mistral's dialect of OpenAI chat.

Call ids have nine letters or digits. There must be an assistant message between tool results and a user message.
"""

import re

from tidegate.wire.dialect import Dialect, Endpoint, Vendor
from tidegate.wire.openai_chat.dialect import CHAT_PATH, create_chat_dialect
from tidegate.wire.openai_chat.parse import FAMILY
from tidegate.wire.openai_chat.render import NAME_PATTERN, render_block, render_compatible_head
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import IdentifierRules
from tidegate.wire.validation.faults import ChatDemands, FaultWording, ValidationProfile

_BRIDGE_TEXT = "OK."
_CALL_ID_PATTERN = r"[a-zA-Z0-9]{9}"


def _render_block(block: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    messages = render_block(block, options)
    if block.answers and block.parts:
        messages.insert(-1, {"role": "assistant", "content": _BRIDGE_TEXT})
    return messages


_PROFILE = ValidationProfile(
    chat=ChatDemands(
        prefix_last=FaultWording("MI1", "Assistant message with prefix True must be last message"),
        user_after_results=FaultWording("MI1", "Unexpected role 'user' after role 'tool'"),
        system_after=FaultWording("MI1", "Unexpected role 'system' after role '{role}'"),
        last_role=FaultWording(
            "MI1", "Expected last role User or Tool (or Assistant with prefix) for serving but got {role}"
        ),
        result_count=FaultWording("MI2", "Not the same number of function calls and responses"),
        call_id=FaultWording("MI3", "Tool call id was {key} but must be a-z, A-Z, 0-9, with a length of 9."),
        call_id_pattern=_CALL_ID_PATTERN,
        content_or_calls=FaultWording("MI4", "Assistant message must have either content or tool_calls, but not both."),
        system_content=FaultWording("MI5", "System prompt must have content"),
        tool_rule="MI5",
        schema_text="Invalid tool schema",
        compiles_patterns=True,
    )
)


def _choose_profile(model: str) -> ValidationProfile:
    return _PROFILE


DIALECT: Dialect = create_chat_dialect(
    "mistral",
    DialectCapabilities(FAMILY, IdentifierRules(re.compile(_CALL_ID_PATTERN), NAME_PATTERN, 9), joins_texts=True),
    # Mistral reports usage unasked and refuses fields it does not know.
    endpoint=Endpoint("https://api.mistral.ai/v1", CHAT_PATH),
    vendor=Vendor("mistral", "MISTRAL_API_KEY", "mistral_ai", ("mistral",)),
    render_head=render_compatible_head,
    render_block=_render_block,
    profile=_choose_profile,
)
