"""OpenAI Agents: the newest items of an in-memory `SQLiteSession`, passed through `ToolOutputTrimmer`.

Nothing is measured in tokens: the view is a number of items, set so that about as many messages are visible as for the
others (an assistant message with a call is two items). The trimmer looks at every item; its limit is set above our
messages' length, so that the view stays as long as everyone's. The runner's own work around these two is left out.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from agents import Agent, SQLiteSession
from agents.extensions import ToolOutputTrimmer
from agents.run import CallModelData, ModelInputData
from bench_conversation import CHARS_PER_TOKEN, MEAN_CHARS, VISIBLE_MESSAGES, Chat
from openai_trimmer import to_items
from prepare_runner import run_prepare_runner

VISIBLE_ITEMS = VISIBLE_MESSAGES * 14 // 10
"""Ten messages of the conversation are fourteen items."""

BATCH_ITEMS = 1_000


class AgentsSession:
    limit: int | None = VISIBLE_ITEMS

    def __init__(self) -> None:
        self.agent: Agent[Any] = Agent(name="none")
        self.trimmer = ToolOutputTrimmer(max_output_chars=2 * MEAN_CHARS)

    async def load(self, history: Iterable[Chat]) -> None:
        self.session = SQLiteSession("bench")
        self.view: list[Any] = []
        incoming = itertools.chain.from_iterable(to_items(message) for message in history)
        while batch := list(itertools.islice(incoming, BATCH_ITEMS)):
            await self.session.add_items(batch)

    async def prepare(self, new: Sequence[Chat]) -> None:
        await self.session.add_items([item for message in new for item in to_items(message)])
        read = ModelInputData(input=await self.session.get_items(self.limit), instructions=None)
        self.view = self.trimmer(CallModelData(model_data=read, agent=self.agent, context=None)).input

    async def render(self) -> bytes:
        return json.dumps({"model": "none", "input": self.view}).encode()

    def used(self) -> int:
        return sum(len(str(item.get("content", ""))) for item in self.view) // CHARS_PER_TOKEN

    async def record(self, tokens: int) -> None:
        """It has no place for usage."""

    def visible(self) -> int:
        return sum(item.get("type") != "function_call" for item in self.view)


if __name__ == "__main__":
    run_prepare_runner("agents_session", "openai-agents", AgentsSession)
