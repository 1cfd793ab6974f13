"""Turns and groups: the only units that leave a view.

A *group* is one assistant message with its calls, all their results and its signed thinking; any other message is a
group of its own. A *turn* is a request of the user and all that answers it. What stands before the first request (a
summary, a greeting of the assistant) belongs to no turn: it is the *preamble*.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidegate.core.messages import calls_of, is_user_request
from tidegate.core.view import Item, View


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
    """`groups[0]` is the request itself."""

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


class TurnOutline(NamedTuple):
    preamble: tuple[Group, ...]
    turns: tuple[Turn, ...]


def split_groups(view: View) -> list[Group]:
    found: list[list[Item]] = []
    for item in view.items:
        if item.message.role == "tool" and found:
            found[-1].append(item)
        else:
            found.append([item])
    return [Group(tuple(items)) for items in found]


def outline_turns(view: View) -> TurnOutline:
    preamble: list[Group] = []
    turns: list[list[Group]] = []
    for group in split_groups(view):
        if is_user_request(group.items[0].message):
            turns.append([group])
        elif turns:
            turns[-1].append(group)
        else:
            preamble.append(group)
    return TurnOutline(tuple(preamble), tuple(Turn(tuple(each)) for each in turns))


def collect_ids(units: Iterable[Group | Turn]) -> tuple[str, ...]:
    return tuple(ident for unit in units for ident in unit.ids)


def count_newest_groups(units: Sequence[Group], *, messages: int | None = None, tokens: int | None = None) -> int:
    """How many groups at the end hold at most so many messages and tokens. A cut moves before a group, never into it.

    The group that crosses the message count is kept whole; one that crosses the token count is not.
    """
    count = used = taken = 0
    for group in reversed(units):
        if messages is not None and count >= messages:
            break
        used += group.tokens
        if tokens is not None and used > tokens and taken:
            break
        count += len(group.items)
        taken += 1
    return taken


# Which tool a result came from.


def tool_names_by_call(items: Sequence[Item]) -> dict[str, str]:
    return {call.id: call.name for item in items for call in calls_of(item.message)}
