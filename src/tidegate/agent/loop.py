"""The loop: ask, run what was called for, ask again, until the model has answered.

    agent = Agent(session, provider, tools)
    async for each in agent.turn("Find out why the build is slow."):
        show(each)

Everything that happened is in the session's log before the next step begins, so it can be stopped anywhere: cancel the
task that reads the turn. A call that was begun and has no result is answered as interrupted by the next request, and
never run again by itself. Whatever ends a turn, the session is valid and goes on.

`steer` says something while a turn is under way. It is heard as soon as no call is open: what runs may end, what was
not begun is not, and the model is asked again.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import groupby
from typing import NamedTuple

import msgspec

from tidegate.agent.hooks.runner import HookReport, HookRunner
from tidegate.agent.hooks.types import HookMoment
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
from tidegate.core.plan import Decision
from tidegate.models.errors.classification import ProviderError, classify_reply
from tidegate.models.provider import Delta, Provider, Reply
from tidegate.session.request import Request
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer

_MAX_EMPTY_REPLIES = 2


class RequestSent(NamedTuple):
    """A request goes out. `decisions` are what the policy did to make it fit."""

    request: Request
    decisions: list[Decision]


class ToolStarted(NamedTuple):
    call: Call


class ToolFinished(NamedTuple):
    call: Call
    result: ToolResult


class RequestRefused(NamedTuple):
    """The provider refused the request; it is sent again, smaller, or without what is not taken (see `cures`)."""

    error: ProviderError


class UserSteered(NamedTuple):
    """Here the conversation takes up what the user said meanwhile."""

    text: str


class TurnEnded(NamedTuple):
    """The turn is over: `why` is end, steps, refused, filtered, length or empty."""

    reason: str


AgentEvent = (
    RequestSent | Delta | Reply | ToolStarted | ToolFinished | RequestRefused | UserSteered | HookReport | TurnEnded
)


class Agent:
    """`max_steps` bounds the tool calls of a turn; calls that were made together are not split."""

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
        """One turn. A Fault that no smaller request could step, and GiveUp, are raised; the session stays whole."""
        own = self._current_turn = object()
        try:
            waiting, self._steering = self._steering, []  # of a turn that nobody closed
            await self.session.add_async(*waiting, _as_message(user_input))
            steps, empty, why = 0, 0, ""
            while not why:
                reply: Reply | None = None
                async with aclosing(self._request_reply(own)) as stream:
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
                steps += len(calls) or reply.stop == "paused"  # else who pauses for ever is asked for ever
                empty += message is None
                why = "" if calls else _find_end_reason(reply, message, empty)
                why = why or ("steps" if steps >= self.max_steps else "")
                for done in await self._run_hooks("turn_end") if why else ():
                    yield done
                while self._steering:
                    steps, empty, why = 0, 0, ""
                    yield self._add_steering(self._steering.pop(0))
        finally:
            self._end_turn(own)
        yield TurnEnded(why)

    def steer(self, user_input: str | Message) -> None:
        """Say something in the middle of a turn: it is heard when every call that was begun has its result."""
        if not self.is_busy:
            raise BadInput("No turn is under way.", "Begin one with these words.")
        self._steering.append(_as_message(user_input))

    @property
    def is_busy(self) -> bool:
        return self._current_turn is not None

    def _add_steering(self, message: Message) -> UserSteered:
        self.session.add(message)
        return UserSteered(text_of(message))

    def _end_turn(self, own: object) -> None:
        """Whatever ended the turn, what the user said in it is not lost. A turn that was begun since is not ours."""
        if self._current_turn is own:
            self._current_turn, waiting, self._steering = None, self._steering, []
            self.session.add(*waiting)

    async def _run_hooks(self, moment: HookMoment) -> list[HookReport]:
        return await self.hooks.run_due(moment, self.session, summarizer=self.summarizer) if self.hooks else []

    async def compact(self, focus: str = "") -> list[Decision]:
        """Compact now; a summary is to keep clear what `focus` names."""
        return await self.session.compact_async(self.summarizer, focus=focus)

    async def _compact_if_requested(self) -> None:
        """The tool `compact` only asks: nothing may be cut while a call is open."""
        focus, self.context.requested_compaction = self.context.requested_compaction, None
        if focus is not None:
            await self.compact(focus)

    async def _request_reply(self, own: object) -> AsyncGenerator[AgentEvent, None]:
        """One answer. A request that is refused is sent again if something can be done about it."""
        for done in await self._run_hooks("turn_start"):
            yield done
        recovery = RequestRecovery(self.session, self.summarizer)
        request = await self.session.prepare_async(self.summarizer)
        while True:
            yield RequestSent(request, self.session.last_decisions)
            shown: list[str] = []
            try:
                async with aclosing(self.provider.stream(request.to_bytes())) as stream:  # type: ignore[type-var]
                    async for each in stream:
                        self._check_reply(each, shown)
                        yield each
                return
            except ProviderError as error:
                refused, step = error, recovery.choose_step(error)
                if not step:
                    self._record_partial_reply("".join(shown))
                    raise
            except (asyncio.CancelledError, GeneratorExit):
                if self._current_turn is own:
                    self._record_partial_reply("".join(shown))
                raise
            yield RequestRefused(refused)
            request = await recovery.prepare_retry(step, refused)

    def _check_reply(self, each: Delta | Reply, shown: list[str]) -> None:
        """Some overflow in silence: the answer comes whole and is none."""
        if isinstance(each, Delta):
            shown += [each.text] if each.kind == "text" else []
            return
        error = classify_reply(each, window=self.session.window)
        if error is not None and error.kind in SIZE_ERROR_KINDS:
            raise error

    async def _record_reply(self, reply: Reply) -> Message | None:
        """The answer into the log, and what it cost. None if there is nothing in it."""
        said = reply.to_messages(self.provider.wire)
        self.session.record(reply.usage)
        full = [message for message in said if message.parts and (reply.stop == "paused" or _has_content(message))]
        await self.session.add_async(*full)
        return full[-1] if full else None

    def _record_partial_reply(self, text: str) -> None:
        """What the user saw before it was stopped, the model should know of, too."""
        if text.strip():
            self.session.add(Message("assistant", (Text(text + "\n[interrupted]"),)))

    async def _run_calls(self, calls: list[Call], unfit: set[str]) -> AsyncGenerator[AgentEvent, None]:
        """Calls of tools that may run together do, with their neighbours. Results stand in the order of the calls."""
        names = self.session.dialect.tool_names(self.session.view.tools)
        meant = [msgspec.structs.replace(call, name=names.get(call.name, call.name)) for call in calls]
        for _, batch in groupby(
            enumerate(meant), lambda pair: -1 if self.toolbox.may_run_in_parallel(pair[1].name) else pair[0]
        ):
            together = [call for _, call in batch]
            for call in together:
                yield ToolStarted(call)
            running = [asyncio.ensure_future(self._run_call(call, unfit)) for call in together]
            try:
                for call, task in zip(together, running, strict=True):
                    result = await task
                    parts = (Result(call.id, (Text(result.text),), result.is_error),)
                    await self.session.add_async(Message("tool", parts, kind=TOOL_RESULT))
                    yield ToolFinished(call, result)
            finally:
                for task in running:
                    task.cancel()
                await asyncio.wait(running)

    async def _run_call(self, call: Call, unfit: set[str]) -> ToolResult:
        if call.id in unfit:
            return _INCOMPLETE_CALL
        return NOT_RUN_AFTER_STEERING if self._steering else await self.toolbox.run_call(call, self.context)


_INCOMPLETE_CALL = ToolResult(
    "Not run: the call came incomplete. Make it again, shorter if it was cut off.", is_error=True
)
NOT_RUN_AFTER_STEERING = ToolResult("Not run: the user said something new. Read that first.", is_error=True)


def _as_message(user_input: str | Message) -> Message:
    return user_message(user_input) if isinstance(user_input, str) else user_input


def _has_content(message: Message) -> bool:
    """Is there a word or a call in it? An empty text and thinking alone are no answer."""
    return any(
        bool(part.text.strip()) if isinstance(part, Text) else not isinstance(part, Thinking) for part in message.parts
    )


def _find_end_reason(reply: Reply, message: Message | None, empty: int) -> str:
    """Why an answer without calls is the end of the turn; nothing if it may be asked for once more."""
    if reply.stop == "paused":
        return ""
    if message is not None or reply.stop in ("refused", "filtered"):
        return reply.stop
    return "empty" if empty >= _MAX_EMPTY_REPLIES else ""
