"""What a sweep has read in the messages of a group: the parts that do not depend on the rest of the view.

A view remembers them, so that no line of a group is read twice for them. `core/sweep/reading.py` fills them in.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidegate.core.messages import Message

LineNames = tuple[tuple[str, float], ...]
"""The names in a line, each with the weight of its kind."""


class GroupReading(NamedTuple):
    """`line` and `remarks` are for notes, `outcomes` the places of the lines that say how commands ended.

    `names` are those of each message by its lines, `argument_names` those in the arguments of its calls, with repeats.
    """

    messages: tuple[Message, ...]
    line: str
    remarks: tuple[str, ...]
    outcomes: Mapping[str, frozenset[int]]
    names: Mapping[str, Sequence[LineNames]]
    argument_names: tuple[str, ...]
