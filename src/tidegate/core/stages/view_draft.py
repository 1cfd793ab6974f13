"""A draft of edits with the size the view would have after them, for stages that stop when enough is freed."""

from copy import copy

from tidegate.core.budget import Budget
from tidegate.core.edits import Drop, Edit, Replace
from tidegate.core.messages import Message, Part
from tidegate.core.turns import Group
from tidegate.core.view import Item, View


class ViewDraft:
    def __init__(self, view: View, budget: Budget) -> None:
        self._budget = budget
        self._replaced: dict[str, Replace] = {}
        self._dropped: dict[str, None] = {}
        self._cost = {item.message.id: item.tokens for item in view.items}
        self.tokens = view.tokens

    def copy(self) -> "ViewDraft":
        other = copy(self)
        other._replaced, other._dropped, other._cost = dict(self._replaced), dict(self._dropped), dict(self._cost)
        return other

    def cost(self, ident: str) -> int:
        return self._cost[ident]

    def group_cost(self, group: Group) -> int:
        return sum(self._cost[ident] for ident in group.ids)

    def parts(self, item: Item) -> tuple[Part, ...]:
        done = self._replaced.get(item.message.id)
        return done.parts if done else item.message.parts

    def replace(self, item: Item, parts: tuple[Part, ...]) -> bool:
        """Show other parts instead, if that is cheaper. Says whether it was."""
        ident = item.message.id
        cost = self._budget.count(Message(item.message.role, parts))
        saved = self._cost[ident] - cost
        if saved <= 0 or ident in self._dropped:
            return False
        self._replaced[ident] = Replace(ident, parts, cost)
        self._cost[ident] = cost
        self.tokens -= saved
        return True

    def drop(self, group: Group) -> None:
        for ident in group.ids:
            if ident not in self._dropped:
                self._dropped[ident] = None
                self._replaced.pop(ident, None)
                self.tokens -= self._cost[ident]
                self._cost[ident] = 0

    def is_dropped(self, group: Group) -> bool:
        return group.last_id in self._dropped

    @property
    def edit_count(self) -> int:
        return len(self._replaced) + len(self._dropped)

    def edits(self) -> tuple[Edit, ...]:
        drop: tuple[Edit, ...] = (Drop(tuple(self._dropped)),) if self._dropped else ()
        return (*self._replaced.values(), *drop)
