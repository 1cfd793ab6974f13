"""LangChain: `SummarizationMiddleware.before_model` when it does summarize a history of N messages.

The summary is a fixed text, given by the `summarizer` the middleware accepts, so no model's time is counted. Every call
is handed the whole history, as it must be by whoever wants to keep one: the middleware's own way is to delete what it
has summarized, and that is `langchain_rolling`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench_conversation import VISIBLE_MESSAGES, WINDOW, Chat
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AnyMessage
from langchain_requests import convert_message, convert_messages, count_view_tokens, render_body
from langgraph.runtime import Runtime
from prepare_runner import run_prepare_runner

SUMMARY = "What was said before, in short. " * 40


class LangChainSummary:
    def __init__(self) -> None:
        self.middleware = SummarizationMiddleware(
            model=FakeListChatModel(responses=[SUMMARY]),
            trigger=("tokens", WINDOW),
            keep=("messages", VISIBLE_MESSAGES),
            summarizer=lambda _: SUMMARY,
        )

    async def load(self, history: Iterable[Chat]) -> None:
        self.history: list[AnyMessage] = convert_messages(history)
        self.view: list[AnyMessage] = []

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.history.extend([convert_message(message) for message in new])
        update = self.middleware.before_model({"messages": self.history}, Runtime())
        # The first message of an update says that all others are to be removed.
        self.view = self.history if update is None else update["messages"][1:]

    async def render(self) -> bytes:
        return render_body(self.view)

    def used(self) -> int:
        return count_view_tokens(self.view)

    async def record(self, tokens: int) -> None:
        """Usage would be a field of the messages; none is set, the count is the approximate one."""

    def visible(self) -> int:
        return len(self.view)


if __name__ == "__main__":
    run_prepare_runner("langchain_summary", "langchain", LangChainSummary)
