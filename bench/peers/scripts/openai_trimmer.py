"""OpenAI Agents' `ToolOutputTrimmer`: large outputs of turns before the newest two become a preview.

The library's code decides: it is the filter that a run calls before each model call, with the whole session. Its
defaults are in characters and do not depend on the window, so they are used unchanged. It does not limit the size of a
request; the guard removes what is over the window.
"""

# mypy: disable-error-code="import-not-found"

from typing import Any

from agents import Agent
from agents.extensions import ToolOutputTrimmer
from agents.run import CallModelData, ModelInputData
from chat_messages import SYSTEM_ROLES, Chat, read_chat_text

DEFAULT_SETTINGS = {"recent_turns": 2, "max_output_chars": 500, "preview_chars": 200}


class OpenAITrimmer:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.trimmer = ToolOutputTrimmer(**settings)
        self.agent: Any = Agent(name="none")
        self.messages: list[Chat] = []
        self.items: list[dict[str, Any]] = []
        self.outputs: dict[str, int] = {}

    def add_message(self, index: int, message: Chat) -> None:
        if message["role"] == "tool":
            self.outputs[message["tool_call_id"]] = len(self.messages)
        self.items += to_items(message)
        self.messages.append(message)

    def build_request(self) -> list[Chat]:
        read = ModelInputData(input=list(self.items), instructions=None)
        view_items = self.trimmer(CallModelData(model_data=read, agent=self.agent, context=None)).input
        view = list(self.messages)
        # The trimmer replaces items and leaves their order: what it left alone is the very item it was given.
        for item, view_item in zip(self.items, view_items, strict=True):
            if view_item is not item:
                at = self.outputs[view_item["call_id"]]
                view[at] = {**self.messages[at], "content": view_item["output"]}
        return view

    def take_summary_costs(self) -> list[dict[str, int]]:
        return []

    def close(self) -> None:
        """Nothing is open."""


def to_items(message: Chat) -> list[dict[str, Any]]:
    """The items of a message in the Responses form: one for its text, one for each call."""
    text = read_chat_text(message)
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": text}]
    role = "system" if message["role"] in SYSTEM_ROLES else message["role"]
    items: list[dict[str, Any]] = [{"role": role, "content": text}] if text or role != "assistant" else []
    for call in message.get("tool_calls") or ():
        items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return items


create_peer = OpenAITrimmer
