"""The lines of the report: which module measures what, in which environment. Standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ENVS = HERE.parent / ".envs"
MODES = ("call", "bytes", "session", "memory")


class Row(NamedTuple):
    """One line of the report; `env` is also the name of the requirements file and of the environment's folder."""

    name: str
    env: str
    modes: tuple[str, ...]
    history: str
    about: str

    @property
    def script(self) -> Path:
        return HERE / f"{self.name}.py"

    @property
    def python(self) -> Path:
        return ENVS / self.env / "bin" / "python"


ROWS = (
    Row("inspect_compaction", "inspect_ai", MODES, "kept", "inspect_ai: compaction() with CompactionTrim"),
    Row("langchain_trim", "langchain", MODES, "kept", "LangChain: trim_messages, approximate counter"),
    Row("langchain_check", "langchain", ("call",), "kept", "LangChain: SummarizationMiddleware, check only"),
    Row("langchain_summary", "langchain", ("call", "bytes"), "kept", "LangChain: the same, with a made-up summary"),
    Row("langchain_rolling", "langchain", MODES[:3], "deleted", "LangChain: the same, deleting what it summarised"),
    Row("deepagents_view", "deepagents", MODES, "kept", "deepagents: state channel and bounded view"),
    Row("agents_session", "openai_agents", MODES, "kept", "OpenAI Agents: newest items of a session, trimmer"),
    Row("agents_whole", "openai_agents", ("call", "bytes"), "kept", "OpenAI Agents: whole session, trimmer (defaults)"),
    Row("pydantic_window", "pydantic_ai", MODES, "kept", "pydantic-ai: SlidingWindowCompaction, whole history"),
    Row("pydantic_rolling", "pydantic_ai", MODES[:3], "deleted", "pydantic-ai: the same, rewriting the run's messages"),
)
