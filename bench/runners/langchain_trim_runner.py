"""LangChain: `trim_messages` over the whole history at every call, with the approximate counter it ships.

It keeps nothing between calls, so the history is counted afresh each time and the cut is found by bisection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench_conversation import WINDOW, Chat
from langchain_core.messages import AnyMessage, trim_messages
from langchain_requests import convert_message, convert_messages, count_view_tokens, render_body
from prepare_runner import run_prepare_runner


class LangChainTrim:
    async def load(self, history: Iterable[Chat]) -> None:
        self.history: list[AnyMessage] = convert_messages(history)
        self.view: Sequence[AnyMessage] = []

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.history.extend([convert_message(message) for message in new])
        self.view = trim_messages(
            self.history, max_tokens=WINDOW, strategy="last", token_counter="approximate", start_on="human"
        )

    async def render(self) -> bytes:
        return render_body(self.view)

    def used(self) -> int:
        return count_view_tokens(self.view)

    async def record(self, tokens: int) -> None:
        """It has no place for usage."""

    def visible(self) -> int:
        return len(self.view)


if __name__ == "__main__":
    run_prepare_runner("langchain_trim", "langchain-core", LangChainTrim)
