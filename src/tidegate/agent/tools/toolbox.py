"""The toolbox of an agent: its tools, their definitions for the model, and running calls."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

import msgspec

from tidegate.agent.skills import Skills
from tidegate.agent.tools.approval import (
    STANDARD_APPROVAL,
    ApprovalQuestion,
    ApprovalRules,
    AskUser,
    decide_approval,
)
from tidegate.agent.tools.arguments import parse_tool_arguments, strip_descriptions
from tidegate.agent.tools.context_tools import (
    COMPACT_TOOL,
    MEMORY_SEARCH_TOOL,
    MEMORY_WRITE_TOOL,
    RECALL_TOOL,
    create_skills_tool,
)
from tidegate.agent.tools.discovery import create_meta_tools, describe_unknown_tool, unwrap_call
from tidegate.agent.tools.files.read_tool import READ_TOOL
from tidegate.agent.tools.files.search_tools import GREP_TOOL, LIST_TOOL
from tidegate.agent.tools.files.write_tools import EDIT_TOOL, WRITE_TOOL
from tidegate.agent.tools.modules import ALWAYS_OFFERED_TOOLS
from tidegate.agent.tools.shell.shell_tool import SHELL_TOOL
from tidegate.agent.tools.tool import AgentTool, ToolContext, ToolResult, bound_result, make_failure_result
from tidegate.core.errors import BadInput
from tidegate.core.messages import Call, Tool

_FILE_TOOLS: tuple[AgentTool, ...] = (READ_TOOL, WRITE_TOOL, EDIT_TOOL, LIST_TOOL, GREP_TOOL)
_MEMORY_TOOLS: tuple[AgentTool, ...] = (MEMORY_WRITE_TOOL, MEMORY_SEARCH_TOOL)
_CONTEXT_TOOLS: tuple[AgentTool, ...] = (RECALL_TOOL, COMPACT_TOOL)


def list_standard_tools(skills: Skills | None = None, *, memory: bool = True) -> list[AgentTool]:
    """List the built-in tools. `memory` adds those that need a data folder."""
    tools = [*_FILE_TOOLS, SHELL_TOOL, *(_MEMORY_TOOLS if memory else ()), *_CONTEXT_TOOLS]
    return [*tools, create_skills_tool(skills)] if skills is not None else tools


PLAN_TOOLS: Final = frozenset("read list grep recall memory_search skills".split())
"""Tools that change nothing."""


class Toolbox:
    """The tools of an agent. Without `ask`, calls that need the user's approval are denied.

    With `discovery` the model is shown the meta-tools and the tools that are always offered, see `discovery`. The
    meta-tools only tell about tools, so they need no approval.

    In `plan_mode` only the tools of `PLAN_TOOLS` run, whatever the rules allow.
    """

    def __init__(
        self,
        tools: Iterable[AgentTool] = (),
        *,
        approval: ApprovalRules = STANDARD_APPROVAL,
        ask: AskUser | None = None,
        discovery: bool = False,
    ) -> None:
        self.tools: dict[str, AgentTool] = {}
        self.discovery = discovery
        self.approval = approval
        self.ask = ask
        self.plan_mode = False
        for tool in tools:
            self.add(tool)

    def add(self, tool: AgentTool) -> None:
        name = tool.tool.name
        if name in self.tools:
            raise BadInput(f"There are two tools with the name {name!r}.", "Give every tool its own name.")
        self.tools[name] = tool

    def definitions(self, *, compact: bool = False) -> list[Tool]:
        """Return the definitions, for `Session(tools=...)`; `compact` shortens descriptions and schemas."""
        tools = [each.tool for each in self.tools.values()]
        if self.discovery:
            tools = [*(each.tool for each in self._meta_tools().values()), *filter(_is_always_offered, tools)]
        return [shorten_definition(tool) for tool in tools] if compact else tools

    def _meta_tools(self) -> dict[str, AgentTool]:
        return {each.tool.name: each for each in create_meta_tools(self.tools)} if self.discovery else {}

    def resolve_call(self, call: Call) -> Call:
        """Return the call to run for the call of a model: in discovery mode, `call_tool` asks for another one."""
        return unwrap_call(call) if self.discovery else call

    def may_run_in_parallel(self, name: str) -> bool:
        """Return whether calls of this tool may run at the same time."""
        return name in self.tools and self.tools[name].runs_in_parallel

    async def run_call(self, call: Call, context: ToolContext) -> ToolResult:
        """Run the call of a model and return its result. Nothing is raised except a cancellation."""
        tool, meta = self.tools.get(call.name), self._meta_tools().get(call.name)
        tool = tool or meta
        if tool is None:
            return ToolResult(self._describe_unknown_tool(call.name), is_error=True)
        try:
            arguments = parse_tool_arguments(call.arguments)
            denied = None if tool is meta else await self._check_approval(call.name, arguments)
            result = denied or await tool(arguments, context)
        except Exception as error:  # noqa: BLE001 - the model gets every error as a result
            result = make_failure_result(error)
        return bound_result(result)

    def _describe_unknown_tool(self, name: str) -> str:
        if self.discovery:
            return describe_unknown_tool(name, self.tools)
        near = get_close_matches(name[:80], self.tools, 1, 0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"There is no tool {name[:80]!r}.{hint} There are: {', '.join(self.tools) or 'none'}."

    async def _check_approval(self, name: str, arguments: dict[str, object]) -> ToolResult | None:
        """Return None if the call may run, else the result that says why it was denied."""
        if self.plan_mode and name not in PLAN_TOOLS:
            return _make_denial(
                "Not run: the user wants a plan first, and only reading is allowed until they approve it. Describe what"
                " you would change and run, and stop.",
                "plan mode",
            )
        ruling = decide_approval(self.approval, name, arguments)
        if ruling.verdict == "allow":
            return None
        if ruling.verdict == "deny":
            return _make_denial(
                f"Denied by {ruling.reason}; it was not run. Do it another way, or ask the user to change the rule.",
                ruling.reason,
            )
        if self.ask is None:
            return _make_denial(
                f"Denied: {ruling.reason}, and nobody is there to ask; it was not run. Do it another way.",
                "default: nobody was there to ask",
            )
        try:
            agreed = await self.ask(ApprovalQuestion(name, arguments, ruling.reason))
        except Exception as error:  # noqa: BLE001 - without an answer there is no approval
            return _make_denial(
                f"The user could not be asked ({type(error).__name__}); it was not run.",
                "default: you could not be asked",
            )
        if agreed is True:
            return None
        return _make_denial("The user denied this; it was not run. Ask what they want instead.", "you")


def _make_denial(text: str, denied_by: str) -> ToolResult:
    return ToolResult(text, is_error=True, denied_by=denied_by)


def _is_always_offered(tool: Tool) -> bool:
    return tool.name in ALWAYS_OFFERED_TOOLS


def shorten_definition(tool: Tool) -> Tool:
    first = tool.description.split(". ", 1)[0].split("\n", 1)[0].rstrip(".")
    try:
        schema = strip_descriptions(tool.parameters)
    except (msgspec.MsgspecError, RecursionError):
        schema = tool.parameters
    return Tool(tool.name, first, schema)
