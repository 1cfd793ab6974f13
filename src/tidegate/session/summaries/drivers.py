"""Synchronous and asynchronous drivers of the session's work, a generator that yields summary requests and is sent the
text, or None for a digest.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Final, TypeVar

import msgspec

from tidegate.core.outcome import SummaryRequest
from tidegate.core.text.clip import clip_chars
from tidegate.session.serial_calls import SerialCalls

_T = TypeVar("_T")
SummarySteps = Generator[SummaryRequest, str | None, _T]
Summarizer = Callable[[SummaryRequest], str | None]
AsyncSummarizer = Callable[[SummaryRequest], Awaitable[str | None]]
FailureCallback = Callable[[Exception], None]


def run_steps(steps: SummarySteps[_T], summarise: Summarizer | None, on_failure: FailureCallback) -> _T:
    answer: str | None = None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as done:
            found: _T = done.value
            return found
        try:
            answer = summarise(request) if summarise else None
        except Exception as failure:  # noqa: BLE001 - it is not our code
            on_failure(failure)
            answer = None


async def run_steps_async(
    steps: SummarySteps[_T], summarise: AsyncSummarizer | None, on_failure: FailureCallback, calls: SerialCalls
) -> _T:
    """Run the steps in threads, because they wait for the store. The summarizer runs in the event loop."""
    answer: str | None = None
    results: list[_T] = []

    def advance() -> SummaryRequest | None:
        try:
            return steps.send(answer)
        except StopIteration as done:  # it cannot leave a thread
            results.append(done.value)
            return None

    while True:
        request = await calls.run(advance)
        if request is None:
            return results[0]
        try:
            answer = await summarise(request) if summarise else None
        except Exception as failure:  # noqa: BLE001 - it is not our code
            await calls.run(on_failure, failure)
            answer = None


# A manual compaction may name a focus for its summary.
#
# The focus is one line in the instructions of the summary. It does not change the digest. A summary prepared ahead
# of time was written without it and is not used.

FOCUS_PREFIX: Final = "Above all, keep clear what concerns this: "
MAX_FOCUS_CHARS: Final = 500


def add_focus(summarise: Summarizer | None, focus: str) -> Summarizer | None:
    if summarise is None or not focus.strip():
        return summarise
    return lambda request: summarise(focus_request(request, focus))


def add_focus_async(summarise: AsyncSummarizer | None, focus: str) -> AsyncSummarizer | None:
    if summarise is None or not focus.strip():
        return summarise

    async def asked(request: SummaryRequest) -> str | None:
        return await summarise(focus_request(request, focus))

    return asked


def focus_request(request: SummaryRequest, focus: str) -> SummaryRequest:
    """Add the focus to the instructions, on one line so that it cannot pass for several instructions."""
    words = clip_chars(" ".join(focus.split()), MAX_FOCUS_CHARS, mode="head", notice="").text
    return msgspec.structs.replace(request, instructions=f"{request.instructions}\n{FOCUS_PREFIX}{words}")


def strip_focus_line(words: str) -> str:
    """Return the instructions without the focus line, which a summary may repeat."""
    return "\n".join(line for line in words.split("\n") if not line.startswith(FOCUS_PREFIX))
