"""deepagents: its summarization middleware's `wrap_model_call`, the state keeping every message.

New messages enter through the channel declared on `DeepAgentState`, as in a running agent; the middleware then projects
the view from the last summary event, counts it with the approximate counter and decides. The summary is a fixed text.
The rest of the agent's graph is left out. The history it saves goes to a temporary folder, removed at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, get_type_hints

from bench_conversation import KEPT_MESSAGES, WINDOW, Chat
from deepagents import DeepAgentState
from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import SummarizationMiddleware
from langchain.agents.middleware import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_requests import convert_message, convert_messages, count_view_tokens, render_body
from prepare_runner import run_prepare_runner

SUMMARY = "What was said before, in short. " * 40
ANSWER = ModelResponse(result=[AIMessage(content="")])


class DeepAgentsView:
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="bench-deepagents-")
        self.model = FakeListChatModel(responses=[SUMMARY])
        self.middleware = SummarizationMiddleware(
            model=self.model,
            backend=FilesystemBackend(root_dir=self.folder.name, virtual_mode=True),
            trigger=("tokens", WINDOW),
            keep=("messages", KEPT_MESSAGES),
            summarizer=lambda _: SUMMARY,
        )

    async def load(self, history: Iterable[Chat]) -> None:
        declared = get_type_hints(DeepAgentState, include_extras=True)["messages"]
        self.channel = declared.__args__[0].__metadata__[0].from_checkpoint([])
        self.channel.update([convert_messages(history)])
        self.state: dict[str, Any] = {}
        count = len(self.channel.get())
        if count > KEPT_MESSAGES:
            # The state as a checkpoint gives it back, ten messages after a summary was made.
            self.state["_summarization_event"] = {
                "cutoff_index": count - KEPT_MESSAGES - 10,
                "summary_message": HumanMessage(content=SUMMARY, additional_kwargs={"lc_source": "summarization"}),
                "file_path": None,
                "created_at_index": count - 10,
            }
        self.view: list[AnyMessage] = []

    def hold(self, request: ModelRequest) -> ModelResponse:
        """Where the model would be called."""
        self.view = request.messages
        return ANSWER

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.channel.update([[convert_message(message) for message in new]])
        self.state["messages"] = self.channel.get()
        request = ModelRequest(model=self.model, messages=self.state["messages"], state=self.state)
        response = self.middleware.wrap_model_call(request, self.hold)
        if isinstance(response, ExtendedModelResponse) and response.command is not None:
            self.state.update(response.command.update)

    async def render(self) -> bytes:
        return render_body(self.view)

    def used(self) -> int:
        return count_view_tokens(self.view)

    async def record(self, tokens: int) -> None:
        """Usage would be a field of the messages; none is set, the count is the approximate one."""

    def visible(self) -> int:
        return len(self.view)


if __name__ == "__main__":
    run_prepare_runner("deepagents_view", "deepagents", DeepAgentsView)
