"""The dialects by name, and the dialect in which a message, a tool or a model's name is written."""

from collections.abc import Iterable, Mapping
from typing import Final

from tidegate.core.errors import BadInput
from tidegate.core.messages import Message, Tool
from tidegate.wire.anthropic.dialect import DIALECT as ANTHROPIC
from tidegate.wire.dialect import Dialect, MessageMarks
from tidegate.wire.gemini.dialect import DIALECT as GEMINI
from tidegate.wire.openai_chat.deepseek import DIALECT as DEEPSEEK
from tidegate.wire.openai_chat.dialect import DIALECT as OPENAI_CHAT
from tidegate.wire.openai_chat.mistral import DIALECT as MISTRAL
from tidegate.wire.openai_responses.dialect import DIALECT as OPENAI_RESPONSES
from tidegate.wire.parsing import (
    abbreviate_value,
    build_tool,
    require_field,
    require_list,
    require_object,
    to_plain_json,
)

DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.name: dialect for dialect in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, DEEPSEEK, MISTRAL)
}


def get_dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise BadInput(f"The dialect '{abbreviate_value(name)}' is unknown.", f"Use one of {', '.join(DIALECTS)}.")
    return DIALECTS[name]


def detect_dialect(obj: object) -> str:
    """Return the name of the dialect in which a single message, item or content is written.

    Where two dialects have the same form, both parse it alike, so either answer is right. Only an assistant message
    keeps the name, as its origin; a list of texts is then Anthropic's form.
    """
    message = require_object(obj, "A message")
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    types = {str(part.get("type")) for part in parts if isinstance(part, dict)}
    return max(DIALECTS.values(), key=lambda dialect: _weigh_marks(dialect.marks, message, types)).name


def _weigh_marks(marks: MessageMarks, message: dict[str, object], types: set[str]) -> int:
    if not marks.keys.isdisjoint(message):
        return 5
    if not marks.part_types.isdisjoint(types):
        return 4
    role = message.get("role")
    if not marks.usual_keys.isdisjoint(message) or role in marks.roles:
        return 3
    has_type = isinstance(message.get("type"), str)
    if marks.has_text_lists and types and (has_type or (role == "assistant" and types <= {"text"})):
        return 2
    return 1 if marks.has_type and has_type else 0


def detect_request_dialect(body: Mapping[str, object]) -> Dialect | None:
    """Return the dialect in which the body of a request is written; None if it is not a request."""
    found = max(DIALECTS.values(), key=lambda dialect: dialect.recognize_body(body))
    return found if found.recognize_body(body) else None


def parse_any_message(obj: object) -> list[Message]:
    """Parse a message of any dialect."""
    return DIALECTS[detect_dialect(obj)].parse_message(obj)


def find_dialect_of_model(model: str) -> Dialect | None:
    """Return the dialect of the provider whose models have names like this, if one is known."""
    name = model.rsplit("/", 1)[-1].lower()
    return next(
        (each for each in DIALECTS.values() if each.vendor and name.startswith(each.vendor.model_prefixes)), None
    )


def resolve_dialect(wire: str, model: str) -> Dialect:
    """Return the dialect of this name; without a name that of the model's maker, else OpenAI chat."""
    return get_dialect(wire) if wire else find_dialect_of_model(model) or OPENAI_CHAT


def parse_tools(tools: Iterable[Mapping[str, object] | Tool]) -> tuple[Tool, ...]:
    """Parse tools in the form of OpenAI (chat, Responses), Anthropic or Gemini."""
    found: list[Tool] = []
    for tool in tools:
        found.extend([tool] if isinstance(tool, Tool) else _read_tools(require_object(to_plain_json(tool), "A tool")))
    names = [tool.name for tool in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"The tool {twice[0]!r} is defined twice.", "Give every tool its own name.")
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
