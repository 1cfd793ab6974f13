"""The actions of hooks. Each returns what it did, as text for the user, or raises."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from tidegate.agent.config.resolved_config import ResolvedConfig
from tidegate.agent.config.settings import ContextSettings
from tidegate.agent.config.tool_access import find_module_tool
from tidegate.agent.hook_types import CompactContext, HookContext, InjectMessage, ModuleAction, RunFunction
from tidegate.agent.tools.tool import ToolContext, ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.errors import BadInput
from tidegate.core.messages import INSTRUCTION, NOTE, Call, MarkedText, Message
from tidegate.core.policy.policy import Policy, Rule
from tidegate.core.stages.summary import summarize
from tidegate.core.stages.turns import keep_recent
from tidegate.core.text.clip import clip_chars, clip_tokens
from tidegate.session.summaries.drivers import AsyncSummarizer

ModuleActionRunner = Callable[[str, str, Mapping[str, Any]], Awaitable[ToolResult]]
"""Run an action of a module with these parameters."""

MAX_INJECTED_TOKENS = 1_000
_INJECTED_SHARE = 8
"""An injected message has at most this many tokens, and takes at most one eighth of the room in the window."""
_MAX_SHOWN_CHARS = 2_000
_PLACEHOLDER = re.compile(r"\{(turn|tokens|messages)\}")


def fill_placeholders(text: str, at: HookContext) -> str:
    """Replace {turn}, {tokens} and {messages} by numbers; other braces stay as they are."""
    values = {"turn": at.turn, "tokens": at.tokens, "messages": at.message_count}
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), text)


async def compact_context(
    rule: str, action: CompactContext, context: ContextSettings, at: HookContext, summarizer: AsyncSummarizer | None
) -> str:
    """Compact by one rule, which has the hook's id as its name."""
    compaction_rule = _make_compaction_rule(rule, action, context, at.session.policy)
    decisions = await at.session.run_rules_async([compaction_rule], summarizer)
    own = [each for each in decisions if each.rule == rule]
    if own and own[-1].acted:
        return f"{own[-1].tokens_before} tokens became {own[-1].tokens_after}. {own[-1].reason}"
    return f"nothing was compacted. {own[-1].reason if own else 'There was nothing to do.'}"


def _make_compaction_rule(name: str, action: CompactContext, context: ContextSettings, policy: Policy) -> Rule:
    """Make the rule of this action. The context gives what the action leaves open."""
    keep = context.keep_recent if action.keep_recent is None else action.keep_recent
    reminder = policy.settings.get("reminder_tokens")
    settings: dict[str, object] = {"reminder": reminder if isinstance(reminder, int) else 0}
    if (action.strategy or context.strategy) == "truncate":
        return Rule(name, "keep_recent", keep_recent, settings | {"messages": keep})
    settings |= {"keep_messages": keep, "max_tokens": action.summary_max_tokens or context.summary_max_tokens}
    return Rule(name, "summarize", summarize, settings | {"before": "[Summary: ", "behind": "]"})


def inject_message(action: InjectMessage, at: HookContext) -> str:
    """Add a message that starts no turn. Its text comes from the configuration and is clipped.

    With the role system it is sent as part of the system prompt, because it is from the author of the configuration.
    """
    limit = max(16, min(MAX_INJECTED_TOKENS, at.session.budget.room // _INJECTED_SHARE))
    text = clip_tokens(fill_placeholders(action.message, at), limit, at.session.counter).text
    kind = INSTRUCTION if action.role == "system" else NOTE
    at.session.add(Message(action.role, (MarkedText(text, typed=False),), kind=kind, user_visible=False))
    return text


async def run_module_action(action: ModuleAction, runner: ModuleActionRunner | None, timeout: float) -> str:
    if runner is None:
        raise BadInput("No module can be run here.", "Give HookRunner the argument run_module.")
    async with asyncio.timeout(timeout):
        result = await runner(action.module, action.action, action.params)
    text = clip_chars(result.text, _MAX_SHOWN_CHARS).text
    if result.is_error:
        raise BadInput(f"{action.module}.{action.action}: {text}", "")
    return text


async def run_hook_function(action: RunFunction, at: HookContext, timeout: float) -> str:
    """Run a function. The timeout, in seconds, limits only an asynchronous one."""
    answer = action.function(at)
    if inspect.isawaitable(answer):
        async with asyncio.timeout(timeout):
            answer = await answer
    return clip_chars(answer, _MAX_SHOWN_CHARS).text if isinstance(answer, str) else ""


def make_action_runner(config: ResolvedConfig, toolbox: Toolbox, context: ToolContext) -> ModuleActionRunner:
    """Return a function that runs actions as calls of the agent's tools, with the same constraints and approval."""

    async def act(module: str, action: str, params: Mapping[str, Any]) -> ToolResult:
        tool = find_module_tool(config, module, action)
        if tool is None:
            return ToolResult("The modules of this configuration do not allow it.", is_error=True)
        arguments = msgspec.json.encode(params).decode()
        return await toolbox.run_call(Call("hook", tool, arguments), context)

    return act
