"""The Anthropic Messages dialect."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidegate.core.usage import Usage
from tidegate.wire.anthropic.client_request import read_anthropic
from tidegate.wire.anthropic.compaction import ANTHROPIC_COMPACTION
from tidegate.wire.anthropic.encode import encode_body, encode_frames
from tidegate.wire.anthropic.merge import AnthropicMerger
from tidegate.wire.anthropic.message_form import ANTHROPIC_CALLS, ANTHROPIC_FORM
from tidegate.wire.anthropic.models import accepts_system_messages, binds_prefix, demands_loop_start
from tidegate.wire.anthropic.parse import PART_TYPES, parse_body, parse_message, recognize_body
from tidegate.wire.anthropic.render import (
    CAPABILITIES,
    add_cache_marker,
    allows_thinking,
    render_block,
    render_head,
    render_leading_messages,
    starts_loops_with_thinking,
)
from tidegate.wire.anthropic.stream import AnthropicAssembler, frames_from_body
from tidegate.wire.anthropic.thinking_option import ANTHROPIC_THINKING
from tidegate.wire.anthropic.validate import AnthropicValidator
from tidegate.wire.dialect import AnswerForm, Dialect, Endpoint, MessageMarks, RequestPaths, Vendor
from tidegate.wire.splicing.options import OutputLimit, read_marked_lifetime
from tidegate.wire.usage import INPUT_USAGE, bound_usage


def _read_compaction(usage: Mapping[str, object]) -> Usage | None:
    """Read what a compaction cost; None if there was none.

    The numbers at the top leave compactions out; each is an entry of `iterations`
    (https://platform.claude.com/docs/en/build-with-claude/compaction-threshold).
    """
    entries = usage.get("iterations")
    if not isinstance(entries, list):
        return None
    compactions = [each for each in entries if isinstance(each, Mapping) and each.get("type") == "compaction"]
    if not compactions:
        return None
    return Usage(*(sum(numbers) for numbers in zip(*map(_read_iteration, compactions), strict=True)))


def _read_iteration(usage: Mapping[str, object]) -> Usage:
    return bound_usage(INPUT_USAGE.read(usage))


ANTHROPIC_USAGE: Final = INPUT_USAGE._replace(
    further_fields=("cache_read_input_tokens", "cache_creation_input_tokens"), read_compaction=_read_compaction
)


DIALECT = Dialect(
    name="anthropic",
    capabilities=CAPABILITIES,
    endpoint=Endpoint(
        "https://api.anthropic.com",
        "/v1/messages",
        "x-api-key",
        "",
        # The version that every compatible server knows; the `headers` of a provider replace it.
        headers=MappingProxyType({"anthropic-version": "2023-06-01"}),
        has_model_pages=True,
    ),
    vendor=Vendor("anthropic", "ANTHROPIC_API_KEY", "anthropic", ("claude",)),
    render_head=render_head,
    render_leading_messages=render_leading_messages,
    render_block=render_block,
    parse_message=parse_message,
    answers=AnswerForm(
        AnthropicAssembler, frames_from_body, encode_frames, encode_body, AnthropicMerger, names_events=True
    ),
    parse_body=parse_body,
    form=ANTHROPIC_FORM,
    calls=ANTHROPIC_CALLS,
    read_request=read_anthropic,
    output=OutputLimit((("max_tokens",),), ANTHROPIC_THINKING.lower_budget),
    thinking=ANTHROPIC_THINKING,
    usage=ANTHROPIC_USAGE,
    paths=RequestPaths(
        ("/messages", ":rawPredict", ":streamRawPredict"),
        count_endings=("/messages/count_tokens", "/models/count-tokens:rawPredict"),
        sdk="anthropic",
    ),
    marks=MessageMarks(part_types=PART_TYPES, has_text_lists=True),
    recognize_body=recognize_body,
    create_validator=AnthropicValidator,
    binds_prefix=binds_prefix,
    keeps_loop_start=demands_loop_start,
    takes_instructions=accepts_system_messages,
    starts_loops_with_thinking=starts_loops_with_thinking,
    allows_thinking=allows_thinking,
    add_cache_marker=add_cache_marker,
    read_cache_lifetime=read_marked_lifetime,
    compaction=ANTHROPIC_COMPACTION,
)
