"""Summaries by a model, within that model's window and a time limit, checked before use.

    summarize = create_summarizer(provider, window=32_000, counter=counter, timeout=60, conversation=session)
    request = await session.prepare_async(summarize)

If the model is the conversation's own, the conversation is sent again up to the last message in question, followed by
one message that asks for the summary, so the provider reads nearly all of it from its cache. Otherwise, or if that
fails, the messages are shown as a fenced record, in chunks if necessary; each chunk continues the summary so far.
Secrets in the record are masked for a model of another provider.

Answers pass `answer_check`. If none is accepted, the result is None, the reason is noted, and the digest is used
instead.
"""

import asyncio
import math
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.messages import Text, calls_of
from tidegate.core.notes import SummaryRejected
from tidegate.core.outcome import SummaryRequest
from tidegate.core.text.clip import clip_tokens
from tidegate.core.text.secrets import SecretMask
from tidegate.core.tokens.counting import REQUEST_OVERHEAD, TokenCounter
from tidegate.models.errors.classification import ProviderError
from tidegate.models.provider import Provider, Reply
from tidegate.session.session import Session
from tidegate.session.summaries.answer_check import (
    AnswerCriteria,
    AnswerRejected,
    CheckedSummary,
    check_answer,
    max_answer_chars,
    restore_missing_facts,
)
from tidegate.session.summaries.drivers import AsyncSummarizer, strip_focus_line
from tidegate.session.summaries.prompt import (
    MIN_RECORD_TOKENS,
    SUMMARY_SYSTEM_PROMPT,
    RecordChunk,
    SummaryRequestView,
    find_leading_items,
    make_question_item,
    make_record_entries,
    plan_chunks,
    write_closing_question,
    write_question,
)
from tidegate.wire.answers import parse_reply
from tidegate.wire.rendering.blocks import RequestOptions
from tidegate.wire.request import RequestRenderer
from tidegate.wire.streaming.reply import Delta

DEFAULT_SUMMARY_WINDOW: Final = 8_192
"""The assumed window of a summary model whose window is not known."""

_USABLE_SHARE: Final = 0.9  # of the window is used, because the model counts other tokens than our counter
_REASONING_TOKENS: Final = 512  # for a model that reasons before it answers
_MAX_WINDOW_RETRIES: Final = 2
_STOP_REJECTIONS: Final = {
    "refused": "the model refused",
    "filtered": "the provider's filter stopped it",
    "calls": "it was a tool call",
    "paused": "it was not finished",
}


def create_summarizer(  # noqa: PLR0913 - each is given by its name
    provider: Provider,
    *,
    window: int | None,
    counter: TokenCounter,
    timeout: float,
    retries: int = 1,
    conversation: Session | None = None,
    mask: Callable[[str], str] | None = None,
    on_rejection: Callable[[str], None] | None = None,
    on_reply: Callable[[Reply], None] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    max_output: int = 0,
) -> AsyncSummarizer:
    """Return a summarizer. `window` and `counter` are the summary model's. `timeout` is in seconds, for one summary
    with all its questions.

    `max_output` is the most output to ask for at once; 0 for no limit but the window.

    `mask` hides secrets from the summary model; pass it if the provider is not the conversation's. Without it, texts
    that look like secrets are hidden from every model but the conversation's own. `str` hides nothing.

    `on_rejection` gets the reason why an answer was rejected; by default it is noted in the conversation's log.
    `on_reply` gets every reply, because rejected ones cost money too.
    """
    return _ModelSummarizer(
        provider,
        window=window or DEFAULT_SUMMARY_WINDOW,
        counter=counter,
        timeout=timeout,
        retries=retries,
        conversation=conversation,
        mask=mask,
        note=on_rejection,
        replied=on_reply,
        options=RequestOptions(max_tokens=max_output, temperature=temperature, top_p=top_p),
    )


class _Question(NamedTuple):
    """A request ready to be sent, and the criteria for its answer."""

    body: bytes
    asked: AnswerCriteria


class _ModelSummarizer:
    def __init__(  # noqa: PLR0913 - as above
        self,
        provider: Provider,
        *,
        window: int,
        counter: TokenCounter,
        timeout: float,
        retries: int,
        conversation: Session | None,
        mask: Callable[[str], str] | None,
        note: Callable[[str], None] | None,
        replied: Callable[[Reply], None] | None,
        options: RequestOptions,
    ) -> None:
        self._provider = provider
        self._window = window
        self._counter = counter
        self._timeout = timeout
        self._tries = 1 + max(0, retries)
        self._conversation = conversation
        own_model = (conversation.model, conversation.dialect.name) if conversation is not None else None
        self._continues = mask is None and own_model == (provider.model, provider.wire)
        self._mask = mask or (str if self._continues else SecretMask())
        self._note = note
        self._replied = replied
        self._options = options
        self._max_output = min(window, options.max_tokens or window)  # the most output tokens to request

    async def __call__(self, request: SummaryRequest) -> str | None:
        try:
            async with asyncio.timeout(self._timeout):
                return CheckedSummary(await self._summarize(request))
        except TimeoutError:
            self._report_rejection(f"there was no answer within {self._timeout:g} seconds")
        except AnswerRejected as no:
            self._report_rejection(str(no))
        except ProviderError as fault:
            self._report_rejection(f"the provider failed: {fault.kind}")
        return None

    def _report_rejection(self, why: str) -> None:
        if self._note is not None:
            self._note(why)
        elif self._conversation is not None:
            self._conversation.history.append_note(SummaryRejected(why))

    async def _summarize(self, request: SummaryRequest) -> str:
        tries, why = self._tries, ""
        first = self._continue_conversation(request)
        if first is not None:
            try:
                return restore_missing_facts(await self._ask_and_check(first), first.asked)
            except (AnswerRejected, ProviderError) as no:
                if isinstance(no, ProviderError) and no.kind == "overflow":
                    self._shrink_window(no)
                tries, why = tries - 1, await self._retry_reason(no, tries - 1)
        for _ in range(_MAX_WINDOW_RETRIES):
            try:
                return await self._summarize_in_chunks(request, tries, why)
            except ProviderError as fault:
                if fault.kind != "overflow":
                    raise
                self._shrink_window(fault)
        return await self._summarize_in_chunks(request, 1, why)

    def _shrink_window(self, fault: ProviderError) -> None:
        """Use the window that the provider named, or a smaller one if it named none. Later requests keep it."""
        window = fault.window if fault.window and fault.window < self._window else self._window // 2
        self._window = max(1, window)

    async def _retry_reason(self, no: AnswerRejected | ProviderError, left: int) -> str:
        """Return why the last answer was rejected, for the next attempt; raise if there are none left or it would be
        useless.
        """
        if left <= 0:
            raise no
        if isinstance(no, AnswerRejected):
            return str(no)
        if no.kind == "output_cap":
            self._max_output = no.limit or no.output_room or self._max_output // 2
        if no.kind in ("billing", "auth", "model") or (no.retry_after or 0) >= self._timeout:
            raise no
        if no.is_retryable and no.retry_after:
            await asyncio.sleep(no.retry_after)
        return ""

    # --- the record in pieces -------------------------------------------------------------------------------------

    async def _summarize_in_chunks(self, request: SummaryRequest, tries: int, why: str) -> str:
        """Summarize chunk by chunk, each continuing the summary so far. One rejected chunk rejects all."""
        request = msgspec.structs.replace(request, instructions=self._mask(request.instructions))
        tokens = self._summary_tokens(request)
        empty = write_question(request, RecordChunk(()), request.previous[:1], tokens, why or "x" * 80)
        over = self._counter.count_text(SUMMARY_SYSTEM_PROMPT) + self._counter.count_text(empty.text) + REQUEST_OVERHEAD
        room = int(self._window * _USABLE_SHARE) - self._output_limit(tokens) - over - tokens
        if room < MIN_RECORD_TOKENS:
            raise AnswerRejected(f"the window of {self._window:,} tokens leaves no room to ask")
        chunks, text = plan_chunks(request, room, self._counter, tokens, self._mask)
        for chunk in chunks:
            text, why = await self._summarize_chunk(request, chunk, text, tries, why), ""
        return text

    async def _summarize_chunk(
        self, request: SummaryRequest, chunk: RecordChunk, previous: str, tries: int, why: str
    ) -> str:
        roomy = False
        while True:
            question = self._question(request, chunk, previous, why, roomy)
            try:
                return restore_missing_facts(await self._ask_and_check(question), question.asked)
            except (AnswerRejected, ProviderError) as no:
                if isinstance(no, ProviderError) and no.kind == "overflow":
                    raise
                tries -= 1
                why = await self._retry_reason(no, tries)
                roomy = isinstance(no, AnswerRejected) and no.was_cut

    def _question(self, request: SummaryRequest, chunk: RecordChunk, previous: str, why: str, roomy: bool) -> _Question:
        tokens = self._summary_tokens(request)
        # A previous summary by another program may have any length; leave room for the record.
        previous_part = clip_tokens(previous, tokens, self._counter).text
        mark, text = write_question(request, chunk, previous_part, tokens, why)
        cap = self._output_limit(tokens)
        if roomy:  # the last answer was cut off: use all that is left of the window
            cap = max(
                cap,
                int(self._window * _USABLE_SHARE)
                - self._counter.count_text(SUMMARY_SYSTEM_PROMPT + text)
                - REQUEST_OVERHEAD,
            )
        body = self._render(
            SummaryRequestView([make_question_item(text)], SUMMARY_SYSTEM_PROMPT), min(cap, self._max_output)
        )
        words = f"{SUMMARY_SYSTEM_PROMPT}\n{request.instructions}"
        return _Question(body, self._make_criteria(request, chunk.source, previous, words, mark))

    # --- the conversation continued -------------------------------------------------------------------------------

    def _continue_conversation(self, request: SummaryRequest) -> _Question | None:
        """Return the conversation up to the last message in question plus a question; None if the cache would not be
        used.
        """
        talk = self._conversation
        if talk is None or not self._continues:
            return None
        head = find_leading_items(talk.view, request)
        tokens = self._summary_tokens(request)
        text = write_closing_question(request, tokens)
        budget = talk.budget
        size = budget.fixed + sum(item.tokens for item in head) + self._counter.count_text(text) + REQUEST_OVERHEAD
        window = min(self._window, talk.window or self._window)
        if not head or math.ceil(size * budget.scale) + self._output_limit(tokens) > window:
            return None
        view = SummaryRequestView([*head, make_question_item(text)], talk.view.system, talk.view.tools)
        source = "\n".join(entry.text for entry in make_record_entries(request.messages))
        criteria = self._make_criteria(request, source, request.previous, text, "")
        return _Question(
            self._render(view, self._output_limit(tokens), cache=talk.parts.renderer.options.cache_markers), criteria
        )

    # --- asking ---------------------------------------------------------------------------------------------------

    def _summary_tokens(self, request: SummaryRequest) -> int:
        return max(1, min(request.max_tokens, self._window // 4))

    def _output_limit(self, tokens: int) -> int:
        """Return the output limit to request, with a margin: an answer cut off in mid-sentence is worse than a long
        one.
        """
        return min(max(tokens, min(2 * tokens + _REASONING_TOKENS, self._window // 3)), self._max_output)

    def _make_criteria(
        self, request: SummaryRequest, source: str, previous: str, words: str, mark: str
    ) -> AnswerCriteria:
        counter = self._counter if self._conversation is None else self._conversation.counter
        focus = strip_focus_line(words)
        return AnswerCriteria(source, previous, focus, mark, self._summary_tokens(request), request.max_chars, counter)

    def _render(self, view: SummaryRequestView, cap: int, *, cache: bool = False) -> bytes:
        rendering = RequestRenderer(
            self._provider.wire,
            self._provider.model,
            max_tokens=cap,
            cache=cache,
            temperature=self._options.temperature,
            top_p=self._options.top_p,
        )
        rendering.update(view)
        faults = rendering.faults()
        if faults:
            raise AnswerRejected(f"the question broke a rule of {self._provider.wire}: {faults[0].rule}")
        return rendering.to_bytes()

    async def _ask_and_check(self, question: _Question) -> str:
        reply = await self._read_reply(question)
        if self._replied is not None:
            self._replied(reply)
        if reply.stop in _STOP_REJECTIONS:
            raise AnswerRejected(_STOP_REJECTIONS[reply.stop])
        try:
            answer = parse_reply(self._provider.wire, reply)
        except TidegateError:
            raise AnswerRejected("it could not be read") from None
        if any(calls_of(message) for message in answer):
            raise AnswerRejected("it was a tool call")
        text = "\n".join(part.text for message in answer for part in message.parts if isinstance(part, Text))
        cut = reply.stop == "length"
        try:
            return check_answer(text, question.asked._replace(was_cut=cut))
        except AnswerRejected as no:
            raise AnswerRejected(str(no), cut=cut) from None

    async def _read_reply(self, question: _Question) -> Reply:
        """Return the reply at the end of the stream. Raise if the answer grows too long."""
        size, most = 0, max_answer_chars(self._output_limit(question.asked.max_tokens))
        async with aclosing(self._provider.stream(question.body)) as stream:
            async for each in stream:
                if not isinstance(each, Delta):
                    return each
                size += len(each.text)
                if size > most:
                    raise AnswerRejected("it did not end")
        raise AnswerRejected("there was no answer")
