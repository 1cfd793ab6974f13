"""Groups and turns: a view is only ever shortened by whole groups or whole turns.

A *group* is one assistant message with its calls, all their results and its signed thinking; any other message is a
separate group. A *turn* is a request of the user and everything that answers it. Messages before the first request
(a summary, a greeting of the assistant) belong to no turn.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from tidegate.core.messages import Call, calls_of, is_user_request
from tidegate.core.view import Item, View

CALL_TOOL: Final = "call_tool"
"""The meta-tool of an agent that calls another tool: its argument `name` says which."""


class _CalledTool(msgspec.Struct):
    name: str = ""


class Group(NamedTuple):
    items: tuple[Item, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(item.message.id for item in self.items)

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)

    @property
    def last_id(self) -> str:
        return self.items[-1].message.id

    @property
    def results(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.message.role == "tool")


class Turn(NamedTuple):
    """A request of the user, which is `groups[0]`, and the groups that answer it."""

    groups: tuple[Group, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(ident for group in self.groups for ident in group.ids)

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(item for group in self.groups for item in group.items)

    @property
    def tokens(self) -> int:
        return sum(group.tokens for group in self.groups)


def split_groups(view: View) -> list[Group]:
    """The groups of a view, in order. Each of its messages is in one of them."""
    groups: list[list[Item]] = []
    for item in view.items:
        if item.message.role == "tool" and groups:
            groups[-1].append(item)
        else:
            groups.append([item])
    return [Group(tuple(items)) for items in groups]


def split_turns(view: View) -> list[Turn]:
    """The turns of a view, in order. Groups before the first request belong to none."""
    turns: list[list[Group]] = []
    for group in split_groups(view):
        if is_user_request(group.items[0].message):
            turns.append([group])
        elif turns:
            turns[-1].append(group)
    return [Turn(tuple(each)) for each in turns]


def collect_ids(units: Iterable[Group | Turn]) -> tuple[str, ...]:
    return tuple(ident for unit in units for ident in unit.ids)


def count_newest_groups(units: Sequence[Group], *, messages: int | None = None, tokens: int | None = None) -> int:
    """Count the newest groups that together have at most these messages and tokens; at least one. No group is cut.

    The group that crosses the number of messages is counted; the one that crosses the number of tokens is not.
    """
    count = total = groups = 0
    for group in reversed(units):
        if messages is not None and count >= messages:
            break
        total += group.tokens
        if tokens is not None and total > tokens and groups:
            break
        count += len(group.items)
        groups += 1
    return groups


def tool_names_by_call(items: Sequence[Item]) -> dict[str, str]:
    """The name of the tool for the id of each call in these items: the tool that was run, if it was by `CALL_TOOL`."""
    return {call.id: _called_tool(call) for item in items for call in calls_of(item.message)}


def _called_tool(call: Call) -> str:
    if call.name != CALL_TOOL:
        return call.name
    try:
        return msgspec.json.decode(call.arguments, type=_CalledTool).name or call.name
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return call.name
