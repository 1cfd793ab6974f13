"""State notes behind the gateway: written through the client's own upstream, model and credentials.

A policy that asks for summaries of its own gets them in the same way.

When an upstream has answered a request and a note is due, the same request is sent once more with an instruction at its
end, so that the provider reads its cache. Nothing waits for the note: it is stored when it arrives,
and the next sweep shows it. If it fails, the sweep goes without it, and a line of the log says why.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.notes import SideCost
from tidegate.core.state_note.instruction import NoteTask
from tidegate.core.state_note.note import choose_note_limits
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line
from tidegate.core.tokens.counting import REQUEST_OVERHEAD
from tidegate.core.usage import Usage
from tidegate.gateway.conversations import Conversation, Conversations
from tidegate.gateway.http_client import HttpAnswer, UpstreamError
from tidegate.gateway.http_messages import BodyTooLarge, GatewayRefusal, read_headers
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.store_gate import StoreGate
from tidegate.gateway.upstream_clients import IncomingRequest, UpstreamClients
from tidegate.models.catalog import compute_model_cost, find_window
from tidegate.models.errors.classification import classify_response
from tidegate.session.answer_copy import AnswerCopy
from tidegate.session.managed_request import ClientRequest, find_new_faults, read_client_request, write_without_thinking
from tidegate.session.note_writer import (
    NOTE_PURPOSE,
    NOTE_TIMEOUT_SECONDS,
    NoteRefused,
    explain_failure,
    read_answer,
    read_block_reply,
)
from tidegate.session.state_notes import COMPACTION_NOTES, NoteReport, WriteTask, Written, count_answer_tokens
from tidegate.session.summaries.model_question import ModelAnswer
from tidegate.wire.answers import read_compaction_usage, read_usage
from tidegate.wire.dialect import CompactionForm, Dialect
from tidegate.wire.registry import get_dialect
from tidegate.wire.splicing.last_words import append_user_text
from tidegate.wire.splicing.spans import remove_member, replace_value
from tidegate.wire.streaming.reply import Reply

_THINKING_TOKENS: Final = 16_000
"""Of output beside the note, for a model that thinks before it writes. A request with a budget of its own keeps it."""
_MIN_OUTPUT_SHARE: Final = 0.6
"""Of the wanted output: with less room, a note would be cut off."""
_EFFORT_KEYS: Final = ("output_config", "reasoning_effort", "reasoning", "verbosity")
"""What only some models of a provider know."""
_MAX_ANSWER_BYTES: Final = 4_000_000
"""Of an answer with the framing of its events, which takes far more than the text."""


# --- the request for a note -----------------------------------------------------------------------------------------


class AnsweredRequest(NamedTuple):
    """A request that an upstream has answered. `body` is what was sent of `client`; `tokens` are its size by our count,
    `last_id` is its last message in the log, `birth` that of its answer.
    """

    incoming: IncomingRequest
    body: bytes
    client: ClientRequest
    tokens: int
    last_id: str
    birth: str = ""

    @property
    def model(self) -> str:
        return self.client.host.model

    def find_compaction(self) -> CompactionForm | None:
        """How the upstream is asked for a block in place of this request; None if it cannot be."""
        form = get_dialect(self.client.dialect).find_compaction(self.model)
        host = urlsplit(self.incoming.route.upstream.url).hostname or ""
        return (
            form if form is not None and form.is_served(host) and form.ask(self.client.body, "") is not None else None
        )


class NoteRequest(NamedTuple):
    incoming: IncomingRequest
    body: bytes
    model: str


def write_note_request(
    request: AnsweredRequest, task: WriteTask, instruction_tokens: int, window: int | None, other_model: str = ""
) -> NoteRequest:
    """The request for a note. NoteRefused says why there is none. It reads the whole request: call it in a thread."""
    dialect, model = get_dialect(request.client.dialect), other_model or request.model
    if other_model and other_model != request.model:
        window = find_window(other_model) or window
    try:
        incoming, text = _change_model(request, other_model)
        room = _choose_output(request, task, instruction_tokens, window)
        text = dialect.output.lower(text, request.client.body, room)
        least_output = count_answer_tokens(task) + (_THINKING_TOKENS if asks_for_block(task) else 0)
        text = dialect.output.raise_to(text, request.client.body, min(room, least_output))
        if asks_for_block(task):
            incoming, text = _ask_for_block(incoming, text, dialect, task.instruction)
        else:
            text = append_user_text(dialect.form, text, task.instruction)
        faults = find_new_faults(request.client._replace(source=None), text)
    except (TidegateError, KeyError, msgspec.MsgspecError) as failure:
        raise NoteRefused(f"the request cannot be continued: {type(failure).__name__}") from failure
    if faults:
        raise NoteRefused(f"the question would break a rule of {dialect.name}: {faults[0].rule}")
    return NoteRequest(incoming, text, model)


def asks_for_block(task: WriteTask) -> bool:
    """Whether the provider is asked for a block in place of the request."""
    return isinstance(task, NoteTask) and task.asked is not None


def _ask_for_block(
    incoming: IncomingRequest, text: bytes, dialect: Dialect, instruction: str
) -> tuple[IncomingRequest, bytes]:
    """Exactly the messages that were sent, with the option and its header."""
    form = dialect.compaction
    head = form.ask({}, instruction) if form is not None else None
    assert form is not None
    assert head is not None
    option = b'"%s":%s,' % (form.option.encode(), msgspec.json.encode(head[form.option]))
    start = text.index(b"{") + 1
    name = form.beta[0].encode()
    old_betas = [value.decode("latin-1") for key, value in incoming.raw_headers if key.lower() == name]
    betas = form.add_beta({form.beta[0]: ",".join(old_betas)} if old_betas else {})[form.beta[0]]
    headers = [pair for pair in incoming.raw_headers if pair[0].lower() != name]
    incoming = incoming._replace(raw_headers=[*headers, (name, betas.encode("latin-1"))])
    return incoming, text[:start] + option + text[start:]


def _choose_output(request: AnsweredRequest, task: WriteTask, instruction_tokens: int, window: int | None) -> int:
    tokens = count_answer_tokens(task)
    own = get_dialect(request.client.dialect).thinking.read_budget(request.client.body)
    most = tokens + max(own, _THINKING_TOKENS)
    left = window - request.tokens - instruction_tokens - REQUEST_OVERHEAD if window else most
    if left < tokens * _MIN_OUTPUT_SHARE + own:
        raise NoteRefused("the window has no room for the question")
    return min(most, left)


def _change_model(request: AnsweredRequest, other_model: str) -> tuple[IncomingRequest, bytes]:
    """The same request to another model: without thinking, which only the first one can read."""
    incoming, text = request.incoming, request.body
    if not other_model or other_model == request.model:
        return incoming, text
    dialect = get_dialect(request.client.dialect)
    read = read_client_request(dialect.name, text, request.model)
    text = dialect.thinking.leave_out(write_without_thinking(read) if read is not None else text)
    for key in _EFFORT_KEYS:
        text = remove_member(text, key)
    if not dialect.paths.has_model:
        return incoming, replace_value(text, ("model",), msgspec.json.encode(other_model))
    path = dialect.paths.replace_model(incoming.route.path, quote(other_model, safe=""))
    return incoming._replace(route=incoming.route._replace(path=path)), text


# --- writing notes --------------------------------------------------------------------------------------------------


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

    def start_if_due(self, conversation: Conversation, request: AnsweredRequest, *, turn_ended: bool) -> None:
        """Have a note written in the background if one is due. Call it when the answer is in the log. Never waits."""
        if not self._settings.state_notes or conversation.name in self._running:
            return
        if conversation.following.session.state_notes.is_wanted:
            work = self._write_if_due(conversation, request, turn_ended)
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
        read, output = min(tokens, session.window or tokens), limits.note * 2
        cost = compute_model_cost(Usage(read, output, read, 0), session.model)
        price = f", about ${cost.total:.2f}" if cost else ""
        return (
            "older work was shortened to lines of it. With --state-notes, the model would first write down the state of"
            " the work (what is done and open, decisions, failed attempts), and that note would be left instead. Each"
            f" note is one more request to your provider: about {read:,} input tokens, most of them from its cache, and"
            f" {output:,} output tokens{price}"
        )

    async def close(self) -> None:
        """Stop what is being written: a note that is not finished is not stored."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _write_if_due(self, conversation: Conversation, request: AnsweredRequest, turn_ended: bool) -> None:
        try:
            task = await self._make_task(conversation, request, turn_ended)
            if task is not None:
                await self._write(conversation, request, task)
        except (TidegateError, OSError) as failure:
            self._log_line(f"a state note of {clean_line(conversation.name)} was not stored: {type(failure).__name__}")
        finally:
            self._running.pop(conversation.name, None)

    async def _make_task(
        self, conversation: Conversation, request: AnsweredRequest, turn_ended: bool
    ) -> WriteTask | None:
        session = conversation.following.session

        def make() -> WriteTask | None:
            notes = session.state_notes
            if not notes.is_due(turn_ended=turn_ended):
                return None
            may_compact = self._settings.state_notes == COMPACTION_NOTES and not self._settings.state_notes_model
            return notes.make_task(request.last_id, request.find_compaction() if may_compact else None, request.birth)

        with conversation.in_use():
            if self._is_closed(conversation):
                return None
            return await self._gate.wait(session.call_async, make)

    async def _write(self, conversation: Conversation, request: AnsweredRequest, task: WriteTask) -> None:
        session = conversation.following.session
        outcome: Written | NoteRefused
        try:
            tokens = session.counter.count_text(task.instruction)
            other = self._settings.state_notes_model
            question = await asyncio.to_thread(write_note_request, request, task, tokens, session.window, other)
            async with asyncio.timeout(self._timeout):
                answer = await self._ask(conversation, question, task)
            outcome = await asyncio.to_thread(session.state_notes.check, task, answer.text, answer.block)
        except Exception as failure:  # noqa: BLE001 - nobody waits for this task, and the next sweep goes without it
            outcome = explain_failure(failure, self._timeout)
        await self._store(conversation, task, outcome)

    async def _store(self, conversation: Conversation, task: WriteTask, outcome: Written | NoteRefused) -> None:
        session = conversation.following.session

        def store() -> NoteReport:
            notes = session.state_notes
            if not isinstance(outcome, NoteRefused):
                return notes.store(task, outcome)
            if outcome.is_final:
                notes.pause()
            return notes.refuse(str(outcome))

        with conversation.in_use():
            if self._is_closed(conversation):
                report = NoteReport(None, "its session was closed meanwhile")
            else:
                report = await self._gate.wait(session.call_async, store)
        self._report(conversation.name, report)

    def _report(self, name: str, report: NoteReport) -> None:
        note, shown_name = report.note, clean_line(name)
        self._metrics.count("state_notes", outcome="written" if report.is_stored else "failed")
        if report.summary is not None:
            count = format_count(len(report.summary.ids), "message")
            self._log_line(f"summary of {shown_name}, for its policy: it covers {count}")
            return
        if note is None:
            self._log_line(f"no state note of {shown_name}: {report.why}; the next sweep goes without a new one")
            return
        self._log_line(
            f"state note of {shown_name} up to {note.horizon}: {format_count(note.held, 'line')} held,"
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
        copy, size = AnswerCopy(get_dialect(dialect), is_stream=response.is_stream, request=question.body), 0
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
