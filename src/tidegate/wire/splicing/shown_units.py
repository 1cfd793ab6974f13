"""The items of a view as they are written into a client's request."""

from typing import NamedTuple

import msgspec

from tidegate.core.messages import Message, Thinking
from tidegate.wire.splicing.units import HostUnit


class ShownUnit(NamedTuple):
    """One item of a view. `unit` is None for a message of the engine; `message` is None if the unit is kept as it is.

    Without `signed`, what the provider signed is left out where it would be refused. `kept_place` is the place of the
    client's item that is sent as it is; -1 if the unit is not an item, or is edited. `show_unit` finds it.
    """

    unit: HostUnit | None
    message: Message | None
    signed: bool
    kept_place: int


def show_unit(unit: HostUnit | None, message: Message | None, signed: bool = True) -> ShownUnit:
    """An item of a view."""
    kept_place = -1
    if unit is not None and message is None and unit.is_whole:
        first, last = unit.origins[0].item, unit.origins[-1].item
        is_sent = signed or Thinking not in map(type, unit.message.parts)
        kept_place = first if is_sent and first == last else -1
    return ShownUnit(unit, message, signed, kept_place)


def move_to_first_place(unit: HostUnit | None) -> HostUnit | None:
    """The unit with the first item of the list as its own."""
    if unit is None:
        return None
    return msgspec.structs.replace(unit, origins=tuple(origin._replace(item=0) for origin in unit.origins))
