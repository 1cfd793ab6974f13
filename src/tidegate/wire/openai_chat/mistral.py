"""Mistral's dialect of OpenAI chat.

Call ids have nine letters or digits. An assistant message must stand between tool results and a user message.
"""

import re

from tidegate.wire.dialect import Dialect, Endpoint, Vendor
from tidegate.wire.openai_chat.dialect import CHAT_PATH, create_chat_dialect
from tidegate.wire.openai_chat.parse import FAMILY
from tidegate.wire.openai_chat.render import NAME_PATTERN, render_block, render_compatible_head
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import IdentifierRules
from tidegate.wire.validation.faults import ValidationProfile

_BRIDGE_TEXT = "OK."


def _render_block(block: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    messages = render_block(block, options)
    if block.answers and block.parts:
        messages.insert(-1, {"role": "assistant", "content": _BRIDGE_TEXT})
    return messages


def _choose_profile(model: str) -> ValidationProfile:
    return ValidationProfile(mistral=True)


DIALECT: Dialect = create_chat_dialect(
    "mistral",
    DialectCapabilities(FAMILY, IdentifierRules(re.compile(r"[a-zA-Z0-9]{9}"), NAME_PATTERN, 9), joins_texts=True),
    # Mistral reports usage unasked and refuses fields it does not know.
    endpoint=Endpoint("https://api.mistral.ai/v1", CHAT_PATH),
    vendor=Vendor("mistral", "MISTRAL_API_KEY", "mistral_ai", ("mistral",)),
    render_head=render_compatible_head,
    render_block=_render_block,
    profile=_choose_profile,
)
