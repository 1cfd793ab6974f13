"""The agent loop: send a request, run the tools the model calls, and repeat until the model has answered.

    agent = Agent(session, provider, toolbox, context)
    async for event in agent.run_turn("Find out why the build is slow."):
        show(event)

Every step is in the session's log before the next one starts. So a turn can be stopped anywhere: cancel the task that
reads it. A call without a result is answered as interrupted in the next request, and is not run again automatically.
However a turn ends, the session is valid and can continue.

`steer` adds a user message while a turn is running. The model sees it as soon as no call is open: running calls finish,
calls that have not started are skipped.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import groupby
from typing import NamedTuple

import msgspec

from tidegate.agent.hook_types import HookMoment
from tidegate.agent.hooks.runner import HookReport, HookRunner
from tidegate.agent.request_recovery import SIZE_ERROR_KINDS, RequestRecovery
from tidegate.agent.tools.tool import ToolContext, ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.errors import BadInput
from tidegate.core.messages import (
    TOOL_RESULT,
    Call,
    Message,
    Result,
    Text,
    Thinking,
    calls_of,
    text_of,
    user_message,
)
from tidegate.core.notes import Denial
from tidegate.core.plan import Decision
from tidegate.models.errors.classification import ProviderError, classify_reply
from tidegate.models.provider import Delta, Provider, Reply
from tidegate.session.request import Request
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer
from tidegate.wire.answers import is_usage, parse_reply

_MAX_EMPTY_REPLIES = 2


class RequestSent(NamedTuple):
    """A request is sent. `decisions` are what the policy did to make it fit."""

    request: Request
    decisions: list[Decision]


class ToolStarted(NamedTuple):
    call: Call


class ToolFinished(NamedTuple):
    call: Call
    result: ToolResult


class RequestRefused(NamedTuple):
    """The provider refused the request. It is sent again in a changed form, see `request_recovery`."""

    error: ProviderError


class UserSteered(NamedTuple):
    """A message of `steer` was added to the session."""

    text: str


class TurnEnded(NamedTuple):
    """The turn is over. `reason` is end, steps, refused, filtered, length, empty or unknown."""

    reason: str


AgentEvent = (
    RequestSent | Delta | Reply | ToolStarted | ToolFinished | RequestRefused | UserSteered | HookReport | TurnEnded
)


class Agent:
    """Runs the turns of one session. `max_steps` limits the tool calls of a turn; it is checked after each reply."""

    def __init__(
        self,
        session: Session,
        provider: Provider,
        toolbox: Toolbox,
        context: ToolContext,
        *,
        summarizer: AsyncSummarizer | None = None,
        hooks: HookRunner | None = None,
        max_steps: int = 100,
    ) -> None:
        self.session = session
        self.provider = provider
        self.toolbox = toolbox
        self.context = context
        self.summarizer = summarizer
        self.hooks = hooks
        self.max_steps = max_steps
        self._current_turn: object | None = None
        self._steering: list[Message] = []

    async def run_turn(self, user_input: str | Message) -> AsyncGenerator[AgentEvent, None]:
        """Run one turn. Raise GiveUp, or a ProviderError that no retry can avoid; the session stays valid."""
        turn = self._current_turn = object()
        try:
            waiting, self._steering = self._steering, []  # of a turn that was abandoned
            await self.session.add_async(*waiting, _as_message(user_input))
            steps, empty, reason = 0, 0, ""
            while not reason:
                reply: Reply | None = None
                async with aclosing(self._request_reply(turn)) as stream:
                    async for each in stream:
                        if isinstance(each, Reply):
                            reply = each
                        else:
                            yield each
                assert reply is not None
                message = await self._record_reply(reply)
                yield reply
                calls = calls_of(message) if message is not None else []
                if calls:
                    unfit = {call.id for call in calls} if reply.stop == "length" else set(reply.broken_call_ids)
                    async with aclosing(self._run_calls(calls, unfit)) as stream:
                        async for each in stream:
                            yield each
                    await self._compact_if_requested()
                steps += len(calls) or reply.stop == "paused"  # a model that always pauses must reach the limit, too
                empty += message is None
                reason = "" if calls else _find_end_reason(reply, message, empty)
                reason = reason or ("steps" if steps >= self.max_steps else "")
                for report in await self._run_hooks("turn_end") if reason else ():
                    yield report
                while self._steering:
                    steps, empty, reason = 0, 0, ""
                    yield self._add_steering(self._steering.pop(0))
        finally:
            self._end_turn(turn)
        yield TurnEnded(reason)

    def steer(self, user_input: str | Message) -> None:
        """Add a user message to the running turn. The model sees it when every call that was started has its result."""
        if not self.is_busy:
            raise BadInput("No turn is running.", "Start one with this message.")
        self._steering.append(_as_message(user_input))

    @property
    def has_steering(self) -> bool:
        """Whether a message of `steer` waits to be added."""
        return bool(self._steering)

    @property
    def is_busy(self) -> bool:
        return self._current_turn is not None

    def _add_steering(self, message: Message) -> UserSteered:
        self.session.add(message)
        return UserSteered(text_of(message))

    def _end_turn(self, turn: object) -> None:
        """Store steering messages that were not used yet, unless another turn has started since."""
        if self._current_turn is turn:
            self._current_turn, waiting, self._steering = None, self._steering, []
            self.session.add(*waiting)

    async def _run_hooks(self, moment: HookMoment) -> list[HookReport]:
        return await self.hooks.run_due(moment, self.session, summarizer=self.summarizer) if self.hooks else []

    async def compact(self, focus: str = "") -> list[Decision]:
        """Compact now. A summary is asked to keep `focus`."""
        return await self.session.compact_async(self.summarizer, focus=focus)

    async def _compact_if_requested(self) -> None:
        """Do what the tool `compact` asked for: it cannot itself, since nothing may be cut while a call is open."""
        focus, self.context.requested_compaction = self.context.requested_compaction, None
        if focus is not None:
            await self.compact(focus)

    async def _request_reply(self, turn: object) -> AsyncGenerator[AgentEvent, None]:
        """Request one reply. A refused request is changed and sent again if that can help."""
        for report in await self._run_hooks("turn_start"):
            yield report
        recovery = RequestRecovery(self.session, self.summarizer)
        request = await self.session.prepare_async(self.summarizer)
        while True:
            yield RequestSent(request, self.session.last_decisions)
            texts: list[str] = []
            try:
                async with aclosing(self.provider.stream(request.to_bytes())) as stream:
                    async for each in stream:
                        self._check_reply(each, texts)
                        yield each
                return
            except ProviderError as error:
                refusal, step = error, recovery.choose_step(error)
                if not step:
                    self._record_partial_reply("".join(texts))
                    raise
            except (asyncio.CancelledError, GeneratorExit):
                if self._current_turn is turn:
                    self._record_partial_reply("".join(texts))
                raise
            yield RequestRefused(refusal)
            request = await recovery.prepare_retry(step, refusal)

    def _check_reply(self, each: Delta | Reply, texts: list[str]) -> None:
        """Collect shown text; raise the error of a reply that hides an overflow: some providers report none."""
        if isinstance(each, Delta):
            texts += [each.text] if each.kind == "text" else []
            return
        error = classify_reply(each, window=self.session.window)
        if error is not None and error.kind in SIZE_ERROR_KINDS:
            raise error

    async def _record_reply(self, reply: Reply) -> Message | None:
        """Store the reply and its usage. Return its last message, or None if the reply has no content."""
        answer = parse_reply(self.provider.wire, reply)
        self.session.record(reply.usage if is_usage(reply.usage) else {})  # a server may report anything
        full = [message for message in answer if message.parts and (reply.stop == "paused" or _has_content(message))]
        await self.session.add_async(*full)
        return full[-1] if full else None

    def _record_partial_reply(self, text: str) -> None:
        """Store the text that the user saw before the reply was interrupted, so that the model knows it, too."""
        if text.strip():
            self.session.add(Message("assistant", (Text(text + "\n[interrupted]"),)))

    async def _run_calls(self, calls: list[Call], unfit: set[str]) -> AsyncGenerator[AgentEvent, None]:
        """Run the calls. Adjacent calls of parallel tools run at the same time; results keep the order of the calls."""
        names = self.session.dialect.tool_names(self.session.view.tools)
        calls_by_place = [
            self.toolbox.resolve_call(msgspec.structs.replace(call, name=names.get(call.name, call.name)))
            for call in calls
        ]
        for _, batch in groupby(
            enumerate(calls_by_place), lambda pair: -1 if self.toolbox.may_run_in_parallel(pair[1].name) else pair[0]
        ):
            parallel = [call for _, call in batch]
            for call in parallel:
                yield ToolStarted(call)
            running = [asyncio.ensure_future(self._run_call(call, unfit)) for call in parallel]
            try:
                for call, task in zip(parallel, running, strict=True):
                    result = await task
                    texts = tuple(Text(text) for text in (result.text, result.notice) if text) or (Text(""),)
                    parts = (Result(call.id, texts, result.is_error),)
                    if result.denied_by:
                        denial = Denial(call.id, call.name, result.denied_by)
                        await self.session.call_async(self.session.history.append_note, denial)
                    await self.session.add_async(Message("tool", parts, kind=TOOL_RESULT))
                    yield ToolFinished(call, result)
            finally:
                for task in running:
                    task.cancel()
                await asyncio.wait(running)

    async def _run_call(self, call: Call, unfit: set[str]) -> ToolResult:
        if call.id in unfit:
            return _INCOMPLETE_CALL
        return NOT_RUN_AFTER_STEERING if self.has_steering else await self.toolbox.run_call(call, self.context)


_INCOMPLETE_CALL = ToolResult(
    "Not run: the call is incomplete. Make it again, shorter if it was cut off.", is_error=True
)
NOT_RUN_AFTER_STEERING = ToolResult("Not run: the user said something new. Read that first.", is_error=True)


def _as_message(user_input: str | Message) -> Message:
    return user_message(user_input) if isinstance(user_input, str) else user_input


def _has_content(message: Message) -> bool:
    """Return whether there is text or a call in it. Thinking alone is not an answer."""
    return any(
        bool(part.text.strip()) if isinstance(part, Text) else not isinstance(part, Thinking) for part in message.parts
    )


def _find_end_reason(reply: Reply, message: Message | None, empty: int) -> str:
    """Return why a reply without calls ends the turn, or "" if the request is to be sent again."""
    if reply.stop == "paused":
        return ""
    if message is not None or reply.stop in ("refused", "filtered"):
        return reply.stop
    return "empty" if empty >= _MAX_EMPTY_REPLIES else ""
