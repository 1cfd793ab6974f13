"""The dialects by name, and telling in which of them a message is written."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, Self

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.messages import Message, Tool
from tidegate.wire import (
    anthropic,
    check_anthropic,
    check_gemini,
    check_openai_chat,
    check_openai_responses,
    gemini,
    openai_chat,
    openai_responses,
)
from tidegate.wire.blocks import Block, Json, Options, Rules
from tidegate.wire.faults import STRICT, Fault, Profile
from tidegate.wire.names import original_names
from tidegate.wire.reading import Parsed, a_dict, shown


class Checker(Protocol):
    """Judges a request message by message. A fork goes on apart from its parent."""

    def feed(self, message: object, /) -> None: ...
    def fork(self) -> Self: ...
    def finish(self) -> list[Fault]: ...


def always(messages: Sequence[Json]) -> bool:
    return True


def unmarked(message: Json) -> Json | None:
    return None


class Dialect(msgspec.Struct, frozen=True):
    """Everything there is to know of one way to write a request.

    `key` is where the messages stand in the body; `lead` gives those before the first block. `profile` tells, by the
    model, what the validator asks for. `may_think` says whether these messages let the request ask for thinking.
    `mark` gives a message with a mark for the provider's cache at its end, None where there is no such thing.
    """

    name: str
    key: str
    rules: Rules
    head: Callable[[str, tuple[Tool, ...], Options, bool], Json]
    lead: Callable[[str], list[Json]]
    block: Callable[[Block, Options], list[Json]]
    parse_message: Callable[[object], list[Message]]
    parse_body: Callable[[object], Parsed]
    check: Callable[[Mapping[str, object], Profile], Checker]
    profile: Callable[[str], Profile]
    may_think: Callable[[Sequence[Json]], bool] = always
    mark: Callable[[Json], Json | None] = unmarked

    def output(self, options: Options) -> int:
        """How many tokens of output a request asks for; 0: as many as the model gives."""
        return options.max_tokens or self.rules.output

    @property
    def family(self) -> str:
        """What `Message.origin` must say for opaque data to be sent."""
        return self.rules.family

    @property
    def sends_thinking(self) -> bool:
        """Whether plain reasoning text is part of a request, and so of its cost."""
        return self.rules.plain_thinking

    def tool_names(self, tools: tuple[Tool, ...]) -> dict[str, str]:
        """From the names a model will use to those of the tools."""
        return original_names(tools, self.rules.shape)


def _strict(model: str) -> Profile:
    return STRICT


def _mistral(model: str) -> Profile:
    return Profile(mistral=True)


def _deepseek(model: str) -> Profile:
    return Profile(reasoning=True, text_only=True)


def _gemini(model: str) -> Profile:
    return Profile(gemini3=gemini.wants_signatures(model))


def _chat(
    name: str,
    rules: Rules,
    head: Callable[[str, tuple[Tool, ...], Options, bool], Json],
    block: Callable[[Block, Options], list[Json]],
    profile: Callable[[str], Profile],
) -> Dialect:
    return Dialect(
        name,
        "messages",
        rules,
        head,
        openai_chat.lead,
        block,
        openai_chat.parse_message,
        openai_chat.parse_body,
        check_openai_chat.Check,
        profile,
    )


_ALL = (
    _chat("openai_chat", openai_chat.RULES, openai_chat.head, openai_chat.block, _strict),
    _chat("mistral", openai_chat.MISTRAL, openai_chat.compatible_head, openai_chat.mistral_block, _mistral),
    _chat("deepseek", openai_chat.DEEPSEEK, openai_chat.compatible_head, openai_chat.deepseek_block, _deepseek),
    Dialect(
        "openai_responses",
        "input",
        openai_responses.RULES,
        openai_responses.head,
        openai_responses.lead,
        openai_responses.block,
        openai_responses.parse_message,
        openai_responses.parse_body,
        check_openai_responses.Check,
        _strict,
    ),
    Dialect(
        "anthropic",
        "messages",
        anthropic.RULES,
        anthropic.head,
        anthropic.lead,
        anthropic.block,
        anthropic.parse_message,
        anthropic.parse_body,
        check_anthropic.Check,
        _strict,
        anthropic.may_think,
        anthropic.mark,
    ),
    Dialect(
        "gemini",
        "contents",
        gemini.RULES,
        gemini.head,
        gemini.lead,
        gemini.block,
        gemini.parse_message,
        gemini.parse_body,
        check_gemini.Check,
        _gemini,
    ),
)
DIALECTS: Mapping[str, Dialect] = MappingProxyType({dialect.name: dialect for dialect in _ALL})


def dialect_of(name: str) -> Dialect:
    if name not in DIALECTS:
        raise BadInput(f"The dialect '{shown(name)}' is unknown.", f"Use one of {', '.join(DIALECTS)}.")
    return DIALECTS[name]


_ANTHROPIC_ONLY = frozenset({"image", "tool_use", "tool_result", "thinking", "redacted_thinking"})
_RESPONSES_ONLY = frozenset({"input_text", "output_text", "input_image", "input_file"})


def detect(obj: object) -> str:
    """The dialect a single message, item or content is written in.

    What two dialects write alike is read alike by both, so either answer is right; only an assistant message keeps
    the name, as its origin, and then a list of texts is what Anthropic answers with.
    """
    message = a_dict(obj, "A message")
    if "parts" in message:
        return gemini.FAMILY
    content = message.get("content")
    kinds = (
        {str(part.get("type")) for part in content if isinstance(part, dict)} if isinstance(content, list) else set()
    )
    if kinds & _ANTHROPIC_ONLY:
        return anthropic.FAMILY
    if kinds & _RESPONSES_ONLY:
        return openai_responses.FAMILY
    if "tool_calls" in message or message.get("role") in ("tool", "developer"):
        return openai_chat.FAMILY
    answered = message.get("role") == "assistant" and bool(kinds) and kinds <= {"text"}
    if answered or (kinds and isinstance(message.get("type"), str)):
        return anthropic.FAMILY
    return openai_responses.FAMILY if isinstance(message.get("type"), str) else openai_chat.FAMILY


def parse_any(obj: object) -> list[Message]:
    """Read a message in whatever dialect it is written."""
    return DIALECTS[detect(obj)].parse_message(obj)
