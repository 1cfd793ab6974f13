"""pydantic-ai: the harness's `SlidingWindowCompaction`, given the whole history at every call.

That is what passing `message_history` in full amounts to, and the only way to keep a history: the capability's own way
is to rewrite the run's messages (see `pydantic_rolling`). No usage is set on the responses, because the trigger would
then take the last request's size for the history's and leave the list uncut. The hook that an agent run calls,
`before_model_request`, is called directly; the run's own graph is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench_conversation import CHARS_PER_TOKEN, MEAN_CHARS, VISIBLE_MESSAGES, WINDOW, Chat
from prepare_runner import run_prepare_runner
from pydantic_ai import RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import SlidingWindowCompaction
from pydantic_tiered import to_parts


def to_native(message: Chat) -> ModelMessage:
    parts = to_parts(message)
    return ModelResponse(parts=parts) if message["role"] == "assistant" else ModelRequest(parts=parts)


class PydanticWindow:
    keep = VISIBLE_MESSAGES

    def __init__(self) -> None:
        self.model = TestModel()
        self.window = SlidingWindowCompaction[None](max_tokens=WINDOW, keep_messages=self.keep)

    async def load(self, history: Iterable[Chat]) -> None:
        self.history: list[ModelMessage] = [to_native(message) for message in history]
        self.view: list[ModelMessage] = []

    async def trimmed(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """What the hook makes of `messages`, which it rewrites in place as it does a run's."""
        context = RunContext(deps=None, model=self.model, usage=RunUsage(), messages=messages)
        request = ModelRequestContext(
            model=self.model,
            messages=messages,
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        await self.window.before_model_request(context, request)
        return context.messages

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.history.extend([to_native(message) for message in new])
        self.view = await self.trimmed(list(self.history))

    async def render(self) -> bytes:
        """Its own serialiser, to its own form: the OpenAI form is made inside its provider classes."""
        return ModelMessagesTypeAdapter.dump_json(self.view)

    def used(self) -> int:
        return len(self.view) * MEAN_CHARS // CHARS_PER_TOKEN

    async def record(self, tokens: int) -> None:
        """Usage would be a field of the responses; none is set."""

    def visible(self) -> int:
        return len(self.view)


if __name__ == "__main__":
    run_prepare_runner("pydantic_window", "pydantic-ai-harness", PydanticWindow)
