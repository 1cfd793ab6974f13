"""Summaries by the framework's own model, for policies that ask for them."""

import asyncio
from collections.abc import Awaitable, Callable

from tidegate.core.outcome import SummaryRequest
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.session.summaries.drivers import Summarizer
from tidegate.session.summaries.prompt import SUMMARY_SYSTEM_PROMPT, plan_chunks, write_question

_RECORD_TOKENS = 6_000
"""Tokens of the record in one question: it fits into every window that is in use."""


def make_summarizer(ask: Callable[[str], str]) -> Summarizer:
    """A summarizer that puts questions to a model. The session checks each answer before it is used."""

    def summarize(request: SummaryRequest) -> str | None:
        plan = plan_chunks(request, _RECORD_TOKENS, TokenEstimator(), request.max_tokens)
        summary = plan.previous
        for chunk in plan.chunks:
            question = write_question(request, chunk, summary, request.max_tokens)
            summary = ask(f"{SUMMARY_SYSTEM_PROMPT}\n\n{question.text}")
        return summary or None

    return summarize


def make_async_summarizer(ask: Callable[[str], Awaitable[str]]) -> Summarizer:
    """The same for an async model: the questions run in the present event loop. Use it from another thread."""
    loop = asyncio.get_running_loop()

    async def run(text: str) -> str:
        return await ask(text)

    return make_summarizer(lambda text: asyncio.run_coroutine_threadsafe(run(text), loop).result())
