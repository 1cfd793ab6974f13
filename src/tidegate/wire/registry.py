"""The dialects by name, and the dialect in which a message, a tool or a model's name is written."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from tidegate.core.errors import BadInput
from tidegate.core.messages import Message, Tool
from tidegate.wire.anthropic.dialect import DIALECT as ANTHROPIC
from tidegate.wire.dialect import Dialect
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
    message, marks = require_object(obj, "A message"), _collect_marks(tuple(DIALECTS))
    for key in marks.keys:
        if key in message:
            return marks.keys[key]
    content = message.get("content")
    types: set[str] = set()
    if isinstance(content, list):
        types = {str(part.get("type")) for part in content if isinstance(part, dict)}
        if not types.isdisjoint(marks.part_types):
            return next(marks.part_types[kind] for kind in marks.part_types if kind in types)
    for key in marks.usual_keys:
        if key in message:
            return marks.usual_keys[key]
    role, has_type = message.get("role"), isinstance(message.get("type"), str)
    if isinstance(role, str) and role in marks.roles:
        return marks.roles[role]
    if types and (has_type or (role == "assistant" and types <= {"text"})):
        return marks.with_text_lists
    return marks.with_type if has_type else marks.otherwise


class _AllMarks(NamedTuple):
    """The dialects by their marks; the first of the registry where several have one."""

    keys: dict[str, str]
    part_types: dict[str, str]
    usual_keys: dict[str, str]
    roles: dict[str, str]
    with_text_lists: str
    with_type: str
    otherwise: str


@cache
def _collect_marks(names: tuple[str, ...]) -> _AllMarks:
    dialects = [(name, DIALECTS[name].marks) for name in reversed(names)]
    return _AllMarks(
        {key: name for name, marks in dialects for key in marks.keys},
        {kind: name for name, marks in dialects for kind in marks.part_types},
        {key: name for name, marks in dialects for key in marks.usual_keys},
        {role: name for name, marks in dialects for role in marks.roles},
        next((name for name, marks in dialects[::-1] if marks.has_text_lists), names[0]),
        next((name for name, marks in dialects[::-1] if marks.has_type), names[0]),
        names[0],
    )


def detect_request_dialect(body: Mapping[str, object]) -> Dialect | None:
    """Return the dialect in which the body of a request is written; None if it is not a request."""
    best = max(DIALECTS.values(), key=lambda dialect: dialect.recognize_body(body))
    return best if best.recognize_body(body) else None


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
    definitions: list[Tool] = []
    for tool in tools:
        definitions.extend(
            [tool] if isinstance(tool, Tool) else _read_tools(require_object(to_plain_json(tool), "A tool"))
        )
    names = [tool.name for tool in definitions]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"The tool {twice[0]!r} is defined twice.", "Give every tool its own name.")
    return tuple(definitions)


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
