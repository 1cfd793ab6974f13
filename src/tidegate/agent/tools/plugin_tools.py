"""Tools of other packages: an `AgentTool`, for example a `FunctionTool`, named like its entry point."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tidegate.agent.tools.modules import BUILTIN_TOOL_NAMES
from tidegate.agent.tools.tool import AgentTool, ToolContext, ToolResult
from tidegate.core.messages import Tool
from tidegate.plugins import Plugin, describe_failure
from tidegate.wire.validation.json_checks import is_tool_name


class PluginTool:
    """A tool of another package. Every error and every wrong value becomes a result that says so."""

    def __init__(self, plugin: Plugin, tool: AgentTool) -> None:
        self._plugin = plugin
        self._function = tool
        self.tool = tool.tool
        self.runs_in_parallel = getattr(tool, "runs_in_parallel", False) is True

    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        try:
            result = await self._function(arguments, context)
        except Exception as failure:  # noqa: BLE001 - the model gets every error as a result
            return self._fail(f"failed: {describe_failure(failure)}")
        checked: object = result  # a plugin may return anything
        if not isinstance(checked, ToolResult) or not isinstance(checked.text, str):
            return self._fail(f"returned a {type(result).__name__}, not a ToolResult with a text")
        return result

    def _fail(self, problem: str) -> ToolResult:
        return ToolResult(self._plugin.make_error(problem).args[0], is_error=True)


def load_tool_plugin(plugin: Plugin) -> AgentTool:
    """Import a tool and check its definition. Raise BadInput if it cannot be offered to a model."""
    tool = plugin.load()
    try:
        problem = _find_tool_problem(plugin, tool)
    except Exception as failure:
        raise plugin.make_error(f"cannot be described: {describe_failure(failure)}") from failure
    if problem:
        raise plugin.make_error(problem)
    return PluginTool(plugin, cast(AgentTool, tool))


def _find_tool_problem(plugin: Plugin, tool: object) -> str:
    definition = getattr(tool, "tool", None)
    if not isinstance(definition, Tool) or not callable(tool):
        return f"is a {type(tool).__name__}: a tool plugin is an AgentTool, for example a FunctionTool"
    if definition.name != plugin.name:
        return f'calls itself "{definition.name}": a tool has the name of its entry point'
    if definition.name in BUILTIN_TOOL_NAMES:
        return "has the name of a built-in tool"
    if not is_tool_name(definition.name):
        return "has a name that providers refuse: use at most 64 letters, digits, - and _"
    msgspec.json.decode(definition.parameters, type=dict[str, object])
    msgspec.json.encode(definition)
    return ""
