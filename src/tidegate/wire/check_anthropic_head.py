"""What an Anthropic request says besides its messages: system, tools, thinking, tool_choice."""

from collections.abc import Iterator, Mapping

from tidegate.wire.check_schema import is_name, schema_fault, shown
from tidegate.wire.faults import Fault


def head_faults(head: Mapping[str, object]) -> Iterator[Fault]:
    yield from _system(head.get("system"))
    tools = head.get("tools")
    if tools is not None:
        yield from _tools(tools)
    choice = head.get("tool_choice")
    if choice is not None and not tools:
        yield Fault("AN16", "tool_choice may only be specified while providing tools.", "tool_choice")
    yield from _thinking(head.get("thinking"), head.get("max_tokens"), choice)


def thinks(head: Mapping[str, object]) -> bool:
    """With a budget the model always thinks; in adaptive mode it may not, so nothing can be demanded back."""
    thinking = head.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def _system(system: object) -> Iterator[Fault]:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        yield Fault("SHAPE", "system: Input should be a valid list", "system")
        return
    for n, block in enumerate(system):
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if not isinstance(text, str):
            yield Fault("SHAPE", f"system.{n}.type: Input should be 'text'", f"system.{n}")
        elif not text:
            yield Fault("AN7", "system: text content blocks must be non-empty", f"system.{n}")
        elif text.isspace():
            yield Fault("AN7", "system: text content blocks must contain non-whitespace text", f"system.{n}")


def _tools(tools: object) -> Iterator[Fault]:
    if not isinstance(tools, list):
        yield Fault("AN10", "tools: Input should be a valid list", "tools")
        return
    names: set[str] = set()
    for n, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield Fault("AN10", f"tools.{n}: Input should be a valid dictionary", f"tools.{n}")
            continue
        name = tool.get("name")
        if not isinstance(name, str) or not is_name(name):
            text = f"tools.{n}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            yield Fault("AN10", text, f"tools.{n}.name")
        elif name in names:
            yield Fault("AN10", "tools: Tool names must be unique.", f"tools.{n}.name")
        else:
            names.add(name)
        if tool.get("type", "custom") == "custom":  # the provider's own tools bring no schema
            yield from _schema(tool.get("input_schema"), f"tools.{n}.custom.input_schema")


def _schema(schema: object, where: str) -> Iterator[Fault]:
    if not isinstance(schema, dict):
        yield Fault("AN10", f"{where}: Field required", where)
    elif schema.get("type") != "object":
        yield Fault("AN10", f"{where}.type: Input should be 'object'", where)
    elif fault := schema_fault(schema):
        yield Fault("AN10", f"{where}: JSON schema is invalid. {fault}", where)


def _thinking(thinking: object, most: object, choice: object) -> Iterator[Fault]:
    """AN14."""
    if thinking is None:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if not isinstance(thinking, dict) or kind not in ("enabled", "disabled", "adaptive"):
        yield Fault("AN14", f"thinking: Input tag {shown(kind)} found using 'type' does not match", "thinking")
        return
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1024:
            text = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
            yield Fault("AN14", text, "thinking.budget_tokens")
        elif isinstance(most, int) and most <= budget:
            yield Fault("AN14", "max_tokens must be greater than thinking.budget_tokens", "max_tokens")
    forced = choice.get("type") if isinstance(choice, dict) else None
    if kind != "disabled" and forced in ("any", "tool"):
        yield Fault("AN14", "Thinking may not be enabled when tool_choice forces tool use.", "tool_choice")
