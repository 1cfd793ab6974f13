"""pydantic-ai: the harness's `SlidingWindowCompaction` as it is meant to run, rewriting the run's messages.

Usage is set on the newest response, so that only what came after it is estimated. The cost does not depend on how much
was said before, because that is gone: nothing here holds N messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from bench_conversation import CHARS_PER_TOKEN, KEPT_MESSAGES, MEAN_CHARS, Chat
from prepare_runner import run_prepare_runner
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage
from pydantic_window_runner import PydanticWindow, to_native


class PydanticRolling(PydanticWindow):
    keep = KEPT_MESSAGES

    async def load(self, history: Iterable[Chat]) -> None:
        # Ten more than a compaction leaves: the calls measured then reach the full view without another one.
        await super().load(deque(history, maxlen=KEPT_MESSAGES + 10))
        self.tokens = len(self.history) * MEAN_CHARS // CHARS_PER_TOKEN

    async def prepare(self, new: Sequence[Chat]) -> None:
        messages = [to_native(message) for message in new]
        for message in messages:
            if isinstance(message, ModelResponse):
                message.usage = RequestUsage(input_tokens=self.tokens, output_tokens=0)
        self.history.extend(messages)
        self.view = await self.trimmed(self.history)

    async def record(self, tokens: int) -> None:
        """Reported on the response that comes next."""
        self.tokens = tokens


if __name__ == "__main__":
    run_prepare_runner("pydantic_rolling", "pydantic-ai-harness", PydanticRolling)
