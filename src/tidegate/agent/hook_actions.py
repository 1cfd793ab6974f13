"""What hooks do. Each action gives back what it did, in words for the user, or raises."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from tidegate.agent.chosen import Config, tool_of
from tidegate.agent.config import Context
from tidegate.agent.hook_types import CompactContext, InjectMessage, ModuleAction, Occasion, Run
from tidegate.agent.tools.tool import Context as ToolContext
from tidegate.agent.tools.tool import ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.clip import clip_chars, clip_tokens
from tidegate.core.errors import BadInput
from tidegate.core.messages import NOTE, Call, MarkedText, Message
from tidegate.core.policy import Rule
from tidegate.presets import load
from tidegate.session.drive import SummariseAsync

Act = Callable[[str, str, Mapping[str, Any]], Awaitable[ToolResult]]
"""Run an action of a module with these parameters."""

MAX_TOKENS = 1_000
SHARE = 8
"""An injected message has at most so many tokens, and at most this part of the room."""
MAX_SHOWN = 2_000
_PLACEHOLDER = re.compile(r"\{(turn|tokens|messages)\}")


def filled(text: str, at: Occasion) -> str:
    """Only numbers are put in; other braces are text."""
    values = {"turn": at.turn, "tokens": at.tokens, "messages": at.messages}
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), text)


async def compact(
    rule: str, action: CompactContext, context: Context, at: Occasion, summarise: SummariseAsync | None
) -> str:
    """Compact as the session itself would, by the one rule this action is; it is known by the hook's id."""
    keep = context.keep_recent if action.keep_recent is None else action.keep_recent
    reminder = at.session.policy.settings.get("reminder_tokens", 0)
    made = _rule(
        action.strategy or context.strategy,
        keep,
        action.summary_max_tokens or context.summary_max_tokens,
        reminder if isinstance(reminder, int) else 0,
    )
    decisions = await at.session.apply_async([msgspec.structs.replace(made, name=rule)], summarise)
    own = [each for each in decisions if each.rule == rule]
    if own and own[-1].acted:
        return f"{own[-1].before} tokens became {own[-1].after}: {own[-1].why}"
    return f"nothing compacted: {own[-1].why if own else 'there was nothing to do'}"


@cache
def _rule(strategy: str, keep_recent: int, summary_max_tokens: int, reminder_tokens: int) -> Rule:
    """The preset's own rule for a compaction on demand, so that both do the same."""
    settings = {
        "strategy": strategy,
        "keep_recent": keep_recent,
        "summary_max_tokens": summary_max_tokens,
        "reminder_tokens": reminder_tokens,
    }
    return load("digitorn", settings).moments["manual"][0]


def inject(action: InjectMessage, at: Occasion) -> str:
    """Add a message that starts no turn. Its words are the configuration's own, and it leaves the window its room."""
    limit = max(16, min(MAX_TOKENS, at.session.budget().room // SHARE))
    text = clip_tokens(filled(action.message, at), limit, at.session.counter).text
    at.session.add(Message(action.role, (MarkedText(text, typed=False),), kind=NOTE, user_visible=False))
    return text


async def run_module(action: ModuleAction, act: Act | None, limit: float) -> str:
    if act is None:
        raise BadInput("No module can be run here.", "Give the hooks a way to run actions.")
    async with asyncio.timeout(limit):
        result = await act(action.module, action.action, action.params)
    shown = clip_chars(result.text, MAX_SHOWN).text
    if result.error:
        raise BadInput(f"{action.module}.{action.action}: {shown}", "")
    return shown


async def run_function(action: Run, at: Occasion, limit: float) -> str:
    """A function that waits is not waited for longer than `limit` seconds."""
    answer = action.function(at)
    if inspect.isawaitable(answer):
        async with asyncio.timeout(limit):
            answer = await answer
    return clip_chars(answer, MAX_SHOWN).text if isinstance(answer, str) else ""


def actions_of(config: Config, toolbox: Toolbox, context: ToolContext) -> Act:
    """Actions as the agent's own tools, under the same constraints and the same approval."""

    async def act(module: str, action: str, params: Mapping[str, Any]) -> ToolResult:
        tool = tool_of(config, module, action)
        if tool is None:
            return ToolResult("The modules of this configuration do not allow it.", error=True)
        arguments = msgspec.json.encode(params).decode()
        return await toolbox.run(Call("hook", tool, arguments), context)

    return act
