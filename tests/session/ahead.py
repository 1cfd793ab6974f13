"""A summarizer that writes when it is let, and a session on its way to the mark, for the tests of preparing ahead."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.session.settling import talk
from tidegate.core.messages import SUMMARY, text_of
from tidegate.core.outcome import SummaryRequest
from tidegate.session.session import Session


class Slow:
    """Writes when it is let; `happened` is what came in which order."""

    def __init__(self, *texts: str | Exception | None) -> None:
        self.texts = list(texts)
        self.asked: list[SummaryRequest] = []
        self.happened: list[str] = []
        self.go = asyncio.Event()

    async def __call__(self, request: SummaryRequest) -> str | None:
        self.asked.append(request)
        self.happened.append("asked")
        await self.go.wait()
        self.happened.append("written")
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return text


def size(session: Session) -> float:
    return session.tokens / session.budget.capacity


def below_its_mark(session: Session, start: int = 1) -> int:
    """Talk until the size is between the lowered mark (0.72) and the policy's own (0.8)."""
    while size(session) <= 0.72:
        talk(session, start, start + 1)
        start += 1
    assert size(session) < 0.8
    return start


def beyond_its_mark(session: Session, start: int) -> int:
    while size(session) <= 0.8:
        talk(session, start, start + 1)
        start += 1
    return start


def summary(session: Session) -> str:
    return "\n".join(text_of(item.message) for item in session.view.items if item.message.kind == SUMMARY)


def running(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    asyncio.run(main())


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)
