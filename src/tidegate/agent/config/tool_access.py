"""The tools that a configuration offers to an agent, and which calls of them need approval."""

from collections.abc import Collection
from fnmatch import fnmatchcase

import msgspec

from tidegate.agent.config.resolved_config import ResolvedConfig
from tidegate.agent.config.settings import AgentSettings, CapabilitySettings
from tidegate.agent.tools.approval import STANDARD_APPROVAL, ApprovalRules, ApprovalVerdict
from tidegate.agent.tools.modules import ALWAYS_OFFERED_TOOLS, MODULE_ACTIONS, make_mcp_tool_name


def find_module_tool(config: ResolvedConfig, module: str, action: str) -> str | None:
    """Return the tool of an action, if the modules of this configuration offer it.

    An MCP server is a module, too: its actions are its tools.
    """
    if module in config.settings.mcp and module not in MODULE_ACTIONS:
        return make_mcp_tool_name(module, action)
    tool = MODULE_ACTIONS.get(module, {}).get(action)
    modules = config.settings.modules
    if tool is None or modules is None:
        return tool
    if module not in modules:
        return None
    constraints = modules[module].constraints
    allowed = constraints.allowed_actions is None or action in constraints.allowed_actions
    return tool if allowed and action not in constraints.denied_actions else None


def list_offered_tools(config: ResolvedConfig) -> frozenset[str]:
    """List the built-in tools of this agent. MCP servers add their own."""
    offered = {
        find_module_tool(config, module, action) for module, actions in MODULE_ACTIONS.items() for action in actions
    }
    if config.settings.modules is None:
        offered.discard("hello")
    allowed = (tool for tool in offered if tool is not None and is_tool_allowed(config.agent, tool))
    return frozenset(allowed) | ALWAYS_OFFERED_TOOLS


def is_tool_allowed(agent: AgentSettings, name: str) -> bool:
    """Return whether an agent may have this tool, of those that the configuration offers."""
    return agent.tools is None or any(fnmatchcase(name, resolve_tool_name(pattern)) for pattern in agent.tools)


def uses_discovery(config: ResolvedConfig, tool_count: int) -> bool:
    """Return whether so many tools are shown in discovery mode, see `ExecutionSettings`."""
    execution = config.settings.execution
    if execution.tool_mode == "auto":
        return tool_count > execution.max_direct_tools
    return execution.tool_mode == "discovery"


def resolve_approval(config: ResolvedConfig) -> ApprovalRules:
    """Make the rules for tools of this configuration, within the limits of the user's own file."""
    rules = make_approval_rules(config.settings.capabilities)
    if config.user_limits is None:
        return rules
    own, project = config.user_limits.approvals
    project = msgspec.structs.replace(project, allow_commands=rules.allow_commands)
    return msgspec.structs.replace(rules, bounds=(own, project))


def make_approval_rules(
    settings: CapabilitySettings, given_keys: Collection[str] = CapabilitySettings.__struct_fields__
) -> ApprovalRules:
    """Make the rules for tools from a file. Only the settings in `given_keys` have an effect.

    If a file lists commands, the user is asked about every other shell command.
    """
    tools: dict[str, ApprovalVerdict] = {}
    default: ApprovalVerdict | None = None
    if "default_policy" in given_keys:
        tools = {**STANDARD_APPROVAL.verdicts, "hello": "allow"} if settings.default_policy == "auto" else {}
        default = "ask" if settings.default_policy == "auto" else settings.default_policy
    tools |= {resolve_tool_name(name): verdict for name, verdict in settings.tools.items()}
    if default is None and "allow_commands" in given_keys and not any(fnmatchcase("shell", name) for name in tools):
        tools["shell"] = "ask"
    return ApprovalRules(tools, settings.allow_commands, settings.deny_commands, default)


def resolve_tool_name(name: str) -> str:
    """Return the tool or pattern that a key of `capabilities.tools` means."""
    module, _, action = name.partition(".")
    return MODULE_ACTIONS.get(module, {}).get(action, name)
