"""The loop: ask, run what was called for, ask again, until the model has answered.

    agent = Agent(session, provider, tools)
    async for each in agent.turn("Find out why the build is slow."):
        show(each)

Everything that happened is in the session's log before the next step begins, so it can be stopped anywhere: cancel the
task that reads the turn. A call that was begun and has no result is answered as interrupted by the next request, and
never run again by itself. Whatever ends a turn, the session is valid and goes on.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import groupby
from typing import NamedTuple

import msgspec

from tidegate.agent.hook_types import Moment
from tidegate.agent.hooks import Done, Hooks
from tidegate.agent.tools.tool import Context, ToolResult
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.messages import TOOL_RESULT, Call, Message, Result, Text, Thinking, calls_of, user
from tidegate.core.plan import Decision
from tidegate.models.faults import Fault, fault_of_reply
from tidegate.models.provider import Delta, Provider, Reply
from tidegate.session.drive import SummariseAsync
from tidegate.session.request import Request
from tidegate.session.session import Session

SHRINKS = frozenset({"overflow", "rate_bucket", "bytes"})
"""Refused for its size: a smaller request may pass. Whatever else a provider refuses, less of it does not help."""
EMPTY = 2
NEAR = 0.85


class Asked(NamedTuple):
    """A request goes out. `decisions` are what the policy did to make it fit."""

    request: Request
    decisions: list[Decision]


class Began(NamedTuple):
    call: Call


class Ended(NamedTuple):
    call: Call
    result: ToolResult


class Refused(NamedTuple):
    """The provider refused the request; it is sent again, smaller, or without the reasoning it no longer takes back."""

    fault: Fault


class Stopped(NamedTuple):
    """The turn is over: `why` is end, steps, refused, filtered, length or empty."""

    why: str


Happening = Asked | Delta | Reply | Began | Ended | Refused | Done | Stopped


class Agent:
    """`max_steps` bounds the tool calls of a turn; calls that were made together are not split."""

    def __init__(
        self,
        session: Session,
        provider: Provider,
        toolbox: Toolbox,
        context: Context,
        *,
        summarise: SummariseAsync | None = None,
        hooks: Hooks | None = None,
        max_steps: int = 100,
    ) -> None:
        self.session = session
        self.provider = provider
        self.toolbox = toolbox
        self.context = context
        self.summarise = summarise
        self.hooks = hooks
        self.max_steps = max_steps

    async def turn(self, text: str) -> AsyncGenerator[Happening, None]:
        """One turn. A Fault that no smaller request could cure, and GiveUp, are raised; the session stays whole."""
        self.session.add(user(text))
        steps, empty, why = 0, 0, ""
        while not why:
            reply: Reply | None = None
            async with aclosing(self._ask()) as stream:
                async for each in stream:
                    reply = each if isinstance(each, Reply) else reply
                    yield each
            assert reply is not None
            message = self._keep(reply)
            calls = calls_of(message) if message is not None else []
            if calls:
                unfit = {call.id for call in calls} if reply.stop == "length" else set(reply.broken)
                async with aclosing(self._run(calls, unfit)) as stream:
                    async for each in stream:
                        yield each
                steps += len(calls)
                why = "steps" if steps >= self.max_steps else ""
                await self._compact_if_asked()
            elif reply.stop == "paused":
                steps += 1  # else who pauses for ever is asked for ever
                why = "steps" if steps >= self.max_steps else ""
            else:
                empty += message is None
                why = _why(reply, empty) if message is None else reply.stop
        for done in await self._fire("turn_end"):
            yield done
        yield Stopped(why)

    async def _fire(self, moment: Moment) -> list[Done]:
        return await self.hooks.fire(moment, self.session, summarise=self.summarise) if self.hooks else []

    async def _compact_if_asked(self) -> None:
        """The tool `compact` only asks: nothing may be cut while a call is open."""
        if self.context.compaction is not None:
            self.context.compaction = None
            await self.session.compact_async(self.summarise)

    async def _ask(self) -> AsyncGenerator[Happening, None]:
        """One answer. A request that is refused for its size is shrunk, as often as the session allows in a turn."""
        for done in await self._fire("turn_start"):
            yield done
        request = await self.session.prepare_async(self.summarise)
        unsigned = False
        while True:
            yield Asked(request, self.session.decisions)
            shown: list[str] = []
            try:
                async with aclosing(self.provider.stream(request.to_bytes())) as stream:  # type: ignore[type-var]
                    async for each in stream:
                        self._look(each, shown)
                        yield each
                return
            except Fault as fault:
                if not (self._shrinks(fault) or (fault.kind == "reasoning_state" and not unsigned)):
                    raise
                refused = fault
            except (asyncio.CancelledError, GeneratorExit):
                self._keep_shown("".join(shown))
                raise
            yield Refused(refused)
            if refused.kind == "reasoning_state":
                unsigned = True
                self.session.unsign()
                request = self.session.request()
                continue
            self.session.learn(refused.window or (refused.limit if refused.kind == "rate_bucket" else None))
            request = await self.session.overflowed_async(self.summarise)

    def _shrinks(self, fault: Fault) -> bool:
        """A refusal without words may be about length, if the request was near the window."""
        if fault.kind in SHRINKS:
            return True
        near = self.session.window is not None and self.session.size() > NEAR * self.session.window
        return near and fault.kind == "unknown" and not fault.certain and fault.status in (400, 413)

    def _look(self, each: Delta | Reply, shown: list[str]) -> None:
        """Some overflow in silence: the answer comes whole and is none."""
        if isinstance(each, Delta):
            shown += [each.text] if each.kind == "text" else []
            return
        fault = fault_of_reply(each, window=self.session.window)
        if fault is not None and fault.kind in SHRINKS:
            raise fault

    def _keep(self, reply: Reply) -> Message | None:
        """The answer into the log, and what it cost. None if there is nothing in it."""
        said = reply.said(self.provider.wire)
        self.session.record(reply.usage)
        full = [message for message in said if message.parts and (reply.stop == "paused" or _says(message))]
        self.session.add(*full)
        return full[-1] if full else None

    def _keep_shown(self, text: str) -> None:
        """What the user saw before it was stopped, the model should know of, too."""
        if text.strip():
            self.session.add(Message("assistant", (Text(text + "\n[interrupted]"),)))

    async def _run(self, calls: list[Call], unfit: set[str]) -> AsyncGenerator[Happening, None]:
        """Calls of tools that may run together do, with their neighbours. Results stand in the order of the calls."""
        names = self.session.dialect.tool_names(self.session.view.tools)
        meant = [msgspec.structs.replace(call, name=names.get(call.name, call.name)) for call in calls]
        for _, batch in groupby(enumerate(meant), lambda pair: -1 if self.toolbox.together(pair[1].name) else pair[0]):
            together = [call for _, call in batch]
            for call in together:
                yield Began(call)
            running = [asyncio.ensure_future(self._result(call, unfit)) for call in together]
            try:
                for call, task in zip(together, running, strict=True):
                    result = await task
                    parts = (Result(call.id, (Text(result.text),), result.error),)
                    self.session.add(Message("tool", parts, kind=TOOL_RESULT))
                    yield Ended(call, result)
            finally:
                for task in running:
                    task.cancel()
                await asyncio.wait(running)

    async def _result(self, call: Call, unfit: set[str]) -> ToolResult:
        return CUT if call.id in unfit else await self.toolbox.run(call, self.context)


CUT = ToolResult("Not run: the call came incomplete. Make it again, shorter if it was cut off.", error=True)


def _says(message: Message) -> bool:
    """Is there a word or a call in it? An empty text and thinking alone are no answer."""
    return any(
        bool(part.text.strip()) if isinstance(part, Text) else not isinstance(part, Thinking) for part in message.parts
    )


def _why(reply: Reply, empty: int) -> str:
    """Of an answer with nothing in it: why that is the end of the turn, or nothing if it may be asked for once more."""
    if reply.stop in ("refused", "filtered"):
        return reply.stop
    return "empty" if empty >= EMPTY else ""
