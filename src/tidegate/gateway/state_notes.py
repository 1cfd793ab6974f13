"""State notes behind the gateway: written through the client's own upstream, model and credentials.

A policy that asks for summaries of its own gets them in the same way.

When an upstream has answered a request and a note is due, the same request is sent once more with an instruction at its
end (`note_request.py`), so that the provider reads its cache. Nothing waits for the note: it is stored when it arrives,
and the next sweep shows it. If it fails, the sweep goes without it, and a line of the log says why.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from tidegate.core.errors import TidegateError
from tidegate.core.notes import SideCost
from tidegate.core.state_note.answer import AnswerUnusable
from tidegate.core.state_note.note import choose_note_limits
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line
from tidegate.core.usage import Usage
from tidegate.gateway.client_answer import GatewayRefusal
from tidegate.gateway.conversations import Conversation, Conversations
from tidegate.gateway.http_body import BodyTooLarge, read_headers
from tidegate.gateway.http_client import HttpAnswer, UpstreamError
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.note_request import AnsweredRequest, NoteRequest, asks_for_block, write_note_request
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.store_gate import StoreGate
from tidegate.gateway.upstream_clients import UpstreamClients
from tidegate.models.catalog import compute_model_cost
from tidegate.models.errors.classification import classify_response
from tidegate.session.answer_copy import AnswerCopy
from tidegate.session.note_writer import (
    NOTE_PURPOSE,
    NOTE_TIMEOUT_SECONDS,
    NoteRefused,
    explain_failure,
    read_answer,
    read_block_reply,
)
from tidegate.session.state_notes import COMPACTION_NOTES, NoteReport, WriteTask, Written
from tidegate.session.summaries.model_question import ModelAnswer
from tidegate.wire.answers import read_compaction_usage, read_usage
from tidegate.wire.streaming.reply import Reply

_MAX_ANSWER_BYTES: Final = 4_000_000
"""Of an answer with the framing of its events, which takes far more than the text."""


class GatewayNotes:
    """Writes the state notes of all conversations of a gateway: one at a time for each."""

    def __init__(
        self,
        settings: GatewaySettings,
        upstreams: UpstreamClients,
        conversations: Conversations,
        gate: StoreGate,
        metrics: Metrics,
        log_line: Callable[[str], None],
        timeout: float = NOTE_TIMEOUT_SECONDS,
    ) -> None:
        self._settings = settings
        self._upstreams = upstreams
        self._conversations = conversations
        self._gate = gate
        self._metrics = metrics
        self._log_line = log_line
        self._timeout = timeout
        self._running: dict[str, asyncio.Task[None]] = {}

    def start_if_due(self, conversation: Conversation, sent: AnsweredRequest, *, turn_ended: bool) -> None:
        """Have a note written in the background if one is due. Call it when the answer is in the log. Never waits."""
        if not self._settings.state_notes or conversation.name in self._running:
            return
        if conversation.following.session.state_notes.is_wanted:
            work = self._write_if_due(conversation, sent, turn_ended)
            self._running[conversation.name] = asyncio.create_task(work)

    @property
    def is_writing(self) -> bool:
        return bool(self._running)

    def describe_offer(self, conversation: Conversation, tokens: int) -> str:
        """What notes would bring and cost, for a user without them; "" if the last plan made no sweep.

        `tokens` is the size of the request before the sweep.
        """
        session = conversation.following.session
        swept = any(decision.acted and decision.stage == "sweep" for decision in session.last_decisions)
        if self._settings.state_notes or not swept or not session.state_notes.is_offered:
            return ""
        limits = choose_note_limits(session.budget)
        read, written = min(tokens, session.window or tokens), limits.note * 2
        cost = compute_model_cost(Usage(read, written, read, 0), session.model)
        price = f", about ${cost.total:.2f}" if cost else ""
        return (
            "older work was shortened to lines of it. With --state-notes, the model would first write down the state of"
            " the work (what is done and open, decisions, failed attempts), and that note would be left instead. Each"
            f" note is one more request to your provider: about {read:,} input tokens, most of them from its cache, and"
            f" {written:,} output tokens{price}"
        )

    async def close(self) -> None:
        """Stop what is being written: a note that is not finished is not stored."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _write_if_due(self, conversation: Conversation, sent: AnsweredRequest, turn_ended: bool) -> None:
        try:
            task = await self._make_task(conversation, sent, turn_ended)
            if task is not None:
                await self._write(conversation, sent, task)
        except (TidegateError, OSError) as failure:
            self._log_line(f"a state note of {clean_line(conversation.name)} was not stored: {type(failure).__name__}")
        finally:
            self._running.pop(conversation.name, None)

    async def _make_task(self, conversation: Conversation, sent: AnsweredRequest, turn_ended: bool) -> WriteTask | None:
        session = conversation.following.session

        def make() -> WriteTask | None:
            notes = session.state_notes
            if not notes.is_due(turn_ended=turn_ended):
                return None
            may_compact = self._settings.state_notes == COMPACTION_NOTES and not self._settings.state_notes_model
            return notes.make_task(sent.last_id, sent.find_compaction() if may_compact else None, sent.birth)

        with conversation.in_use():
            if self._is_closed(conversation):
                return None
            return await self._gate.wait(session.call_async, make)

    async def _write(self, conversation: Conversation, sent: AnsweredRequest, task: WriteTask) -> None:
        session = conversation.following.session
        made: Written | NoteRefused
        try:
            tokens = session.counter.count_text(task.instruction)
            other = self._settings.state_notes_model
            question = await asyncio.to_thread(write_note_request, sent, task, tokens, session.window, other)
            async with asyncio.timeout(self._timeout):
                answer = await self._ask(conversation, question, task)
            made = await asyncio.to_thread(session.state_notes.check, task, answer.text, answer.block)
        except AnswerUnusable as no:
            made = NoteRefused(str(no))
        except TimeoutError:
            made = NoteRefused(f"there was no answer within {self._timeout:g} seconds")
        except Exception as failure:  # noqa: BLE001 - nobody waits for this task, and the next sweep goes without it
            made = explain_failure(failure)
        await self._store(conversation, task, made)

    async def _store(self, conversation: Conversation, task: WriteTask, made: Written | NoteRefused) -> None:
        session = conversation.following.session

        def store() -> NoteReport:
            notes = session.state_notes
            if not isinstance(made, NoteRefused):
                return notes.store(task, made)
            if made.is_final:
                notes.pause()
            return notes.refuse(str(made))

        with conversation.in_use():
            if self._is_closed(conversation):
                report = NoteReport(None, "its session was closed meanwhile")
            else:
                report = await self._gate.wait(session.call_async, store)
        self._report(conversation.name, report)

    def _report(self, name: str, report: NoteReport) -> None:
        note, named = report.note, clean_line(name)
        self._metrics.count("state_notes", outcome="written" if report.is_stored else "failed")
        if report.summary is not None:
            count = format_count(len(report.summary.ids), "message")
            self._log_line(f"summary of {named}, for its policy: it covers {count}")
            return
        if note is None:
            self._log_line(f"no state note of {named}: {report.why}; the next sweep goes without a new one")
            return
        self._log_line(
            f"state note of {named} up to {note.horizon}: {format_count(note.held, 'line')} held,"
            f" {note.marked} marked and {len(note.dropped)} dropped by the check"
        )

    def _is_closed(self, conversation: Conversation) -> bool:
        return self._conversations.find_open(conversation.name) is not conversation

    # --- the upstream ---------------------------------------------------------------------------------------------

    async def _ask(self, conversation: Conversation, question: NoteRequest, task: WriteTask) -> ModelAnswer:
        """The text of the answer, or the block that was asked for. Calls in it are not run; what it cost is noted."""
        try:
            with await self._upstreams.send(question.incoming, question.body) as response:
                if response.status >= 400:
                    body = await self._upstreams.read_failure(response)
                    headers = read_headers(response.headers)
                    raise classify_response(response.status, body, headers, request=question.body)
                reply = await self._read_reply(conversation, question, response)
        except GatewayRefusal:
            raise NoteRefused("the upstream did not answer") from None
        except BodyTooLarge:
            raise NoteRefused("it did not end") from None
        except UpstreamError as failure:
            raise NoteRefused(f"the answer broke off: {failure}") from None
        dialect = question.incoming.route.dialect
        return read_block_reply(reply, dialect) if asks_for_block(task) else ModelAnswer(read_answer(reply, dialect))

    async def _read_reply(self, conversation: Conversation, question: NoteRequest, response: HttpAnswer) -> Reply:
        dialect = question.incoming.route.dialect
        is_stream = response.find_header(b"content-type").startswith("text/event-stream")
        copy, size = AnswerCopy(dialect, is_stream=is_stream, request=question.body), 0
        try:
            async with aclosing(self._upstreams.read_pieces(response)) as pieces:
                async for piece in pieces:
                    size += len(piece)
                    if size > _MAX_ANSWER_BYTES:
                        raise BodyTooLarge
                    copy.feed(piece)
            copy.end()
        finally:
            if usage := copy.read_usage():
                await asyncio.shield(self._note_cost(conversation, question.model, usage))
        if copy.error is not None:
            raise copy.error
        if not copy.is_whole:
            raise NoteRefused("the answer broke off")
        return copy.read_reply()

    async def _note_cost(self, conversation: Conversation, model: str, reported: dict[str, object]) -> None:
        usage, session = read_compaction_usage(reported) or read_usage(reported), conversation.following.session
        self._metrics.count("state_note_input_tokens", usage.input_tokens)
        self._metrics.count("state_note_cached_tokens", usage.cache_read)
        self._metrics.count("state_note_output_tokens", usage.output_tokens)
        cost = SideCost(model, usage, NOTE_PURPOSE)
        with conversation.in_use():
            if not self._is_closed(conversation):
                await self._gate.wait(session.call_async, session.history.append_note, cost)
