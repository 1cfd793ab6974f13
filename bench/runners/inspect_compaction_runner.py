"""inspect_ai: `compaction()` with `CompactionTrim`, its lightest strategy: no model, no editing of results.

The handler is given the whole list of messages at every call, as its documentation asks, and holds its own reduced
input. The model is the lab's provider, whose `count_text_tokens` (where inspect_ai asks for it) is length over
four: the default counts with tiktoken, which costs more and must be downloaded. Usage is reported after every call,
so that only new messages are counted.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from bench_conversation import CHARS_PER_TOKEN, VISIBLE_MESSAGES, WINDOW, Chat
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    CompactionTrim,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
    messages_to_openai,
)
from inspect_compaction import to_native  # also registers its model provider, "played"
from prepare_runner import run_prepare_runner

_indices = itertools.count()


class InspectCompaction:
    """The full history in a list, as an agent keeps it, beside a compaction handler."""

    def __init__(self) -> None:
        self.model = get_model("played/none", config=GenerateConfig())

    async def load(self, history: Iterable[Chat]) -> None:
        self.history: list[ChatMessage] = []
        self.view: list[ChatMessage] = []
        self.compact: Any = None
        # As many messages a step as one compaction frees: fewer steps than a real session, the same state after.
        incoming = iter(history)
        while batch := list(itertools.islice(incoming, VISIBLE_MESSAGES // 6)):
            await self.prepare(batch)
            await self.record(self.used())

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.history.extend([to_native(next(_indices), message) for message in new])
        if self.compact is None:
            self.compact = compaction(CompactionTrim(threshold=WINDOW), prefix=self.history[:1], model=self.model)
        self.view, extra = await self.compact.compact_input(self.history)
        if extra is not None:
            self.history.append(extra)

    async def render(self) -> bytes:
        body = {"model": "none", "messages": await messages_to_openai(self.view)}
        return json.dumps(body).encode()

    def used(self) -> int:
        chars = 0
        for message in self.view:
            chars += len(message.content)
            if isinstance(message, ChatMessageAssistant) and message.tool_calls:
                chars += sum(len(call.arguments["note"]) + 40 for call in message.tool_calls)
        return chars // CHARS_PER_TOKEN

    async def record(self, tokens: int) -> None:
        usage = ModelUsage(input_tokens=tokens, output_tokens=0, total_tokens=tokens)
        await self.compact.record_output(self.view, ModelOutput(model="none", usage=usage))

    def visible(self) -> int:
        return len(self.view)


if __name__ == "__main__":
    run_prepare_runner("inspect_compaction", "inspect_ai", InspectCompaction)
