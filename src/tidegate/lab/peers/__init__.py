"""Other libraries' ways of keeping to a window, as contenders: which there are, what is real, how one is run.

Each is a script that the peer's own interpreter runs on recordings; it gives one request for each assistant message
(`playing.py` says in which form). This module starts nothing and imports none of them: it knows where they are and what
to call them with.

Real means that the code that decides is the published package's own. What cannot be imported is re-expressed here, in
a few lines, and says so: a figure of ours must not pass for theirs.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

SCRIPTS_FOLDER = Path(__file__).resolve().parent
_BUILD_REMEDY = (
    "Run `make peers` in a checkout; TIDEGATE_PEERS names the folder of the environments if they are elsewhere."
)


class Peer(NamedTuple):
    """`environment` is a folder with an interpreter; empty for a re-expression, which needs none of its own."""

    name: str
    description: str
    package: str
    environment: str
    script: str
    settings: Mapping[str, object] = MappingProxyType({})

    @property
    def runs_published_code(self) -> bool:
        return bool(self.environment)


_LANGCHAIN, _DEEPAGENTS, _OPENAI_AGENTS = "langchain 1.4.7", "deepagents 0.7.32", "openai-agents 0.24.0"
_INSPECT_AI, _AGENT_FRAMEWORK, _STRANDS = "inspect_ai 0.3.285", "agent-framework-core 1.23.0", "strands-agents 1.62.0"
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
        "strands_managing",
    ),
    Peer(
        "strands-summary",
        "SummarizingConversationManager: on overflow the oldest 30% become a summary.",
        _STRANDS,
        "strands",
        "strands_managing",
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
        {"tiers": ["clear", "summarise"]},
    ),
)


def find_peer(name: str) -> Peer | None:
    return next((peer for peer in PEERS if peer.name == name), None)


def get_environments_folder() -> Path:
    """The folder that holds the peers' environments, whether or not it is there."""
    named = os.environ.get("TIDEGATE_PEERS")
    return Path(named) if named else SCRIPTS_FOLDER.parents[3] / "bench" / ".envs"


def get_interpreter(peer: Peer) -> Path:
    """Not resolved: a link followed to where it points is no longer the environment's interpreter."""
    return (
        get_environments_folder() / peer.environment / "bin" / "python"
        if peer.runs_published_code
        else Path(sys.executable)
    )


def explain_missing_peer(peer: Peer) -> str:
    """Empty if the peer can be run; else what is missing and what to do."""
    if get_interpreter(peer).exists():
        return ""
    return f"{peer.name}: {peer.package} has no environment in {get_environments_folder()}. {_BUILD_REMEDY}"


def list_available_peers() -> tuple[Peer, ...]:
    return tuple(peer for peer in PEERS if not explain_missing_peer(peer))


def build_peer_command(
    peer: Peer, recordings: Path | Sequence[Path], window: int, out: Path, guard: bool = True
) -> list[str]:
    """How to run one peer: the requests of one recording to the file `out`, or of several to files in the folder `out`.

    Several at a time are worth it: importing some of these libraries takes longer than playing a short recording. The
    standard output then tells what happened, a JSON object on a line for each recording.
    """
    several = [recordings] if isinstance(recordings, Path) else list(recordings)
    script = SCRIPTS_FOLDER / f"{peer.script}.py"
    # -E: the caller's own Python settings are for another interpreter.
    made = [
        str(get_interpreter(peer)),
        "-E",
        str(script),
        *map(str, several),
        "--window",
        str(window),
        "--out",
        str(out),
    ]
    if peer.settings:
        made += ["--settings", json.dumps(dict(peer.settings))]
    return made if guard else [*made, "--no-guard"]
