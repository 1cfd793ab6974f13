"""Yielding to the event loop during work that never waits."""

import asyncio
from typing import Final

STEPS: Final = 64
"""Steps of work, each well under a millisecond, between two yields."""


class Pace:
    """Yields to the event loop after every STEPS steps.

    Reading a stream whose next piece has already arrived does not suspend the task, so other tasks would not run.
    """

    def __init__(self) -> None:
        self._steps = 0

    async def step(self) -> None:
        self._steps += 1
        if self._steps % STEPS == 0:
            await asyncio.sleep(0)
