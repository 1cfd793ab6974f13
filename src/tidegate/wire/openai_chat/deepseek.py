"""DeepSeek's dialect of OpenAI chat.

DeepSeek wants the reasoning of every assistant message back and refuses a history that lacks it anywhere. A message
that came without reasoning is sent with a placeholder; no reasoning is invented. Content is text only.
"""

from tidegate.core.messages import Thinking
from tidegate.wire.dialect import Dialect, Endpoint, Vendor
from tidegate.wire.openai_chat.dialect import CHAT_PATH, STREAM_WITH_USAGE, create_chat_dialect
from tidegate.wire.openai_chat.parse import FAMILY, NO_REASONING_TEXT
from tidegate.wire.openai_chat.render import CAPABILITIES, render_block, render_compatible_head
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.validation.faults import ChatDemands, ValidationProfile


def _render_block(block: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    messages = render_block(block, options)
    if block.side == "assistant":
        thoughts = [part.text for part in block.parts if isinstance(part, Thinking)]
        messages[0]["reasoning_content"] = "\n\n".join(thoughts) or NO_REASONING_TEXT
    return messages


def _choose_profile(model: str) -> ValidationProfile:
    return ValidationProfile(
        requires_reasoning=True,
        text_only=True,
        chat=ChatDemands(repeated_role_text="deepseek-reasoner does not support successive user or assistant messages"),
    )


DIALECT: Dialect = create_chat_dialect(
    "deepseek",
    DialectCapabilities(FAMILY, CAPABILITIES.identifiers, joins_texts=True, plain_thinking=True, user_images=False),
    endpoint=Endpoint("https://api.deepseek.com", CHAT_PATH, stream_fields=STREAM_WITH_USAGE, lists_windows=False),
    vendor=Vendor("deepseek", "DEEPSEEK_API_KEY", "deepseek", ("deepseek",)),
    render_head=render_compatible_head,
    render_block=_render_block,
    profile=_choose_profile,
)
