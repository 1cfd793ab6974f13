"""The Gemini generateContent dialect."""

from collections.abc import Mapping
from typing import Final

from tidegate.core.usage import Usage
from tidegate.wire.dialect import AnswerForm, Dialect, Endpoint, MessageMarks, RequestPaths, Vendor
from tidegate.wire.gemini.client_request import read_gemini, to_gemini_client_messages
from tidegate.wire.gemini.encode import encode_body, encode_frames
from tidegate.wire.gemini.merge import GeminiMerger
from tidegate.wire.gemini.message_form import GEMINI_CALLS, GEMINI_FORM
from tidegate.wire.gemini.parse import parse_body, parse_message
from tidegate.wire.gemini.render import (
    CAPABILITIES,
    render_block,
    render_head,
    render_leading_messages,
    requires_signatures,
)
from tidegate.wire.gemini.stream import GeminiAssembler, frames_from_body
from tidegate.wire.gemini.validate import GeminiValidator
from tidegate.wire.splicing.options import OutputLimit
from tidegate.wire.usage import UsageForm, read_count
from tidegate.wire.validation.faults import ValidationProfile


def _read_usage(usage: Mapping[str, object]) -> Usage:
    # The total is the sum of four counts: thoughts and the input of Google's own tools are in no other one
    # (https://ai.google.dev/api/generate-content#UsageMetadata).
    read = read_count(usage, "promptTokenCount") + read_count(usage, "toolUsePromptTokenCount")
    output = read_count(usage, "candidatesTokenCount") + read_count(usage, "thoughtsTokenCount")
    return Usage(read, output, read_count(usage, "cachedContentTokenCount"), 0)


GEMINI_USAGE: Final = UsageForm(("promptTokenCount", "candidatesTokenCount"), _read_usage)


def _choose_profile(model: str) -> ValidationProfile:
    return ValidationProfile(requires_signatures=requires_signatures(model))


DIALECT = Dialect(
    name="gemini",
    capabilities=CAPABILITIES,
    endpoint=Endpoint(
        "https://generativelanguage.googleapis.com/v1beta",
        "/models/{model}:streamGenerateContent?alt=sse",
        "x-goog-api-key",
        "",
        stream_fields=b"",
        has_model_pages=True,
    ),
    vendor=Vendor("gemini", "GEMINI_API_KEY", "gcp.gemini", ("gemini",)),
    render_head=render_head,
    render_leading_messages=render_leading_messages,
    render_block=render_block,
    parse_message=parse_message,
    answers=AnswerForm(GeminiAssembler, frames_from_body, encode_frames, encode_body, GeminiMerger),
    parse_body=parse_body,
    form=GEMINI_FORM,
    calls=GEMINI_CALLS,
    read_request=read_gemini,
    output=OutputLimit((("generationConfig", "maxOutputTokens"),)),
    to_client_messages=to_gemini_client_messages,
    usage=GEMINI_USAGE,
    paths=RequestPaths((":generateContent", ":streamGenerateContent"), has_model=True),
    marks=MessageMarks(keys=frozenset({"parts"})),
    recognize_body=lambda body: 2 * isinstance(body.get("contents"), list),
    create_validator=GeminiValidator,
    profile_for_model=_choose_profile,
)
