"""Two drivers for one piece of work: it stops where a summary is wanted and is sent the text, or None for our own."""

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

from tidegate.core.outcome import SummaryRequest

T = TypeVar("T")
Asks = Generator[SummaryRequest, str | None, T]
Summarise = Callable[[SummaryRequest], str | None]
SummariseAsync = Callable[[SummaryRequest], Awaitable[str | None]]
Failed = Callable[[Exception], None]


def drive(work: Asks[T], summarise: Summarise | None, failed: Failed) -> T:
    answer: str | None = None
    while True:
        try:
            request = work.send(answer)
        except StopIteration as done:
            found: T = done.value
            return found
        try:
            answer = summarise(request) if summarise else None
        except Exception as failure:  # noqa: BLE001 - it is not our code
            failed(failure)
            answer = None


async def drive_async(work: Asks[T], summarise: SummariseAsync | None, failed: Failed) -> T:
    answer: str | None = None
    while True:
        try:
            request = work.send(answer)
        except StopIteration as done:
            found: T = done.value
            return found
        try:
            answer = await summarise(request) if summarise else None
        except Exception as failure:  # noqa: BLE001 - it is not our code
            failed(failure)
            answer = None
