"""Strands: `SlidingWindowConversationManager` or `SummarizingConversationManager`, on a real `Agent`.

The library's code decides, at the three places where an agent calls it: before a model call, at the end of a turn, and
when the model reports that its window is full. The last is simulated here, because nothing is sent. All settings are
defaults (40 messages; at an overflow 30% of the messages, never the newest 10). If a manager finds nothing more to
remove, the agent would fail; here the guard continues with what is left.
"""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

import logging
from collections.abc import AsyncIterator
from typing import Any

from chat_messages import SYSTEM_ROLES, Chat, count_chat_tokens, fits_window, parse_arguments_object, read_chat_text
from extractive_summary import ExtractiveSummarizer
from replay_driver import PeerRefusal
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.hooks import BeforeModelCallEvent
from strands.models.model import Model
from strands.types.exceptions import ContextWindowOverflowException

DEFAULT_SETTINGS = {"manager": "sliding", "proactive": False}
_MANAGERS = {"sliding": SlidingWindowConversationManager, "summary": SummarizingConversationManager}
_NativeMessage = dict[str, Any]


class SummaryModel(Model):
    """A model that only ever writes summaries."""

    def __init__(self, window: int, write: Any) -> None:
        self.config = {"context_window_limit": window}
        self.write = write

    def get_config(self) -> dict[str, int]:
        return self.config

    def update_config(self, **_: Any) -> None: ...

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("nothing asks for it")

    async def stream(self, messages: list[_NativeMessage], *_: Any, **__: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": self.write(messages[:-1])}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class StrandsManaging:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        logging.getLogger("strands").setLevel(logging.CRITICAL)
        self.window = window
        self.summarizer = ExtractiveSummarizer(window)
        self.manager = _MANAGERS[settings["manager"]](proactive_compression=settings["proactive"])
        model = SummaryModel(window, lambda asked: self.summarizer.write(self.chats(asked)))
        self.agent = Agent(model=model, conversation_manager=self.manager, callback_handler=None)
        self.head: list[Chat] = []
        self.known: dict[int, tuple[_NativeMessage, list[Chat]]] = {}
        """By identity: its messages are plain dicts, which managers delete and change in place. Held, so that an
        identity is never given twice."""

    def add_message(self, index: int, message: Chat) -> None:
        messages = self.agent.messages
        if message["role"] in SYSTEM_ROLES and not messages:
            self.head.append(message)
            return
        if message["role"] == "tool" and messages and "toolResult" in messages[-1]["content"][0]:
            messages[-1]["content"].append(_make_result_block(message))
            self.known[id(messages[-1])][1].append(message)
            return
        native = to_native(message)
        messages.append(native)
        self.known[id(native)] = (native, [message])
        if message["role"] == "assistant" and not message.get("tool_calls"):
            self.manager.apply_management(self.agent)

    def to_chat(self, native: _NativeMessage) -> list[Chat]:
        if id(native) not in self.known:
            text = "\n".join(block.get("text", "") for block in native["content"])
            return [{"role": native["role"], "content": text}]
        recorded = self.known[id(native)][1]
        if recorded[0]["role"] != "tool":
            return recorded
        chats = []
        for message, block in zip(recorded, native["content"], strict=True):
            text = "".join(part.get("text", "") for part in block["toolResult"]["content"])
            chats.append(message if text == read_chat_text(message) else {**message, "content": text})
        return chats

    def chats(self, messages: list[_NativeMessage]) -> list[Chat]:
        return [message for native in messages for message in self.to_chat(native)]

    def view(self) -> list[Chat]:
        return [*self.head, *self.chats(self.agent.messages)]

    def build_request(self) -> list[Chat]:
        tokens = count_chat_tokens(self.view())
        self.agent.hooks.invoke_callbacks(BeforeModelCallEvent(agent=self.agent, projected_input_tokens=tokens))
        while not fits_window(view := self.view(), self.window):
            try:
                self.manager.reduce_context(self.agent, e=ContextWindowOverflowException("played: the window is full"))
            except Exception as refusal:
                raise PeerRefusal(f"{type(refusal).__name__}: {refusal}", view) from refusal
            if self.view() == view:
                raise PeerRefusal("the manager took nothing away", view)
        return view

    def take_summary_costs(self) -> list[dict[str, int]]:
        return self.summarizer.take_summary_costs()

    def close(self) -> None:
        """Nothing is open."""


def _make_result_block(message: Chat) -> _NativeMessage:
    content = [{"text": read_chat_text(message)}]
    return {"toolResult": {"toolUseId": message["tool_call_id"], "status": "success", "content": content}}


def to_native(message: Chat) -> _NativeMessage:
    if message["role"] == "tool":
        return {"role": "user", "content": [_make_result_block(message)]}
    content: list[_NativeMessage] = [{"text": text}] if (text := read_chat_text(message)) else []
    for call in message.get("tool_calls") or ():
        use = {"toolUseId": call["id"], "name": call["function"]["name"], "input": parse_arguments_object(call)}
        content.append({"toolUse": use})
    role = "assistant" if message["role"] == "assistant" else "user"
    return {"role": role, "content": content or [{"text": ""}]}


create_peer = StrandsManaging
