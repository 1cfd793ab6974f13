"""inspect_ai: `compaction()` with `CompactionTrim`, its lightest strategy: no model, no editing of results.

The handler is given the whole list of messages at every call, as its documentation asks, and holds its own reduced
input. The model is a provider of our own whose `count_text_tokens`, the place inspect_ai names for it, is length over
four: its default tokenises with tiktoken, which is dearer and must be downloaded. Usage is reported after every call,
so that only new messages are counted.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from conversation import CHARS_PER_TOKEN, VISIBLE, WINDOW, Chat
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    CompactionTrim,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
    messages_to_openai,
    modelapi,
)
from inspect_ai.tool import ToolCall
from measure import main


@modelapi(name="quarter")
class Quarter(ModelAPI):
    """Counts a token for every four characters and answers nothing."""

    async def count_text_tokens(self, text: str) -> int:
        return len(text) // CHARS_PER_TOKEN

    async def generate(self, *_: Any, **__: Any) -> ModelOutput:
        raise NotImplementedError("nothing is generated here")


def native(said: Chat) -> ChatMessage:
    if said["role"] == "user":
        return ChatMessageUser(content=said["content"])
    if said["role"] == "tool":
        return ChatMessageTool(content=said["content"], tool_call_id=said["tool_call_id"])
    calls = [
        ToolCall(id=call["id"], function=call["function"]["name"], arguments=json.loads(call["function"]["arguments"]))
        for call in said.get("tool_calls", ())
    ]
    return ChatMessageAssistant(content=said["content"], tool_calls=calls or None)


class InspectCompaction:
    """The full history in a list, as an agent keeps it, beside a compaction handler."""

    def __init__(self) -> None:
        self.model = get_model("quarter/none", config=GenerateConfig())

    async def load(self, history: Iterable[Chat]) -> None:
        self.history: list[ChatMessage] = []
        self.view: list[ChatMessage] = []
        self.compact: Any = None
        # As many messages a step as one compaction frees: fewer steps than a real session, the same state after.
        incoming = iter(history)
        while batch := list(itertools.islice(incoming, VISIBLE // 6)):
            await self.prepare(batch)
            await self.record(self.used())

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.history.extend([native(said) for said in new])
        if self.compact is None:
            self.compact = compaction(CompactionTrim(threshold=WINDOW), prefix=self.history[:1], model=self.model)
        self.view, extra = await self.compact.compact_input(self.history)
        if extra is not None:
            self.history.append(extra)

    async def render(self) -> bytes:
        body = {"model": "none", "messages": await messages_to_openai(self.view)}
        return json.dumps(body).encode()

    def used(self) -> int:
        spent = 0
        for message in self.view:
            spent += len(message.content)
            if isinstance(message, ChatMessageAssistant) and message.tool_calls:
                spent += sum(len(call.arguments["note"]) + 40 for call in message.tool_calls)
        return spent // CHARS_PER_TOKEN

    async def record(self, tokens: int) -> None:
        usage = ModelUsage(input_tokens=tokens, output_tokens=0, total_tokens=tokens)
        await self.compact.record_output(self.view, ModelOutput(model="none", usage=usage))

    def visible(self) -> int:
        return len(self.view)


if __name__ == "__main__":
    main("inspect_compaction", "inspect_ai", InspectCompaction)
