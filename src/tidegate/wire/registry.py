"""The dialects by name, and telling in which of them a message is written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, Self

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.messages import Message, Tool
from tidegate.wire.anthropic import render as anthropic
from tidegate.wire.anthropic import validate as check_anthropic
from tidegate.wire.gemini import render as gemini
from tidegate.wire.gemini import validate as check_gemini
from tidegate.wire.openai_chat import render as openai_chat
from tidegate.wire.openai_chat import validate as check_openai_chat
from tidegate.wire.openai_responses import render as openai_responses
from tidegate.wire.openai_responses import validate as check_openai_responses
from tidegate.wire.parsing import (
    ParsedRequest,
    abbreviate_value,
    build_tool,
    require_field,
    require_list,
    require_object,
)
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import map_tool_names
from tidegate.wire.validation.faults import STRICT_PROFILE, RequestFault, ValidationProfile


class IncrementalValidator(Protocol):
    """Judges a request message by message. A fork goes on apart from its parent."""

    def feed(self, message: object, /) -> None: ...
    def fork(self) -> Self: ...
    def finish(self) -> list[RequestFault]: ...


def _allow_thinking(messages: Sequence[JsonObject]) -> bool:
    return True


def _add_no_marker(message: JsonObject) -> JsonObject | None:
    return None


class Dialect(msgspec.Struct, frozen=True):
    """Everything there is to know of one way to write a request.

    `key` is where the messages stand in the body; `lead` gives those before the first block. `profile` tells, by the
    model, what the validator asks for. `may_think` says whether these messages let the request ask for thinking.
    `mark` gives a message with a mark for the provider's cache at its end, None where there is no such thing.
    """

    name: str
    messages_key: str
    capabilities: DialectCapabilities
    render_head: Callable[[str, tuple[Tool, ...], RequestOptions, bool], JsonObject]
    render_leading_messages: Callable[[str], list[JsonObject]]
    render_block: Callable[[LayoutBlock, RequestOptions], list[JsonObject]]
    parse_message: Callable[[object], list[Message]]
    parse_body: Callable[[object], ParsedRequest]
    create_validator: Callable[[Mapping[str, object], ValidationProfile], IncrementalValidator]
    profile_for_model: Callable[[str], ValidationProfile]
    allows_thinking: Callable[[Sequence[JsonObject]], bool] = _allow_thinking
    add_cache_marker: Callable[[JsonObject], JsonObject | None] = _add_no_marker

    def output_tokens(self, options: RequestOptions) -> int:
        """How many tokens of output a request asks for; 0: as many as the model gives."""
        return options.max_tokens or self.capabilities.default_max_tokens

    @property
    def family(self) -> str:
        """What `Message.origin` must say for opaque data to be sent."""
        return self.capabilities.family

    @property
    def sends_thinking(self) -> bool:
        """Whether plain reasoning text is part of a request, and so of its cost."""
        return self.capabilities.plain_thinking

    def tool_names(self, tools: tuple[Tool, ...]) -> dict[str, str]:
        """From the names a model will use to those of the tools."""
        return map_tool_names(tools, self.capabilities.identifiers)


def _strict_profile(model: str) -> ValidationProfile:
    return STRICT_PROFILE


def _mistral_profile(model: str) -> ValidationProfile:
    return ValidationProfile(mistral=True)


def _deepseek_profile(model: str) -> ValidationProfile:
    return ValidationProfile(requires_reasoning=True, text_only=True)


def _gemini_profile(model: str) -> ValidationProfile:
    return ValidationProfile(requires_signatures=gemini.requires_signatures(model))


def _chat_dialect(
    name: str,
    rules: DialectCapabilities,
    head: Callable[[str, tuple[Tool, ...], RequestOptions, bool], JsonObject],
    block: Callable[[LayoutBlock, RequestOptions], list[JsonObject]],
    profile: Callable[[str], ValidationProfile],
) -> Dialect:
    return Dialect(
        name,
        "messages",
        rules,
        head,
        openai_chat.render_leading_messages,
        block,
        openai_chat.parse_message,
        openai_chat.parse_body,
        check_openai_chat.ChatValidator,
        profile,
    )


_ALL = (
    _chat_dialect(
        "openai_chat", openai_chat.CAPABILITIES, openai_chat.render_head, openai_chat.render_block, _strict_profile
    ),
    _chat_dialect(
        "mistral",
        openai_chat.MISTRAL_CAPABILITIES,
        openai_chat.render_compatible_head,
        openai_chat.render_mistral_block,
        _mistral_profile,
    ),
    _chat_dialect(
        "deepseek",
        openai_chat.DEEPSEEK_CAPABILITIES,
        openai_chat.render_compatible_head,
        openai_chat.render_deepseek_block,
        _deepseek_profile,
    ),
    Dialect(
        "openai_responses",
        "input",
        openai_responses.CAPABILITIES,
        openai_responses.render_head,
        openai_responses.render_leading_messages,
        openai_responses.render_block,
        openai_responses.parse_message,
        openai_responses.parse_body,
        check_openai_responses.ResponsesValidator,
        _strict_profile,
    ),
    Dialect(
        "anthropic",
        "messages",
        anthropic.CAPABILITIES,
        anthropic.render_head,
        anthropic.render_leading_messages,
        anthropic.render_block,
        anthropic.parse_message,
        anthropic.parse_body,
        check_anthropic.AnthropicValidator,
        _strict_profile,
        anthropic.allows_thinking,
        anthropic.add_cache_marker,
    ),
    Dialect(
        "gemini",
        "contents",
        gemini.CAPABILITIES,
        gemini.render_head,
        gemini.render_leading_messages,
        gemini.render_block,
        gemini.parse_message,
        gemini.parse_body,
        check_gemini.GeminiValidator,
        _gemini_profile,
    ),
)
DIALECTS: Mapping[str, Dialect] = MappingProxyType({dialect.name: dialect for dialect in _ALL})


def get_dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise BadInput(f"The dialect '{abbreviate_value(name)}' is unknown.", f"Use one of {', '.join(DIALECTS)}.")
    return DIALECTS[name]


_ANTHROPIC_PART_TYPES = frozenset({"image", "tool_use", "tool_result", "thinking", "redacted_thinking"})
_RESPONSES_PART_TYPES = frozenset({"input_text", "output_text", "input_image", "input_file"})


def detect_dialect(obj: object) -> str:
    """The dialect a single message, item or content is written in.

    What two dialects write alike is read alike by both, so either answer is right; only an assistant message keeps
    the name, as its origin, and then a list of texts is what Anthropic answers with.
    """
    message = require_object(obj, "A message")
    if "parts" in message:
        return gemini.FAMILY
    content = message.get("content")
    kinds = (
        {str(part.get("type")) for part in content if isinstance(part, dict)} if isinstance(content, list) else set()
    )
    if kinds & _ANTHROPIC_PART_TYPES:
        return anthropic.FAMILY
    if kinds & _RESPONSES_PART_TYPES:
        return openai_responses.FAMILY
    if "tool_calls" in message or message.get("role") in ("tool", "developer"):
        return openai_chat.FAMILY
    answered = message.get("role") == "assistant" and bool(kinds) and kinds <= {"text"}
    if answered or (kinds and isinstance(message.get("type"), str)):
        return anthropic.FAMILY
    return openai_responses.FAMILY if isinstance(message.get("type"), str) else openai_chat.FAMILY


def parse_any_message(obj: object) -> list[Message]:
    """Read a message in whatever dialect it is written."""
    return DIALECTS[detect_dialect(obj)].parse_message(obj)


# Tool definitions and model names, in whatever form they are handed in.

_MODEL_PREFIXES = (("claude", "anthropic"), ("gemini", "gemini"), ("mistral", "mistral"), ("deepseek", "deepseek"))


def resolve_dialect(wire: str, model: str) -> Dialect:
    """The dialect of this name; without a name the one the model's maker speaks, else OpenAI chat."""
    if wire:
        return get_dialect(wire)
    name = model.rsplit("/", 1)[-1].lower()
    return DIALECTS[next((wire for start, wire in _MODEL_PREFIXES if name.startswith(start)), "openai_chat")]


def parse_tools(tools: Iterable[Mapping[str, object] | Tool]) -> tuple[Tool, ...]:
    """Tools in the form of OpenAI (chat, Responses), Anthropic or Gemini."""
    found: list[Tool] = []
    for tool in tools:
        found.extend([tool] if isinstance(tool, Tool) else _read_tools(require_object(tool, "A tool")))
    names = [tool.name for tool in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"The tool {twice[0]!r} is defined twice.", "Give every tool a name of its own.")
    return tuple(found)


def _read_tools(tool: dict[str, object]) -> list[Tool]:
    if "functionDeclarations" in tool:
        return [
            one
            for each in require_list(tool["functionDeclarations"], "tools")
            for one in _read_tools(require_object(each, "A tool"))
        ]
    inner = require_object(tool["function"], "A tool's function") if "function" in tool else tool
    schema = inner.get("parameters", inner.get("input_schema"))
    return [build_tool(require_field(inner, "name", "A tool"), inner.get("description"), schema)]
