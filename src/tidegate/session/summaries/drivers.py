"""Synchronous and asynchronous drivers of the session's work.

The work is a generator. It yields summary requests and is sent the text, or None for a digest. It also yields appends,
so that async code waits for them in the event loop and not in a thread.
"""

from collections.abc import Awaitable, Callable, Generator
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, cast

import msgspec

from tidegate.core.outcome import SummaryRequest
from tidegate.core.text.clip import clip_chars
from tidegate.session.serial_calls import RunFold, SerialCalls, run_planning

_T = TypeVar("_T")
_P = ParamSpec("_P")


class PendingAppend(NamedTuple):
    """An append to the log that the driver makes. Its error is raised in the work.

    `append_async` gives the driver the fold of what was appended, which can take long: the driver runs it in the thread
    of the next step.
    """

    append: Callable[[], object]
    append_async: Callable[[RunFold], Awaitable[object]]


Step = SummaryRequest | PendingAppend
SummarySteps = Generator[Step, str | None, _T]
Summarizer = Callable[[SummaryRequest], str | None]
AsyncSummarizer = Callable[[SummaryRequest], Awaitable[str | None]]
FailureCallback = Callable[[Exception], None]


def accept_summarise(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Accept the argument `summarize` also by the name that it had before: `summarise`."""

    @wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        if "summarise" in named:
            named["summarize"] = named.pop("summarise")
        return method(*args, **named)

    @wraps(method)
    async def call_async(*args: Any, **named: Any) -> Any:
        return await call(*args, **named)

    return cast(Callable[_P, _T], call_async if iscoroutinefunction(method) else call)


def run_steps(steps: SummarySteps[_T], summarize: Summarizer | None, on_failure: FailureCallback) -> _T:
    try:
        step = next(steps)
        while True:
            if isinstance(step, SummaryRequest):
                step = steps.send(_ask(step, summarize, on_failure))
                continue
            try:
                step.append()
            except BaseException as failure:  # noqa: BLE001 - raised in the work
                step = steps.throw(failure)
            else:
                step = next(steps)
    except StopIteration as done:
        found: _T = done.value
        return found


def _ask(request: SummaryRequest, summarize: Summarizer | None, on_failure: FailureCallback) -> str | None:
    try:
        return summarize(request) if summarize else None
    except Exception as failure:  # noqa: BLE001 - it is not our code
        on_failure(failure)
        return None


async def run_steps_async(
    steps: SummarySteps[_T], summarize: AsyncSummarizer | None, on_failure: FailureCallback, calls: SerialCalls
) -> _T:
    """Run the steps in a thread, because they compute. Appends and the summarizer run in the event loop."""
    resume = partial(steps.send, None)
    results: list[_T] = []
    folds: list[Callable[[], object]] = []

    async def postpone_fold(fold: Callable[[], object]) -> None:
        folds.append(fold)

    def advance() -> Step | None:
        go_on = resume
        try:
            while folds:
                folds.pop()()
        except BaseException as failure:  # noqa: BLE001 - raised in the work
            go_on = partial(steps.throw, failure)
        try:
            return go_on()
        except StopIteration as done:  # it cannot leave a thread
            results.append(done.value)
            return None

    async def advance_to_request() -> SummaryRequest | None:
        nonlocal resume
        while isinstance(step := await run_planning(advance), PendingAppend):
            try:
                await step.append_async(postpone_fold)
            except BaseException as failure:  # noqa: BLE001 - raised in the work
                resume = partial(steps.throw, failure)
            else:
                resume = partial(steps.send, None)
        return step

    while True:
        request = await calls.finish(advance_to_request())
        if request is None:
            return results[0]
        answer: str | None = None
        try:
            answer = await summarize(request) if summarize else None
        except Exception as failure:  # noqa: BLE001 - it is not our code
            await calls.run(on_failure, failure)
        resume = partial(steps.send, answer)


# A manual compaction may name a focus for its summary.
#
# The focus is one line in the instructions of the summary. It does not change the digest. A summary prepared ahead
# of time was written without it and is not used.

FOCUS_PREFIX: Final = "Above all, keep clear what concerns this: "
MAX_FOCUS_CHARS: Final = 500


def add_focus(summarize: Summarizer | None, focus: str) -> Summarizer | None:
    if summarize is None or not focus.strip():
        return summarize
    return lambda request: summarize(focus_request(request, focus))


def add_focus_async(summarize: AsyncSummarizer | None, focus: str) -> AsyncSummarizer | None:
    if summarize is None or not focus.strip():
        return summarize

    async def asked(request: SummaryRequest) -> str | None:
        return await summarize(focus_request(request, focus))

    return asked


def focus_request(request: SummaryRequest, focus: str) -> SummaryRequest:
    """Add the focus to the instructions, on one line so that it cannot pass for several instructions."""
    words = clip_chars(" ".join(focus.split()), MAX_FOCUS_CHARS, mode="head", notice="").text
    return msgspec.structs.replace(request, instructions=f"{request.instructions}\n{FOCUS_PREFIX}{words}")


def strip_focus_line(words: str) -> str:
    """Return the instructions without the focus line, which a summary may repeat."""
    return "\n".join(line for line in words.split("\n") if not line.startswith(FOCUS_PREFIX))
