"""A provider that answers from a script, for tests, demonstrations and replay.

    answers = ["Good morning.", ScriptedAnswer(calls=(Call("c1", "read"),)), classify_response(529), BrokenAnswer(...)]
    ScriptedProvider("anthropic", answers)

Its answers pass through the same frames and the same assembler as real ones. The same script always gives the same
answers.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

import msgspec

from tidegate.core.errors import GiveUp
from tidegate.core.usage import Usage
from tidegate.models.errors.classification import ProviderError
from tidegate.wire.answers import create_assembler, encode_response_frames
from tidegate.wire.registry import get_dialect
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import Delta, Reply
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

__all__ = ["BrokenAnswer", "ScriptStep", "ScriptedAnswer", "ScriptedProvider"]


class BrokenAnswer(msgspec.Struct, frozen=True):
    """An answer that fails after this many deltas."""

    answer: ScriptedAnswer
    delta_count: int
    fault: ProviderError


ScriptedResult = str | ScriptedAnswer | BrokenAnswer | ProviderError
ScriptStep = ScriptedResult | Callable[[bytes], ScriptedResult | Awaitable[ScriptedResult]]


class ScriptedProvider:
    """Takes one of `steps` per request, in the order of the requests. A step may be a function of the request's bytes,
    also an async one.

    `requests` holds the requests as sent, `bodies` the same decoded; `closed` is set by `close`. With `count`, which
    measures a request, an answer without usage reports the counted tokens.
    """

    def __init__(
        self,
        wire: str,
        steps: Iterable[ScriptStep] = (),
        *,
        model: str = "scripted",
        count: Callable[[bytes], int] | None = None,
    ) -> None:
        self.wire = get_dialect(wire).name
        self.model = model
        self.requests: list[bytes] = []
        self.closed = False
        self._steps = iter(steps)
        self._count = count

    @property
    def bodies(self) -> list[JsonObject]:
        return [msgspec.json.decode(request, type=dict[str, object]) for request in self.requests]

    async def stream(self, request: bytes) -> AsyncGenerator[Delta | Reply, None]:
        self.requests.append(request)
        step = await self._next_step(request)
        if isinstance(step, ProviderError):
            raise step
        broken = step if isinstance(step, BrokenAnswer) else None
        answer = self._with_usage(step.answer if isinstance(step, BrokenAnswer) else step, request)
        assembler, position = create_assembler(self.wire), 0
        for frame in encode_response_frames(self.wire, answer):
            for delta in assembler.feed(frame):
                if broken and position >= broken.delta_count:
                    raise broken.fault
                position += 1
                yield delta
                await asyncio.sleep(0)  # lets other tasks interrupt the stream
        if broken:
            raise broken.fault
        yield assembler.finish()

    async def _next_step(self, request: bytes) -> ScriptedAnswer | BrokenAnswer | ProviderError:
        try:
            step = next(self._steps)
        except StopIteration:
            raise GiveUp(f"The script has no step {len(self.requests)}.", "Add one, or ask less often.") from None
        if callable(step):
            answer = step(request)
            step = await answer if inspect.isawaitable(answer) else answer
        return ScriptedAnswer(text=step) if isinstance(step, str) else step

    def _with_usage(self, answer: ScriptedAnswer, request: bytes) -> ScriptedAnswer:
        usage = answer.usage
        if usage is None and self._count is not None:
            text = answer.text + answer.thinking + "".join(call.name + call.arguments for call in answer.calls)
            usage = Usage(self._count(request), self._count(text.encode("utf-8", "replace")), 0, 0)
        return msgspec.structs.replace(answer, usage=usage, model=answer.model or self.model)

    async def close(self) -> None:
        self.closed = True
