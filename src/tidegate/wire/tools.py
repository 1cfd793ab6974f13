"""Tool definitions and model names, in whatever form they are handed in."""

from collections.abc import Iterable, Mapping

from tidegate.core.errors import BadInput
from tidegate.core.messages import Tool
from tidegate.wire.dialects import DIALECTS, Dialect, dialect_of
from tidegate.wire.reading import a_dict, a_list, a_tool, needed

_FAMILIES = (("claude", "anthropic"), ("gemini", "gemini"), ("mistral", "mistral"), ("deepseek", "deepseek"))


def dialect_for(wire: str, model: str) -> Dialect:
    """The dialect of this name; without a name the one the model's maker speaks, else OpenAI chat."""
    if wire:
        return dialect_of(wire)
    name = model.rsplit("/", 1)[-1].lower()
    return DIALECTS[next((wire for start, wire in _FAMILIES if name.startswith(start)), "openai_chat")]


def parse_tools(tools: Iterable[Mapping[str, object] | Tool]) -> tuple[Tool, ...]:
    """Tools in the form of OpenAI (chat, Responses), Anthropic or Gemini."""
    found: list[Tool] = []
    for tool in tools:
        found.extend([tool] if isinstance(tool, Tool) else _read(a_dict(tool, "A tool")))
    names = [tool.name for tool in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"The tool {twice[0]!r} is defined twice.", "Give every tool a name of its own.")
    return tuple(found)


def _read(tool: dict[str, object]) -> list[Tool]:
    if "functionDeclarations" in tool:
        return [one for each in a_list(tool["functionDeclarations"], "tools") for one in _read(a_dict(each, "A tool"))]
    inner = a_dict(tool["function"], "A tool's function") if "function" in tool else tool
    schema = inner.get("parameters", inner.get("input_schema"))
    return [a_tool(needed(inner, "name", "A tool"), inner.get("description"), schema)]
