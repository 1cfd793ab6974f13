"""Kinds of subagents: those that are shipped, and the configuration of one that a project or a program registers.

    docs = AgentSettings("docs", description="answers from the manual", system_prompt="...", tools=("read", "grep"))
    async with open_agent(config, subagents=[docs], ...) as agent:

A project registers a kind as an agent with the role `specialist` in its `tidegate.yaml`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidegate.agent.config.resolved_config import ResolvedConfig
from tidegate.agent.config.settings import AgentSettings

EXPLORER: Final = AgentSettings(
    "explore",
    "specialist",
    "finds things out in source code and other files, and changes nothing; use it instead of reading many files",
    system_prompt=(
        "You explore source code and other files for somebody who will not see them. Find the files with list and grep,"
        " read the parts that matter, and follow the calls until you can answer. Answer with what was asked: paths with"
        " line numbers, names, and short quotations. Say what you did not find."
    ),
    tools=("read", "list", "grep", "recall"),
)
"""General exploration of sources, so that what is read for it never enters the window of the agent that asks."""
SHIPPED_SUBAGENTS: Final = (EXPLORER,)


def list_registered_subagents(config: ResolvedConfig, registered: Sequence[AgentSettings]) -> list[ResolvedConfig]:
    """Return the configurations of the shipped and the registered subagents of this agent."""
    return [_make_subagent_config(config, each) for each in (*SHIPPED_SUBAGENTS, *registered)]


def _make_subagent_config(config: ResolvedConfig, agent: AgentSettings) -> ResolvedConfig:
    """Return the configuration of the agent which uses the subagent, with the settings of the subagent.

    Of the context of its model, the window (`max_tokens`) is used; the policy is that of the agent.
    """
    own = agent.model.context
    window = own.max_tokens if own is not None else 0
    context = msgspec.structs.replace(config.context, max_tokens=window or config.context.max_tokens)
    return msgspec.structs.replace(config, agent=agent, context=context)
