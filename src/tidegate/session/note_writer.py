"""State notes written in the background: a model is asked beside the conversation, and never waited for.

    writer = NoteWriter(session, session.state_notes, ask)
    writer.start_if_due()        # when the answer to a request has begun, and at the end of a turn
    writer.collect()             # before the next request

`ask` gets a `ModelQuestion`, a whole request with an output limit, and returns the text of the answer. Whatever it
raises is noted in the log; after a refusal for money or rate it is not asked again until the next sweep.

The question goes to the model of the conversation, which reads it from its cache, or to another one (`NoteModel`). The
summaries of a policy are asked for in the same way, or written by `write_summary`, which can ask in pieces.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Final, TypeVar, cast

import msgspec

from tidegate.core.errors import GiveUp, TidegateError
from tidegate.core.messages import Text, calls_of
from tidegate.core.notes import SideCost
from tidegate.core.outcome import SummaryRequest
from tidegate.core.policy.policy import Moment
from tidegate.core.state_note.answer import MAX_NOTE_ANSWER_CHARS, AnswerUnusable
from tidegate.models.errors.classification import ProviderError
from tidegate.models.provider import Delta, Provider, Reply
from tidegate.session.conversation import LiveConversation
from tidegate.session.costs import CostQueue
from tidegate.session.state_notes import NoteModel, NoteQuestion, NoteReport, StateNotes, WriteTask, Written
from tidegate.session.summaries.model_question import AskModel, ModelAnswer, ModelQuestion, read_block
from tidegate.session.summaries.prepared import SummaryTask
from tidegate.wire.answers import parse_reply, read_compaction_usage, read_usage
from tidegate.wire.parsing import require_object, to_plain_json
from tidegate.wire.registry import get_dialect

_T = TypeVar("_T")
_THREAD_NAME: Final = "tidegate-state-note"
NOTE_PURPOSE: Final = "state_note"
"""The purpose of these calls in the costs of a session."""
NOTE_TIMEOUT_SECONDS: Final = 180.0
_FINAL_KINDS: Final = frozenset({"rate_limit", "rate_bucket", "billing", "auth", "model"})
_FINAL_STATUSES: Final = frozenset({401, 402, 403, 429})
_NO_BLOCK: Final = "the provider gave no block in place of the messages"
_STOPPED: Final = {"refused": "the model refused", "filtered": "the provider's filter stopped it"}


WriteSummary = Callable[[SummaryRequest], Awaitable[str]]
"""Writes the summary that a policy will ask for. It raises NoteRefused if there is none."""


class NoteRefused(Exception):
    """Why a model gave no note. The text is ours. `is_final`: asking again before the next sweep is of no use."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_final = is_final


class NoteWriter:
    """Writes the state notes of a session, one at a time: in a task of the running event loop, or else in a thread.

    Neither touches the session. `collect` stores what has arrived; the session calls it before each request.

    `model` is asked instead of the conversation's own. `costs` are those of its calls, if the caller meters them.
    """

    def __init__(
        self,
        session: LiveConversation,
        notes: StateNotes,
        ask: AskModel,
        *,
        timeout: float = NOTE_TIMEOUT_SECONDS,
        model: NoteModel | None = None,
        write_summary: WriteSummary | None = None,
        costs: CostQueue | None = None,
    ) -> None:
        self._session = session
        self._ask = ask
        self.notes = notes
        self._timeout = timeout
        self._model = model
        self._write_summary = write_summary
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._costs = CostQueue(session.history.append_note) if costs is None else costs
        self._arrived: list[tuple[WriteTask | None, Written | NoteRefused]] = []
        notes.writer = self
        session.call_on_close(self.cancel)

    @property
    def is_busy(self) -> bool:
        """Whether a note is being written."""
        is_asking = self._task is not None and not self._task.done()
        return is_asking or (self._thread is not None and self._thread.is_alive())

    def start_if_due(self, *, turn_ended: bool = False) -> bool:
        """Start writing if a note is due. Return whether it was started. Never waits."""
        if self.is_busy or self._arrived or not self.notes.is_due(turn_ended=turn_ended):
            return False
        self._start()
        return True

    def _start(self, moments: Sequence[Moment] = (), focus: str = "") -> None:
        work = self._write(self._choose_work(moments, focus))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._thread = threading.Thread(target=lambda: asyncio.run(work), name=_THREAD_NAME, daemon=True)
            self._thread.start()
        else:
            self._task = loop.create_task(work)

    def _choose_work(self, moments: Sequence[Moment], focus: str) -> "_Work":
        notes, write_summary = self.notes, self._write_summary
        if write_summary is not None and (moments or not notes.is_offered):
            return partial(self._ask_for_summary, notes.draft_task(moments, focus), write_summary)
        return partial(self._ask_for_note, notes.draft_question(moments, focus, self._model))

    def _start_now(self, focus: str) -> None:
        """Start what a compaction on demand waits for: a state note, or the summary of the policy with a focus."""
        if self.is_busy:
            return
        if self.notes.is_offered and not focus.strip():
            if self.notes.is_worthwhile:
                self._start()
        else:
            self._start(("manual",), focus)

    async def write_now(self, focus: str = "") -> NoteReport | None:
        """Write now and wait for it, as a manual compaction does. None if nothing is stored."""
        self._start_now(focus)
        if self._task is not None:
            await asyncio.wait([self._task])
        elif self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        return await self._session.call_async(self.collect)

    def write_now_sync(self, focus: str = "") -> NoteReport | None:
        """`write_now` for code without an event loop."""
        self._start_now(focus)
        if self._thread is not None:
            self._thread.join()
        return self.collect()

    async def _write(self, work: "_Work") -> None:
        task: WriteTask | None = None
        outcome: Written | NoteRefused
        try:
            task, answer = await work()
            outcome = await asyncio.to_thread(self.notes.check, task, answer.text, answer.block)
        except Exception as failure:  # noqa: BLE001 - it is not our code, and nobody waits for this task
            outcome = explain_failure(failure, self._timeout)
        self._arrived.append((task, outcome))

    async def _ask_for_summary(
        self, draft: Callable[[], WriteTask | str], write_summary: WriteSummary
    ) -> tuple[WriteTask, ModelAnswer]:
        task = await asyncio.to_thread(draft)
        if not isinstance(task, SummaryTask):
            raise NoteRefused(task if isinstance(task, str) else "the policy asks for no summary")
        request = msgspec.structs.replace(task.request, max_tokens=task.max_tokens)
        async with asyncio.timeout(self._timeout):
            return task, ModelAnswer(await write_summary(request))

    async def _ask_for_note(self, draft: Callable[[], NoteQuestion | str]) -> tuple[WriteTask, ModelAnswer]:
        question = await asyncio.to_thread(draft)
        if isinstance(question, str):
            raise NoteRefused(question)
        answer = await self._put(question)
        if answer.usage is not None:
            reported = require_object(to_plain_json(answer.usage), "")
            read = read_compaction_usage(reported) or read_usage(reported)
            self._costs.add(SideCost(question.model, read, NOTE_PURPOSE))
        if question.compacts and not answer.block:
            raise NoteRefused(_NO_BLOCK)
        return question.task, answer

    async def _put(self, question: NoteQuestion) -> ModelAnswer:
        """Put the question to the model. A function that blocks gets a thread, so that it does not block the loop."""
        model_question = ModelQuestion(
            question.request, question.model, question.dialect_name, question.max_tokens, question.compacts
        )
        async with asyncio.timeout(self._timeout):
            if iscoroutinefunction(self._ask) or iscoroutinefunction(type(self._ask).__call__):
                result = self._ask(model_question)
            else:
                result = await _call_in_daemon(lambda: self._ask(model_question))
            answer = (await result if isawaitable(result) else result) or ""
            return ModelAnswer(answer) if isinstance(answer, str) else answer

    def collect(self) -> NoteReport | None:
        """Store the note that has arrived, or note why there is none; None if nothing has arrived.

        What the calls cost is written here, too, also that of a call which is still running.
        """
        self._costs.write()
        if not self._arrived:
            return None
        task, outcome = self._arrived.pop(0)
        if task is not None and not isinstance(outcome, NoteRefused):
            return self.notes.store(task, outcome)
        if isinstance(outcome, NoteRefused) and outcome.is_final:
            self.notes.pause()
        return self.notes.refuse(str(outcome))

    def cancel(self) -> None:
        """Store a note that has arrived, and stop the running task: one that is not finished is not stored."""
        with suppress(TidegateError, OSError):
            self.collect()
        self._arrived = []
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()

    async def close(self) -> None:
        """Stop the running task and wait for its end: an interrupted call must be paid, too."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])
            with suppress(TidegateError, OSError):
                self._costs.write()


_Work = Callable[[], Awaitable[tuple[WriteTask, ModelAnswer]]]
"""Asks a model for what is due. Returns the task and the answer."""


async def _call_in_daemon(function: Callable[[], _T]) -> _T:
    """Call a function that blocks in a daemon thread: a model that stalls must not keep the program from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def pass_on(result: _T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(cast(_T, result))
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except Exception as failure:  # noqa: BLE001 - raised where it is waited for
            error = failure
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(pass_on, result, error)

    threading.Thread(target=run, name=_THREAD_NAME, daemon=True).start()
    return await future


def explain_failure(failure: Exception, timeout: float = NOTE_TIMEOUT_SECONDS) -> NoteRefused:
    """Why a model gave no note, from what the call of a provider or its SDK raised, or the check of its answer."""
    if isinstance(failure, NoteRefused):
        return failure
    if isinstance(failure, AnswerUnusable):
        return NoteRefused(str(failure))
    if isinstance(failure, TimeoutError):
        return NoteRefused(f"there was no answer within {timeout:g} seconds")
    if isinstance(failure, ProviderError):
        return NoteRefused(f"the provider failed: {failure.kind}", is_final=failure.kind in _FINAL_KINDS)
    if isinstance(failure, GiveUp):
        return NoteRefused("the limit of spending is reached", is_final=True)
    status = getattr(failure, "status_code", None) or getattr(failure, "code", None)
    suffix = f" (status {status})" if isinstance(status, int) else ""
    return NoteRefused(f"asking the model failed: {type(failure).__name__}{suffix}", is_final=status in _FINAL_STATUSES)


def ask_provider(provider: Provider) -> Callable[[ModelQuestion], Awaitable[str | ModelAnswer]]:
    """A function that puts questions to a provider of ours. The answer is read no further than a note can be long."""

    async def ask(question: ModelQuestion) -> str | ModelAnswer:
        async with aclosing(provider.stream(question.to_bytes())) as stream:
            reply = await _read_reply(stream)
        if question.compacts:
            return read_block_reply(reply, provider.wire)
        return read_answer(reply, provider.wire)

    return ask


async def _read_reply(stream: AsyncGenerator[Delta | Reply, None]) -> Reply:
    size = 0
    async for each in stream:
        if isinstance(each, Reply):
            return each
        size += len(each.text)
        if size > MAX_NOTE_ANSWER_CHARS * 2:
            raise NoteRefused("it did not end")
    raise NoteRefused("there was no answer")


def read_block_reply(reply: Reply, wire: str) -> ModelAnswer:
    """The block of a reply that was asked for one."""
    try:
        answer = read_block(get_dialect(wire), parse_reply(wire, reply))
    except TidegateError:
        raise NoteRefused("it could not be read") from None
    if not answer.block:
        raise NoteRefused(_NO_BLOCK)
    return answer


def read_answer(reply: Reply, wire: str) -> str:
    """The text of a reply. Calls in it are not run."""
    if reply.stop in _STOPPED:
        raise NoteRefused(_STOPPED[reply.stop])
    try:
        answer = parse_reply(wire, reply)
    except TidegateError:
        raise NoteRefused("it could not be read") from None
    text = "\n".join(part.text for message in answer for part in message.parts if isinstance(part, Text))
    if not text.strip():
        raise NoteRefused("it was a tool call" if any(calls_of(message) for message in answer) else "it was empty")
    return text
