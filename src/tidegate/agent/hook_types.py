"""The types of hooks: a hook is a condition and an action, evaluated when a turn starts or ends.

`on: turn_start` is the moment before each request to the model, so also between the steps of a turn with tool calls.
Turns are counted by the messages of the user.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from tidegate.session.session import Session

HookMoment = Literal["turn_start", "turn_end"]
CompactionStrategy = Literal["summarize", "truncate"]
_MAX_MESSAGE_CHARS = 8_000
"""Characters of a message in a file. An injected message is limited by the window, too."""
HookMessageText = Annotated[str, Meta(min_length=1, max_length=_MAX_MESSAGE_CHARS)]


class ContextPressure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="context_pressure"):
    """True if more than this share of the window, without the reserve for the answer, is used."""

    threshold: Annotated[float, Meta(ge=0, le=1)]


class TurnCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="turn_count"):
    """True in the turn with this number. The hook runs once in it, however often the model is called."""

    count: Annotated[int, Meta(ge=1)]


class ToolCallCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="tool_calls"):
    """True if there are more tool calls than this in the window."""

    threshold: Annotated[int, Meta(ge=0)]


class MessageCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="message_count"):
    """True if there are more messages than this in the window."""

    threshold: Annotated[int, Meta(ge=0)]


class Always(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="always"):
    """Always true."""


class CompactContext(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="compact_context"):
    """Compact the window. A value that is null is taken from the `context` of the agent."""

    strategy: CompactionStrategy | None = None
    keep_recent: Annotated[int, Meta(ge=0)] | None = None
    summary_max_tokens: Annotated[int, Meta(ge=1)] | None = None


class InjectMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="inject_message"):
    """Add a message for the model. Placeholders stand for numbers only, so that no tool output can get into it."""

    message: HookMessageText
    role: Literal["system", "user"] = "system"


class ModuleAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="module_action"):
    """Run an action of a module, or a tool of an MCP server, with `params` as its arguments."""

    module: str
    action: str
    params: dict[str, Any] = {}


class LogMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="log"):
    """Show a message to the user, and note it in the log. The model does not see it."""

    message: HookMessageText


class HookContext(NamedTuple):
    """The values that conditions and placeholders use. A function may also use the session."""

    moment: HookMoment
    session: Session
    turn: int
    tokens: int
    message_count: int
    tool_call_count: int
    pressure: float


HookFunction = Callable[[HookContext], str | Awaitable[str | None] | None]
"""A hook in Python. Its result is shown to the user only."""


class RunFunction(msgspec.Struct, frozen=True, tag=""):
    """Run a Python function. No file can name it: its tag is empty."""

    function: HookFunction


HookCondition = ContextPressure | TurnCount | ToolCallCount | MessageCount | Always
HookAction = CompactContext | InjectMessage | ModuleAction | LogMessage


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action that runs at a moment (`on`) if its condition holds.

    `turn_start` is before each request to the model, so also between the steps of a turn with tool calls. `cooldown` is
    the number of seconds between two runs, also across a restart.
    """

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
