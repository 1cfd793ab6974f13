"""LangChain: `trim_messages` over the whole history at every call, with the approximate counter it ships.

It keeps nothing between calls, so the history is counted afresh each time and the cut is found by bisection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conversation import WINDOW, Chat
from langchain_core.messages import AnyMessage, trim_messages
from langchain_messages import body, native, natives, tokens
from measure import main


class LangChainTrim:
    async def load(self, history: Iterable[Chat]) -> None:
        self.history: list[AnyMessage] = natives(history)
        self.view: Sequence[AnyMessage] = []

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.history.extend([native(said) for said in new])
        self.view = trim_messages(
            self.history, max_tokens=WINDOW, strategy="last", token_counter="approximate", start_on="human"
        )

    async def render(self) -> bytes:
        return body(self.view)

    def used(self) -> int:
        return tokens(self.view)

    async def record(self, tokens: int) -> None:
        """It has no place for usage."""

    def visible(self) -> int:
        return len(self.view)


if __name__ == "__main__":
    main("langchain_trim", "langchain-core", LangChainTrim)
