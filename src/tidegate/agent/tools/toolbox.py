"""The tools of an agent in one place: what the model is told of them, and how a call becomes a result."""

from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

from tidegate.agent.skills import Skills
from tidegate.agent.tools.approval import STANDARD, Approval, Ask, Question, decide
from tidegate.agent.tools.arguments import parse_arguments, without_descriptions
from tidegate.agent.tools.looking import GREP, LIST
from tidegate.agent.tools.reading import READ
from tidegate.agent.tools.remembering import COMPACT, LOOK, RECALL, REMEMBER, skill_tool
from tidegate.agent.tools.shell import SHELL
from tidegate.agent.tools.tool import AgentTool, Context, ToolResult, capped, failure
from tidegate.agent.tools.writing import EDIT, WRITE
from tidegate.core.errors import BadInput
from tidegate.core.messages import Call, Tool

FILES: tuple[AgentTool, ...] = (READ, WRITE, EDIT, LIST, GREP)
MEMORY: tuple[AgentTool, ...] = (REMEMBER, LOOK)
CONTEXT: tuple[AgentTool, ...] = (RECALL, COMPACT)


def standard_tools(skills: Skills | None = None, *, memory: bool = True) -> list[AgentTool]:
    """All tools there are without a server of their own. `memory` is for sessions in a data folder."""
    tools = [*FILES, SHELL, *(MEMORY if memory else ()), *CONTEXT]
    return [*tools, skill_tool(skills)] if skills is not None else tools


class Toolbox:
    """`ask` puts a question to a person; without one, what would be asked is denied."""

    def __init__(
        self, tools: Iterable[AgentTool] = (), *, approval: Approval = STANDARD, ask: Ask | None = None
    ) -> None:
        self.tools: dict[str, AgentTool] = {}
        self.approval = approval
        self.ask = ask
        for tool in tools:
            self.add(tool)

    def add(self, tool: AgentTool) -> None:
        name = tool.tool.name
        if name in self.tools:
            raise BadInput(f"The tool {name!r} is there twice.", "Give every tool a name of its own.")
        self.tools[name] = tool

    def definitions(self, *, compact: bool = False) -> list[Tool]:
        """For `Session(tools=...)`. The compact form has the first sentence of each and no words in the schemas."""
        tools = [each.tool for each in self.tools.values()]
        return [compacted(tool) for tool in tools] if compact else tools

    def together(self, name: str) -> bool:
        """May calls of this tool run at the same time? Most change something, so it must say so itself."""
        return getattr(self.tools.get(name), "together", False) is True

    async def run(self, call: Call, context: Context) -> ToolResult:
        """The result of a call as a model made it. Nothing is raised but a cancellation."""
        tool = self.tools.get(call.name)
        if tool is None:
            return ToolResult(self._unknown(call.name), error=True)
        try:
            arguments = parse_arguments(call.arguments)
            refusal = await self._refusal(call.name, arguments)
            result = ToolResult(refusal, error=True) if refusal else await tool(arguments, context)
        except Exception as error:  # noqa: BLE001 - it is not our code, and the model must hear of it
            result = failure(error)
        return capped(result)

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name[:80], self.tools, 1, 0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"There is no tool {name[:80]!r}.{hint} There are: {', '.join(self.tools) or 'none'}."

    async def _refusal(self, name: str, arguments: dict[str, object]) -> str:
        ruling = decide(self.approval, name, arguments)
        if ruling.verdict == "allow":
            return ""
        if ruling.verdict == "deny":
            return f"Denied by {ruling.why}; it was not run. Do it another way, or ask the user to change the rule."
        if self.ask is None:
            return f"Denied: {ruling.why}, and nobody is there to ask; it was not run. Do it another way."
        try:
            agreed = await self.ask(Question(name, arguments, ruling.why))
        except Exception as error:  # noqa: BLE001 - who cannot be asked has not agreed
            return f"The user could not be asked ({type(error).__name__}); it was not run."
        return "" if agreed is True else "The user denied this; it was not run. Ask what they want instead."


def compacted(tool: Tool) -> Tool:
    first = tool.description.split(". ", 1)[0].split("\n", 1)[0].rstrip(".")
    try:
        schema = without_descriptions(tool.parameters)
    except (msgspec.MsgspecError, RecursionError):
        schema = tool.parameters
    return Tool(tool.name, first, schema)
