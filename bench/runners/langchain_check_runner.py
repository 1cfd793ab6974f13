"""LangChain: `SummarizationMiddleware.before_model` when it decides that nothing need be done.

The trigger is set out of reach, so this is the price of asking "is it time?" with N messages in the state, and nothing
more: no view is held. A LangGraph state's own upkeep is left out (see `langchain_rolling`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench_conversation import VISIBLE_MESSAGES, Chat
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AnyMessage
from langchain_requests import convert_message, convert_messages, count_view_tokens, render_body
from langgraph.runtime import Runtime
from prepare_runner import run_prepare_runner

OUT_OF_REACH = 1_000_000_000


class LangChainCheck:
    def __init__(self) -> None:
        model = FakeListChatModel(responses=["summary"])
        keep = ("messages", VISIBLE_MESSAGES)
        self.middleware = SummarizationMiddleware(model=model, trigger=("tokens", OUT_OF_REACH), keep=keep)

    async def load(self, history: Iterable[Chat]) -> None:
        self.history: list[AnyMessage] = convert_messages(history)

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.history.extend([convert_message(message) for message in new])
        if self.middleware.before_model({"messages": self.history}, Runtime()) is not None:
            raise RuntimeError("the trigger was reached")

    async def render(self) -> bytes:
        return render_body(self.history)

    def used(self) -> int:
        return count_view_tokens(self.history)

    async def record(self, tokens: int) -> None:
        """Usage would be a field of the messages; none is set, the count is the approximate one."""

    def visible(self) -> int:
        return len(self.history)


if __name__ == "__main__":
    run_prepare_runner("langchain_check", "langchain", LangChainCheck)
