"""What must break a test: the settings, rules or stages that carry its row, changed behind its back."""

from typing import Any

import msgspec

from tests.seeds.talk import Preset
from tidegate import Outcome, Policy, View, load
from tidegate.core.budget import Budget
from tidegate.core.edits import Drop


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`change`: settings; `fields`: fields of the policy itself; `without`: rules by id; `swap`: stages by name.

    `fixed` says why a row has nothing of the kind: what it promises holds under every policy.
    """

    change: dict = {}
    fields: dict = {}
    without: tuple[str, ...] = ()
    swap: dict = {}
    fixed: str = ""

    @property
    def empty(self) -> bool:
        return not (self.change or self.fields or self.without or self.swap)


def plain(name: str, config: object = None, /, *, ignore_unknown: bool = False, **settings: object) -> Policy:
    given = {**config, **settings} if isinstance(config, dict) else settings
    return load(name, given, ignore_unknown=ignore_unknown)


def mutated(mutation: Mutation) -> Preset:
    """A `preset` whose policies differ in what the mutation says, whatever the test asks for."""

    def preset(name: str, config: object = None, /, *, ignore_unknown: bool = False, **settings: object) -> Policy:
        asked = plain(name, config, ignore_unknown=ignore_unknown, **settings)
        policy = load(name, {**asked.settings, **mutation.change})
        _require(mutation, policy)
        moments = {
            moment: tuple(
                msgspec.structs.replace(rule, run=mutation.swap.get(rule.stage, rule.run))
                for rule in found
                if rule.name not in mutation.without
            )
            for moment, found in policy.moments.items()
        }
        return msgspec.structs.replace(policy, moments=moments, **mutation.fields)

    return preset


def _require(mutation: Mutation, policy: Policy) -> None:
    """A mutation that touches nothing proves nothing."""
    found = [rule for each in policy.moments.values() for rule in each]
    missing = set(mutation.without) - {rule.name for rule in found}
    missing |= set(mutation.swap) - {rule.stage for rule in found}
    if missing:
        raise LookupError(f"the policy {policy.name} has no {sorted(missing)}")


def cut_by_index(view: View, budget: Budget, **settings: Any) -> Outcome:
    """What the documents complain of, for `swap`: a cut that counts messages and looks at nothing else."""
    gone = view.items[: len(view.items) // 2]
    return Outcome((Drop(tuple(item.message.id for item in gone)),), why="half of the messages")
