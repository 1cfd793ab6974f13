"""OpenAI Agents as it comes: the session is read whole at every call, and old tool outputs are cut to a preview.

`ToolOutputTrimmer` has its default settings. Nothing bounds the view: it grows with the history.
"""

from __future__ import annotations

from agents.extensions import ToolOutputTrimmer
from agents_session_runner import AgentsSession
from prepare_runner import run_prepare_runner


class AgentsWhole(AgentsSession):
    limit = None

    def __init__(self) -> None:
        super().__init__()
        self.trimmer = ToolOutputTrimmer()


if __name__ == "__main__":
    run_prepare_runner("agents_whole", "openai-agents", AgentsWhole)
