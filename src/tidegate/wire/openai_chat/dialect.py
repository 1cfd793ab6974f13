"""The OpenAI Chat Completions dialect, and the form that the other dialects of its family fill in."""

from collections.abc import Callable, Mapping
from typing import Final

from tidegate.core.messages import Tool
from tidegate.core.usage import Usage
from tidegate.wire.dialect import AnswerForm, Dialect, Endpoint, MessageMarks, RequestPaths, Vendor, use_strict_profile
from tidegate.wire.openai_chat.client_request import read_openai_chat
from tidegate.wire.openai_chat.encode import encode_body, encode_frames
from tidegate.wire.openai_chat.merge import ChatMerger
from tidegate.wire.openai_chat.message_form import CHAT_CALLS, ChatForm
from tidegate.wire.openai_chat.parse import parse_body, parse_message, recognize_body
from tidegate.wire.openai_chat.render import CAPABILITIES, render_block, render_head, render_leading_messages
from tidegate.wire.openai_chat.stream import ChatAssembler, frames_from_body
from tidegate.wire.openai_chat.validate import ChatValidator
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.splicing.options import OutputLimit, read_requested_lifetime
from tidegate.wire.usage import UsageForm, read_count, read_details
from tidegate.wire.validation.faults import ValidationProfile


def _read_usage(usage: Mapping[str, object]) -> Usage:
    details = read_details(usage, "prompt_tokens_details")
    cached, cache_write = read_count(details, "cached_tokens"), read_count(details, "cache_write_tokens")
    return Usage(read_count(usage, "prompt_tokens"), read_count(usage, "completion_tokens"), cached, cache_write)


CHAT_USAGE: Final = UsageForm(("prompt_tokens", "completion_tokens"), _read_usage)


CHAT_PATH = "/chat/completions"
STREAM_WITH_USAGE = b'"stream":true,"stream_options":{"include_usage":true}'


def create_chat_dialect(
    name: str,
    capabilities: DialectCapabilities,
    *,
    endpoint: Endpoint,
    vendor: Vendor,
    render_head: Callable[[str, tuple[Tool, ...], RequestOptions, bool], JsonObject],
    render_block: Callable[[LayoutBlock, RequestOptions], list[JsonObject]],
    profile: Callable[[str], ValidationProfile],
) -> Dialect:
    return Dialect(
        name=name,
        capabilities=capabilities,
        endpoint=endpoint,
        vendor=vendor,
        render_head=render_head,
        render_leading_messages=render_leading_messages,
        render_block=render_block,
        parse_message=parse_message,
        answers=AnswerForm(
            ChatAssembler, frames_from_body, encode_frames, encode_body, ChatMerger, end_mark=b"data: [DONE]\n\n"
        ),
        parse_body=parse_body,
        form=ChatForm(),
        calls=CHAT_CALLS,
        read_request=read_openai_chat,
        output=OutputLimit((("max_completion_tokens",), ("max_tokens",))),
        usage=CHAT_USAGE,
        paths=RequestPaths(("/chat/completions",), sdk="openai"),
        marks=MessageMarks(usual_keys=frozenset({"tool_calls"}), roles=("tool", "developer")),
        recognize_body=recognize_body,
        create_validator=ChatValidator,
        profile_for_model=profile,
        read_cache_lifetime=read_requested_lifetime,
    )


DIALECT = create_chat_dialect(
    "openai_chat",
    CAPABILITIES,
    endpoint=Endpoint("https://api.openai.com/v1", CHAT_PATH, stream_fields=STREAM_WITH_USAGE, lists_windows=False),
    vendor=Vendor("openai", "OPENAI_API_KEY", "openai"),
    render_head=render_head,
    render_block=render_block,
    profile=use_strict_profile,
)
