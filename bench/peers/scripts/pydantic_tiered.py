"""pydantic-ai-harness: old tool results are cleared; if that is not enough, a sliding window or a summary follows.

The library's code decides: a `TieredCompaction`, in the hook that a run calls before each request, changes the run's
messages in place. The tiers and their order are those of its documentation, with their defaults (3 pairs are not
cleared, 40 messages in the sliding window); `tiers` names `clear`, `slide` and `summarize`. Its target is a number of
tokens; we chose 0.8 of the window. The responses have no usage, so sizes are its own estimate of four characters per
token.
"""

# mypy: disable-error-code="import-not-found, no-any-return"

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

from chat_messages import SYSTEM_ROLES, Chat, read_chat_text
from extractive_summary import ExtractiveSummarizer
from pydantic_ai import RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import (
    ClearToolResults,
    SlidingWindowCompaction,
    SummarizingCompaction,
    TieredCompaction,
)

DEFAULT_SETTINGS = {"tiers": ["clear", "slide"], "target": 0.8}
_MESSAGE_ELEMENT = re.compile(r'<message role="(\w+)"(?: name="([^"]*)")?[^>]*>(.*?)</message>', re.DOTALL)
_PREVIOUS_SUMMARY = re.compile(r"<previous-summary>(.*?)</previous-summary>", re.DOTALL)


@dataclass
class _PartOrigins:
    """Which recorded message a part came from. Parts are held, so that an identity is never given twice."""

    parts: dict[int, tuple[Any, Chat]] = field(default_factory=dict)
    returns: dict[str, Chat] = field(default_factory=dict)

    def keep(self, part: Any, message: Chat) -> Any:
        self.parts[id(part)] = (part, message)
        return part

    def of(self, part: Any) -> Chat | None:
        return self.parts[id(part)][1] if id(part) in self.parts else None


class PydanticTiered:
    def __init__(self, window: int, settings: dict[str, Any]) -> None:
        self.summarizer = ExtractiveSummarizer(window)
        self.model = FunctionModel(self.written)
        by_name = {
            "clear": ClearToolResults(max_tokens=1),
            "slide": SlidingWindowCompaction(max_messages=1),
            "summarize": SummarizingCompaction(model=self.model, max_messages=1),
        }
        tiers = [by_name[name] for name in settings["tiers"]]
        self.tiered: Any = TieredCompaction(tiers=tiers, target_tokens=int(settings["target"] * window))
        self.loop = asyncio.new_event_loop()
        self.known = _PartOrigins()
        self.head: list[Chat] = []
        self.run: list[ModelMessage] = []

    def written(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        """The model that its summaries are asked from: the transcript it sends is taken apart into messages again."""
        transcript = "\n".join(str(part.content) for part in messages[-1].parts if isinstance(part, UserPromptPart))
        return ModelResponse(parts=[TextPart(self.summarizer.write(_parse_transcript(transcript)))])

    def add_message(self, index: int, message: Chat) -> None:
        parts = to_parts(message)
        if message["role"] == "assistant":
            self.run.append(ModelResponse(parts=[self.known.keep(part, message) for part in parts]))
        elif message["role"] == "tool":
            self.known.returns[message["tool_call_id"]] = message
            part = parts[0]
            newest = self.run[-1] if self.run else None
            if isinstance(newest, ModelRequest) and isinstance(newest.parts[0], ToolReturnPart):
                self.run[-1] = self.request(*newest.parts, part)
            else:
                self.run.append(self.request(part))
        elif message["role"] in SYSTEM_ROLES and not self.run:
            self.head.append(message)
        else:
            self.run.append(self.request(self.known.keep(parts[0], message)))

    def request(self, *parts: Any) -> ModelRequest:
        """With the agent's instructions on it, as a run's requests have them: they count, and are not a message."""
        return ModelRequest(parts=list(parts), instructions="\n\n".join(map(read_chat_text, self.head)) or None)

    def to_chat(self, message: ModelMessage) -> list[Chat]:
        if isinstance(message, ModelResponse):
            # Calls are never cleared with these settings: a response is there as it was recorded or not at all.
            recorded = self.known.of(message.parts[0])
            return [recorded] if recorded else []
        chats: list[Chat] = []
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                same, text = self.known.returns[part.tool_call_id], str(part.content)
                chats.append(same if text == read_chat_text(same) else {**same, "content": text})
            else:
                chats.append(self.known.of(part) or {"role": "user", "content": str(part.content)})
        return chats

    def build_request(self) -> list[Chat]:
        context = RunContext(deps=None, model=self.model, usage=RunUsage(), messages=self.run)
        request = ModelRequestContext(
            model=self.model,
            messages=list(self.run),
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        self.loop.run_until_complete(self.tiered.before_model_request(context, request))
        self.run = list(context.messages)
        return [*self.head, *(chat for message in self.run for chat in self.to_chat(message))]

    def take_summary_costs(self) -> list[dict[str, int]]:
        return self.summarizer.take_summary_costs()

    def close(self) -> None:
        self.loop.close()


def to_parts(message: Chat) -> list[Any]:
    """The parts of a message: one for its text, one for each call."""
    text = read_chat_text(message)
    if message["role"] == "tool":
        return [ToolReturnPart("tool", text, tool_call_id=message["tool_call_id"])]
    if message["role"] != "assistant":
        return [SystemPromptPart(text) if message["role"] in SYSTEM_ROLES else UserPromptPart(text)]
    calls = [
        ToolCallPart(call["function"]["name"], call["function"]["arguments"], tool_call_id=call["id"])
        for call in message.get("tool_calls") or ()
    ]
    return [TextPart(text), *calls] if text or not calls else calls


def _parse_transcript(transcript: str) -> list[Chat]:
    """Messages again; results come in the order of their calls."""
    turns: list[Chat] = [{"role": "user", "content": text} for text in _PREVIOUS_SUMMARY.findall(transcript)]
    open_calls: list[str] = []
    for role, name, text in _MESSAGE_ELEMENT.findall(transcript):
        if role == "tool_call":
            open_calls.append(f"call_{len(turns)}")
            call = {"id": open_calls[-1], "function": {"name": name, "arguments": text}}
            turns.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif role == "tool_return" and open_calls:
            turns.append({"role": "tool", "tool_call_id": open_calls.pop(0), "content": text})
        else:
            turns.append({"role": "assistant" if role == "assistant" else "user", "content": text})
    return turns


create_peer = PydanticTiered
