"""The registry of peers: which there are for the lab and for bench/, and in which environment each one runs.

Standard library only: `make peers` reads it before anything is installed.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

SCRIPTS_FOLDER = Path(__file__).resolve().parent / "scripts"
REQUIREMENTS_FOLDER = Path(__file__).resolve().parent / "requirements"


class Peer(NamedTuple):
    """A contender of the lab that is not a policy of tidegate.

    `environment` names the requirements file and the folder of the environment; it is empty for a re-expression, which
    runs under tidegate's own interpreter.
    """

    name: str
    description: str
    package: str
    environment: str
    script: str
    settings: Mapping[str, object] = MappingProxyType({})

    @property
    def runs_published_code(self) -> bool:
        return bool(self.environment)


class CostRow(NamedTuple):
    """A row of bench/prepare.py: one way of a library to prepare a model call. `bench/runners/NAME_runner.py` runs it.

    `history` is "kept", or "deleted" where the library no longer holds what left its view.
    """

    name: str
    environment: str
    modes: tuple[str, ...]
    history: str
    description: str


_LANGCHAIN = "langchain 1.4.7"
_DEEPAGENTS = "deepagents 0.7.32"
_OPENAI_AGENTS = "openai-agents 0.24.0"
_INSPECT_AI = "inspect_ai 0.3.285"
_AGENT_FRAMEWORK = "agent-framework-core 1.23.0"
_STRANDS = "strands-agents 1.62.0"
_PYDANTIC_AI = "pydantic-ai-harness 0.62.0"

PEERS = (
    Peer("tail-sliding", "The newest groups that fit, cut anew at every request.", "", "", "tail_only"),
    Peer(
        "tail-hysteresis",
        "The newest groups; when the window is full, cut down to half of it.",
        "",
        "",
        "tail_only",
        {"low": 0.5},
    ),
    Peer("masking", "All but the newest 10 observations become one line each.", "", "", "observation_masking"),
    Peer("opencode-prune", "Old tool output cleared at the end of a turn, in batches.", "", "", "opencode_prune"),
    Peer(
        "langchain-clear",
        "ClearToolUsesEdit: all but the newest 3 tool results cleared once half of the window is full.",
        _LANGCHAIN,
        "langchain",
        "langchain_clear",
    ),
    Peer("langchain-trim", "trim_messages: the newest that fit.", _LANGCHAIN, "langchain", "langchain_trim"),
    Peer(
        "langchain-summary",
        "SummarizationMiddleware: at 0.8 of the window all but 20 messages become a summary.",
        _LANGCHAIN,
        "langchain",
        "langchain_summary",
    ),
    Peer(
        "deepagents",
        "Large results to files, then a summary at 0.85 of the window that leaves a tenth of it.",
        _DEEPAGENTS,
        "deepagents",
        "deepagents_view",
    ),
    Peer(
        "openai-trimmer",
        "ToolOutputTrimmer: outputs before the newest two turns become a preview; no bound.",
        _OPENAI_AGENTS,
        "openai_agents",
        "openai_trimmer",
    ),
    Peer(
        "inspect-edit",
        "CompactionEdit: all but the newest 3 tool results cleared at 0.9 of the window.",
        _INSPECT_AI,
        "inspect_ai",
        "inspect_compaction",
        {"strategy": "edit"},
    ),
    Peer(
        "inspect-trim",
        "CompactionTrim: the oldest fifth of the messages leaves at 0.9 of the window.",
        _INSPECT_AI,
        "inspect_ai",
        "inspect_compaction",
        {"strategy": "trim"},
    ),
    Peer(
        "inspect-summary",
        "CompactionSummary: everything but the task becomes a summary at 0.9 of the window.",
        _INSPECT_AI,
        "inspect_ai",
        "inspect_compaction",
        {"strategy": "summary"},
    ),
    Peer(
        "agent-framework",
        "ContextWindowCompactionStrategy: tool calls collapse at half of the budget, the oldest leave at 0.8.",
        _AGENT_FRAMEWORK,
        "agent_framework",
        "agent_framework_window",
    ),
    Peer(
        "agent-framework-summary",
        "SummarizationStrategy within a token budget: all but 4 messages become summaries.",
        _AGENT_FRAMEWORK,
        "agent_framework",
        "agent_framework_window",
        {"strategy": "summary"},
    ),
    Peer(
        "strands-sliding",
        "SlidingWindowConversationManager: 40 messages; on overflow results are cut, then messages leave.",
        _STRANDS,
        "strands",
        "strands_managers",
    ),
    Peer(
        "strands-summary",
        "SummarizingConversationManager: on overflow the oldest 30% become a summary.",
        _STRANDS,
        "strands",
        "strands_managers",
        {"manager": "summary"},
    ),
    Peer(
        "pydantic-slide",
        "TieredCompaction: tool results cleared, then a sliding window of 40 messages.",
        _PYDANTIC_AI,
        "pydantic_ai",
        "pydantic_tiered",
    ),
    Peer(
        "pydantic-summary",
        "TieredCompaction: tool results cleared, then a summary.",
        _PYDANTIC_AI,
        "pydantic_ai",
        "pydantic_tiered",
        {"tiers": ["clear", "summarize"]},
    ),
)


COST_MODES = ("call", "bytes", "session", "memory")
COST_ROWS = (
    CostRow("inspect_compaction", "inspect_ai", COST_MODES, "kept", "inspect_ai: compaction() with CompactionTrim"),
    CostRow("langchain_trim", "langchain", COST_MODES, "kept", "LangChain: trim_messages, approximate counter"),
    CostRow("langchain_check", "langchain", ("call",), "kept", "LangChain: SummarizationMiddleware, check only"),
    CostRow("langchain_summary", "langchain", ("call", "bytes"), "kept", "LangChain: the same, with a fixed summary"),
    CostRow(
        "langchain_rolling", "langchain", COST_MODES[:3], "deleted", "LangChain: the same, deleting what it summarized"
    ),
    CostRow("deepagents_view", "deepagents", COST_MODES, "kept", "deepagents: state channel and bounded view"),
    CostRow("agents_session", "openai_agents", COST_MODES, "kept", "OpenAI Agents: newest items of a session, trimmer"),
    CostRow(
        "agents_whole", "openai_agents", ("call", "bytes"), "kept", "OpenAI Agents: whole session, trimmer (defaults)"
    ),
    CostRow(
        "pydantic_window", "pydantic_ai", COST_MODES, "kept", "pydantic-ai: SlidingWindowCompaction, whole history"
    ),
    CostRow(
        "pydantic_rolling",
        "pydantic_ai",
        COST_MODES[:3],
        "deleted",
        "pydantic-ai: the same, rewriting the run's messages",
    ),
)


def find_peer(name: str) -> Peer | None:
    return next((peer for peer in PEERS if peer.name == name), None)


def list_environments() -> tuple[str, ...]:
    """The names of all environments, each once."""
    names = [row.environment for row in COST_ROWS] + [peer.environment for peer in PEERS if peer.environment]
    return tuple(dict.fromkeys(names))
