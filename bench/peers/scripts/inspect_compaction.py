"""inspect_ai's `compaction()` with one of its strategies: `edit`, `trim` or `summary`.

The library's code decides: its handler gets the whole history at every call, and the size of what was sent. The
thresholds (0.9 of the window) and all other settings are its defaults. The model is a provider of our own that counts
four characters as a token and writes the same summary as for every peer. If the handler refuses because the rest is
still over its threshold, an evaluation would end; here the guard continues with what the strategy returned.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator, no-any-return"

import asyncio
import logging
from typing import Any

from chat_messages import CHARS_PER_TOKEN, SYSTEM_ROLES, Chat, count_chat_tokens, parse_arguments_object, read_chat_text
from extractive_summary import ExtractiveSummarizer
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    CompactionEdit,
    CompactionSummary,
    CompactionTrim,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
    modelapi,
)
from inspect_ai.tool import ToolCall
from replay_driver import PeerRefusal

DEFAULT_SETTINGS = {"strategy": "summary", "threshold": 0.9}
_STRATEGIES = {"edit": CompactionEdit, "trim": CompactionTrim, "summary": CompactionSummary}


@modelapi(name="played")
class PlayedModel(ModelAPI):
    """Counts a token for every four characters and writes summaries."""

    writer: Any = None

    async def count_text_tokens(self, text: str) -> int:
        return len(text) // CHARS_PER_TOKEN

    async def generate(self, input: list[ChatMessage], *_: Any, **__: Any) -> ModelOutput:  # noqa: A002 # its own name
        return ModelOutput.from_content(model="played", content=self.writer(input))


class InspectCompaction:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        logging.getLogger("inspect_ai").setLevel(logging.ERROR)
        self.summarizer = ExtractiveSummarizer(window)
        self.model = get_model("played/none", memoize=False)
        self.model.api.writer = lambda asked: self.summarizer.write([self.to_chat(one) for one in asked[:-1]])
        self.strategy = _STRATEGIES[settings["strategy"]](threshold=int(settings["threshold"] * window))
        self.loop = asyncio.new_event_loop()
        self.history: list[ChatMessage] = []
        self.known: dict[str, tuple[Chat, ChatMessage]] = {}
        self.compact: Any = None

    def add_message(self, index: int, message: Chat) -> None:
        native = to_native(index, message)
        self.known[native.id] = (message, native)
        self.history.append(native)

    def to_chat(self, message: ChatMessage) -> Chat:
        recorded, native = self.known.get(message.id, (None, None))
        if message is native:
            return recorded
        text = message.content if isinstance(message.content, str) else message.text
        if isinstance(message, ChatMessageTool):  # an edited one has a new id, and still the call's
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
        if recorded is None:
            return {"role": message.role, "content": text}
        return recorded if text == read_chat_text(recorded) else {**recorded, "content": text}

    async def decided(self) -> list[ChatMessage]:
        if self.compact is None:
            # As its own agents have it: what was there before the model first spoke is always preserved.
            self.compact = compaction(self.strategy, prefix=list(self.history), model=self.model)
        messages, extra = await self.compact.compact_input(self.history)
        if extra is not None:
            self.history.append(extra)
        tokens = count_chat_tokens([self.to_chat(message) for message in messages])
        usage = ModelUsage(input_tokens=tokens, output_tokens=0, total_tokens=tokens)
        await self.compact.record_output(messages, ModelOutput(model="played", usage=usage))
        return list(messages)

    def build_request(self) -> list[Chat]:
        try:
            messages = self.loop.run_until_complete(self.decided())
        except RuntimeError as refusal:
            left, _ = self.loop.run_until_complete(self.strategy.compact(self.model, self.history, []))
            raise PeerRefusal(str(refusal), [self.to_chat(message) for message in left]) from refusal
        return [self.to_chat(message) for message in messages]

    def take_summary_costs(self) -> list[dict[str, int]]:
        return self.summarizer.take_summary_costs()

    def close(self) -> None:
        self.loop.close()


def to_native(index: int, message: Chat) -> ChatMessage:
    name, text = f"m{index}", read_chat_text(message)
    if message["role"] in SYSTEM_ROLES:
        return ChatMessageSystem(id=name, content=text)
    if message["role"] == "user":
        return ChatMessageUser(id=name, content=text)
    if message["role"] == "tool":
        return ChatMessageTool(id=name, content=text, tool_call_id=message["tool_call_id"])
    calls = [
        ToolCall(id=call["id"], function=call["function"]["name"], arguments=parse_arguments_object(call))
        for call in message.get("tool_calls") or ()
    ]
    return ChatMessageAssistant(id=name, content=text, tool_calls=calls or None)


create_peer = InspectCompaction
