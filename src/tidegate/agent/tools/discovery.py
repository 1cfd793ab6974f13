"""Discovery mode: with many tools the model sees their categories and four meta-tools instead of every definition.

`tool_categories` lists, `search_tools` finds, `describe_tool` shows one definition, `call_tool` calls. A call of
`call_tool` is replaced by the call that it asks for before anything else happens (`unwrap_call`), so approval, limits
and events are those of the tool itself.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tidegate.agent.tools.arguments import convert_arguments, parse_tool_arguments
from tidegate.agent.tools.modules import MODULE_ACTIONS
from tidegate.agent.tools.tool import AgentTool, FunctionTool, ToolContext, ToolFailed, ToolResult
from tidegate.core.errors import BadInput
from tidegate.core.messages import Call
from tidegate.core.stages.notices import CATEGORIES_TOOL
from tidegate.core.text.clip import clip_chars
from tidegate.core.turns import CALL_TOOL

SEARCH_TOOL: Final = "search_tools"
DESCRIBE_TOOL: Final = "describe_tool"
_MAX_FOUND: Final = 12
_MAX_SHOWN_CATEGORIES: Final = 24
_MAX_LISTED: Final = 200
_MAX_ABOUT_CHARS: Final = 120
_MAX_SERVER_TOOLS: Final = 20
"""The tools of a server with more are split into categories by the first word of their names."""
_WORDS: Final = re.compile(r"[^\W_]+")
_MODULE_BY_TOOL: Final = {tool: module for module, actions in MODULE_ACTIONS.items() for tool in actions.values()}


class CategoryArguments(msgspec.Struct):
    category: Annotated[str, Meta(description="list the tools of this category; without it, all categories")] = ""


class SearchToolsArguments(msgspec.Struct):
    words: Annotated[str, Meta(description="what the tool should do, in a few words", min_length=1)]


class DescribeToolArguments(msgspec.Struct):
    name: Annotated[str, Meta(description="the name of a tool")]


class CallToolArguments(msgspec.Struct):
    name: Annotated[str, Meta(description="the name of a tool")]
    arguments: Annotated[dict[str, Any], Meta(description="its arguments, as describe_tool shows them")] = {}


def create_meta_tools(tools: Mapping[str, AgentTool]) -> list[AgentTool]:
    """Create the meta-tools for these tools, which are looked up again with each call."""

    async def list_categories(arguments: CategoryArguments, context: ToolContext) -> ToolResult:
        categories = find_categories(tools)
        if not arguments.category:
            counts = Counter(categories.values())
            return ToolResult("\n".join(f"{name}: {count} tools" for name, count in counts.most_common()))
        names = [name for name, category in categories.items() if category == arguments.category]
        if not names:
            near = get_close_matches(arguments.category, set(categories.values()), 1, 0.4)
            raise ToolFailed(
                f"There is no category {arguments.category[:80]!r}." + (f" Is it {near[0]}?" if near else "")
            )
        more = f"\n[{len(names) - _MAX_LISTED} more: use {SEARCH_TOOL}]" if len(names) > _MAX_LISTED else ""
        return ToolResult("\n".join(_summarize_tool(tools[name]) for name in names[:_MAX_LISTED]) + more)

    async def search(arguments: SearchToolsArguments, context: ToolContext) -> ToolResult:
        matches = rank_tools(list(tools.values()), arguments.words)[:_MAX_FOUND]
        if not matches:
            raise ToolFailed(f"No tool matches these words. Try others, or see {CATEGORIES_TOOL}.")
        return ToolResult("\n".join(map(_summarize_tool, matches)))

    async def describe(arguments: DescribeToolArguments, context: ToolContext) -> ToolResult:
        if arguments.name not in tools:
            raise ToolFailed(describe_unknown_tool(arguments.name, tools))
        tool = tools[arguments.name].tool
        return ToolResult(f"{tool.name}: {tool.description}\narguments: {tool.parameters}")

    async def refuse(arguments: CallToolArguments, context: ToolContext) -> ToolResult:
        raise ToolFailed(describe_unknown_tool(arguments.name, tools))  # a call of a known tool never comes here

    counts = Counter(find_categories(tools).values())
    top_categories = ", ".join(f"{name} ({count})" for name, count in counts.most_common(_MAX_SHOWN_CATEGORIES))
    more = f" and {len(counts) - _MAX_SHOWN_CATEGORIES} more" if len(counts) > _MAX_SHOWN_CATEGORIES else ""
    about = (
        f"{len(tools)} tools, not listed here, in the categories {top_categories}{more}. Lists the tools of a category."
    )
    return [
        FunctionTool(CATEGORIES_TOOL, about, CategoryArguments, list_categories),
        FunctionTool(SEARCH_TOOL, "Find tools by what they do.", SearchToolsArguments, search),
        FunctionTool(
            DESCRIBE_TOOL, "Show the arguments of a tool before you call it.", DescribeToolArguments, describe
        ),
        FunctionTool(CALL_TOOL, "Call a tool that you found.", CallToolArguments, refuse),
    ]


def unwrap_call(call: Call) -> Call:
    """Return the call that a call of `call_tool` asks for; any other call, or a malformed one, as it is."""
    if call.name != CALL_TOOL:
        return call
    try:
        payload = parse_tool_arguments(call.arguments)
        inner = payload.get("arguments")
        if isinstance(inner, str):  # some models write the object as text
            payload["arguments"] = parse_tool_arguments(inner)
        arguments = convert_arguments(CallToolArguments, payload)
    except BadInput:
        return call
    return Call(call.id, arguments.name, msgspec.json.encode(arguments.arguments).decode())


def find_categories(tools: Mapping[str, AgentTool]) -> dict[str, str]:
    """Return the category of each tool: its module, or the server it comes from."""
    sizes = Counter(name.partition("__")[0] for name in tools if "__" in name)
    categories: dict[str, str] = {}
    for name in tools:
        server, marker, own = name.partition("__")
        if not marker:
            categories[name] = _MODULE_BY_TOOL.get(name, "other")
        elif sizes[server] <= _MAX_SERVER_TOOLS:
            categories[name] = server
        else:
            categories[name] = f"{server}/{own.replace('-', '_').partition('_')[0]}"
    return categories


def rank_tools(tools: Sequence[AgentTool], words: str) -> list[AgentTool]:
    """Return the tools that match any of the words, best first. A word of the name counts more than one of the text."""
    query = set(_WORDS.findall(words.lower()))

    def score(each: AgentTool) -> int:
        text = f"{each.tool.name} {each.tool.description}".lower()
        own = set(_WORDS.findall(each.tool.name.lower()))
        return sum(3 if word in own else int(len(word) > 2 and word in text) for word in query)

    ranking = sorted(((score(each), each) for each in tools), key=lambda pair: -pair[0])
    return [each for points, each in ranking if points]


def describe_unknown_tool(name: str, tools: Mapping[str, AgentTool]) -> str:
    near = get_close_matches(name[:80], tools, 3, 0.5)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    return f"There is no tool {name[:80]!r}.{hint} Find one with {SEARCH_TOOL}."


def _summarize_tool(each: AgentTool) -> str:
    about = " ".join(each.tool.description.split())
    return f"{each.tool.name}: {clip_chars(about, _MAX_ABOUT_CHARS, mode='head', notice=' ...').text}"
