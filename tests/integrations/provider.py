"""The strict fake provider on a thread of its own, and the task that it sets an agent."""

import asyncio
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from tests.fake.server import KEY, Fake, Step
from tidegate.core.messages import Call
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

__all__ = ["FINAL_ANSWER", "KEY", "LongTask", "read_page", "run_provider"]

FINAL_ANSWER = "All pages are read."
DEADLINE = 300
"""Seconds after which a server that is waited for has failed. It only ends a test that hangs."""
Script = Callable[[dict[str, Any]], Step]


def read_page(number: int) -> str:
    """A page of a report: long, and with one fact that no other page has."""
    return f"Page {number}: the code is K{number:04d}.\n" + "The harbor log has nothing new for this day.\n" * 60


class LongTask:
    """Asks for `steps` pages, `parallel` at a time, and then gives the final answer."""

    def __init__(
        self, steps: int, parallel: int = 1, *, start: int = 0, thinking: str = "", name: str = "read"
    ) -> None:
        self.left = list(range(start, start + steps))
        self._parallel = parallel
        self._thinking = thinking
        self._name = name
        self._requests = start
        self.prefix = "call"

    def __call__(self, body: dict[str, Any]) -> Step:
        self._requests += 1
        now, self.left = self.left[: self._parallel], self.left[self._parallel :]
        calls = tuple(Call(f"{self.prefix}_{number}", self._name, f'{{"number":{number}}}') for number in now)
        thinking = self._thinking if calls else ""
        return ScriptedAnswer(
            text="" if calls else FINAL_ANSWER,
            calls=calls,
            number=self._requests,
            thinking=thinking,
            signature=b64encode(b"signature %d" % self._requests).decode() if thinking else "",
        )


@contextmanager
def run_provider(
    wire: str,
    script: Script,
    window: int | None = None,
    *,
    alternate: bool = True,
    counts_output: bool = False,
    binding: Literal["", "block", "prefix"] = "",
) -> Iterator[Fake]:
    """Serve on loopback. Every request that breaks a rule of the provider or its window is in `refused`.

    `alternate`: the two sides must take turns. `counts_output`: the output that is asked for is a part of the window.
    `binding`: what signed thinking is bound to.
    """
    fake = Fake(wire, script, window=window, alternate=alternate, counts_output=counts_output, binding=binding)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(fake.__aenter__(), loop).result(DEADLINE)
        yield fake
    finally:
        asyncio.run_coroutine_threadsafe(fake.__aexit__(None, None, None), loop).result(DEADLINE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE)
        loop.close()
