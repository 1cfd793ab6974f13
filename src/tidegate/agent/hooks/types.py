"""What a hook is: a condition and an action, evaluated when a turn starts or ends.

`on: turn_start` is the moment before each call of the model, so also between the steps of a turn that runs tools;
turns are counted by the requests of the user.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from tidegate.session.session import Session

HookMoment = Literal["turn_start", "turn_end"]
CompactionStrategy = Literal["summarize", "truncate"]
_MAX_MESSAGE_CHARS = 8_000
"""Characters of a message in a file. What enters the window is bounded by the window, too."""
HookMessageText = Annotated[str, Meta(min_length=1, max_length=_MAX_MESSAGE_CHARS)]


class ContextPressure(msgspec.Struct, frozen=True, tag="context_pressure"):
    """More than this share of what the answer leaves of the window is used."""

    threshold: Annotated[float, Meta(ge=0, le=1)]


class TurnCount(msgspec.Struct, frozen=True, tag="turn_count"):
    """It is this turn: once in it, however often the model is called."""

    count: Annotated[int, Meta(ge=1)]


class ToolCallCount(msgspec.Struct, frozen=True, tag="tool_calls"):
    """More calls than this stand in the window."""

    threshold: Annotated[int, Meta(ge=0)]


class MessageCount(msgspec.Struct, frozen=True, tag="message_count"):
    """More messages than this stand in the window."""

    threshold: Annotated[int, Meta(ge=0)]


class Always(msgspec.Struct, frozen=True, tag="always"):
    pass


class CompactContext(msgspec.Struct, frozen=True, tag="compact_context"):
    """What is null is as the agent's context says."""

    strategy: CompactionStrategy | None = None
    keep_recent: Annotated[int, Meta(ge=0)] | None = None
    summary_max_tokens: Annotated[int, Meta(ge=1)] | None = None


class InjectMessage(msgspec.Struct, frozen=True, tag="inject_message"):
    """The words stand in the file; only numbers are filled in, so nothing a tool said can speak through them."""

    message: HookMessageText
    role: Literal["system", "user"] = "system"


class ModuleAction(msgspec.Struct, frozen=True, tag="module_action"):
    module: str
    action: str
    params: dict[str, Any] = {}


class LogMessage(msgspec.Struct, frozen=True, tag="log"):
    message: HookMessageText


class HookContext(NamedTuple):
    """What a condition and a placeholder may ask about. A function may do to the session what any program may."""

    moment: HookMoment
    session: Session
    turn: int
    tokens: int
    message_count: int
    tool_call_count: int
    pressure: float


HookFunction = Callable[[HookContext], str | Awaitable[str | None] | None]
"""A hook in Python. What it gives back is shown to the user and goes nowhere else."""


class RunFunction(msgspec.Struct, frozen=True):
    """For programs: it has no name, so no file can ask for it."""

    function: HookFunction


HookCondition = ContextPressure | TurnCount | ToolCallCount | MessageCount | Always
HookAction = CompactContext | InjectMessage | ModuleAction | LogMessage


class Hook(msgspec.Struct, frozen=True):
    """`cooldown` is in seconds from one firing to the next, also over a restart."""

    id: Annotated[str, Meta(pattern=r"^[\w.-]{1,64}$")]
    condition: HookCondition
    action: HookAction | RunFunction
    on: HookMoment = "turn_end"
    cooldown: Annotated[float, Meta(ge=0)] = 0.0


def condition_holds(condition: HookCondition, context: HookContext) -> bool:
    match condition:
        case ContextPressure(threshold):
            return context.pressure > threshold
        case TurnCount(count):
            return context.turn == count
        case ToolCallCount(threshold):
            return context.tool_call_count > threshold
        case MessageCount(threshold):
            return context.message_count > threshold
        case Always():
            return True


def describe_condition(condition: HookCondition) -> str:
    """Return the condition as it is written in a file: its name, and its number if it has one."""
    match condition:
        case ContextPressure(number):
            return f"context_pressure {number}"
        case TurnCount(number):
            return f"turn_count {number}"
        case ToolCallCount(number):
            return f"tool_calls {number}"
        case MessageCount(number):
            return f"message_count {number}"
        case Always():
            return "always"
