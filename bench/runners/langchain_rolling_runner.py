"""LangChain: `SummarizationMiddleware` as it is meant to run, deleting from the state what it has summarized.

New messages enter the state through `add_messages`, the reducer of every LangChain agent, and its updates go back
through it. The cost does not depend on how much was said before, because that is gone: nothing here holds N messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from bench_conversation import KEPT_MESSAGES, WINDOW, Chat
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AnyMessage
from langchain_requests import convert_message, convert_messages, count_view_tokens, render_body
from langchain_summary_runner import SUMMARY
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from prepare_runner import run_prepare_runner


class LangChainRolling:
    def __init__(self) -> None:
        self.middleware = SummarizationMiddleware(
            model=FakeListChatModel(responses=[SUMMARY]),
            trigger=("tokens", WINDOW),
            keep=("messages", KEPT_MESSAGES),
            summarizer=lambda _: SUMMARY,
        )

    async def load(self, history: Iterable[Chat]) -> None:
        # Ten more than a compaction leaves: the calls measured then reach the full view without another one.
        self.state: list[AnyMessage] = convert_messages(deque(history, maxlen=KEPT_MESSAGES + 10))

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.state = add_messages(self.state, [convert_message(message) for message in new])
        update = self.middleware.before_model({"messages": self.state}, Runtime())
        if update is not None:
            self.state = add_messages(self.state, update["messages"])

    async def render(self) -> bytes:
        return render_body(self.state)

    def used(self) -> int:
        return count_view_tokens(self.state)

    async def record(self, tokens: int) -> None:
        """Usage would be a field of the messages; none is set, the count is the approximate one."""

    def visible(self) -> int:
        return len(self.state)


if __name__ == "__main__":
    run_prepare_runner("langchain_rolling", "langchain", LangChainRolling)
