"""Microsoft Agent Framework: `ContextWindowCompactionStrategy`, or a summary within a budget of tokens.

The framework's code decides: `apply_compaction` is called on one list of messages for the whole recording, as in a run
of its agent, so that excluded messages stay excluded. With `window`, tool calls are collapsed at 0.5 of the input
budget and the oldest groups are dropped at 0.8 (both defaults); an eighth of the window is reserved for the answer, as
in its example. With `summary`, its `SummarizationStrategy` with its defaults (4 messages stay, 8,000 tokens are read)
is used in a `TokenBudgetComposedStrategy` that acts at the same 0.8. Instructions are not in the list: its clients add
them last.
"""

# mypy: disable-error-code="import-not-found, no-any-return"

import asyncio
import json
import logging
import re
from collections.abc import Sequence
from typing import Any

from agent_framework import (
    ChatResponse,
    Content,
    ContextWindowCompactionStrategy,
    Message,
    SummarizationStrategy,
    TokenBudgetComposedStrategy,
    apply_compaction,
)
from chat_messages import CHARS_PER_TOKEN, SYSTEM_ROLES, Chat, read_chat_text
from extractive_summary import ExtractiveSummarizer

DEFAULT_SETTINGS = {"strategy": "window", "answer": 0.125, "budget": 0.8}
_TURN_HEADING = re.compile(r"^\d+\. \[(\w+)\] ", re.MULTILINE)
_CALL_ID = re.compile(r"\[call_id=([^\]]+)\]")


class QuarterTokenizer:
    """In its place for a tokenizer: counts what is counted everywhere here, text, names and arguments."""

    def count_tokens(self, text: str) -> int:
        try:
            contents = json.loads(text)["contents"]
        except (ValueError, KeyError, TypeError):
            return len(text) // CHARS_PER_TOKEN
        keys = ("text", "name", "arguments", "result")
        return sum(len(str(part.get(key) or "")) for part in contents for key in keys) // CHARS_PER_TOKEN


class TranscriptSummaryClient:
    """The client that its summaries are asked from: the transcript it sends is taken apart into messages again."""

    def __init__(self, summarizer: ExtractiveSummarizer) -> None:
        self.summarizer = summarizer
        self.by_call: dict[tuple[str, str], Chat] = {}

    def add_message(self, message: Chat) -> None:
        for name in (message.get("tool_call_id"), *(call["id"] for call in message.get("tool_calls") or ())):
            self.by_call[message["role"], name] = message

    def turn(self, role: str, text: str) -> Chat:
        match = _CALL_ID.search(text)
        recorded = self.by_call.get((role, match[1])) if match else None
        return recorded or {"role": role, "content": text}

    async def get_response(self, messages: Sequence[Message], **_: Any) -> ChatResponse:
        parts = _TURN_HEADING.split(messages[-1].text)[1:]
        turns = [self.turn(role, text) for role, text in zip(parts[::2], parts[1::2], strict=True)]
        text = self.summarizer.write(turns)
        return ChatResponse(messages=[Message(role="assistant", contents=[text])])


class AgentFrameworkWindow:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        logging.getLogger("agent_framework").setLevel(logging.CRITICAL)
        self.summarizer = ExtractiveSummarizer(window)
        self.writer = TranscriptSummaryClient(self.summarizer)
        self.loop = asyncio.new_event_loop()
        self.head: list[Chat] = []
        self.said: list[Message] = []
        self.known: dict[str, Chat] = {}
        self.tokenizer = QuarterTokenizer()
        answer = int(settings["answer"] * window)
        if settings["strategy"] == "summary":
            inner = SummarizationStrategy(client=self.writer, tokenizer=self.tokenizer)
            self.strategy: Any = TokenBudgetComposedStrategy(
                token_budget=int(settings["budget"] * (window - answer)), tokenizer=self.tokenizer, strategies=[inner]
            )
        else:
            self.strategy = ContextWindowCompactionStrategy(
                max_context_window_tokens=window, max_output_tokens=answer, tokenizer=self.tokenizer
            )

    def add_message(self, index: int, message: Chat) -> None:
        if message["role"] in SYSTEM_ROLES and not self.said:
            self.head.append(message)
            return
        self.known[f"m{index}"] = message
        self.writer.add_message(message)
        self.said.append(to_native(f"m{index}", message))

    def to_chat(self, message: Message) -> Chat:
        """It excludes messages and adds some; it changes none."""
        return self.known.get(message.message_id) or {"role": message.role, "content": message.text}

    def build_request(self) -> list[Chat]:
        messages = self.loop.run_until_complete(
            apply_compaction(self.said, strategy=self.strategy, tokenizer=self.tokenizer)
        )
        return [*self.head, *map(self.to_chat, messages)]

    def take_summary_costs(self) -> list[dict[str, int]]:
        return self.summarizer.take_summary_costs()

    def close(self) -> None:
        self.loop.close()


def to_native(name: str, message: Chat) -> Message:
    text = read_chat_text(message)
    if message["role"] == "tool":
        contents = [Content.from_function_result(call_id=message["tool_call_id"], result=text)]
    else:
        contents = [Content.from_text(text)] if text else []
    for call in message.get("tool_calls") or ():
        contents.append(Content.from_function_call(call_id=call["id"], **call["function"]))
    role = "system" if message["role"] in SYSTEM_ROLES else message["role"]
    return Message(role=role, contents=contents, message_id=name)


create_peer = AgentFrameworkWindow
