"""Several answers of a provider, passed on to a client as one, without the calls of a hidden tool.

A provider's answer with hidden calls only is not the end: these calls are answered, and the next answer continues the
first. `feed` gets each frame of a stream and returns it as the client gets it: as it is (`KEEP`), changed, or None.
`goes_on` then says whether another answer follows; `start_next` announces it. Blocks, items, calls and sequence numbers
are renumbered. The reported input is that of the last answer, the output is the sum.
"""

from typing import Final, Protocol

from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import as_object

KEEP: Final[JsonObject] = {}
"""The frame is passed on as it is, byte for byte."""


class MergedAnswer(Protocol):
    """One answer to the client. With `is_last`, no other answer may follow: hidden calls are left out of this one."""

    goes_on: bool
    is_last: bool

    def start_next(self) -> None: ...

    def feed(self, frame: JsonObject) -> JsonObject | None: ...

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        """The same for a whole answer."""


class AnswerMerger:
    """What the dialects share: counts of this answer, and the sums of those before it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.goes_on = False
        self.is_last = False
        self.rounds = 1
        self.hidden_calls = self.visible_calls = 0
        self._earlier_output = 0
        self.first_id: object = None
        self._has_ended = False

    def start_next(self) -> None:
        self.rounds += 1
        self.hidden_calls = self.visible_calls = 0
        self.goes_on = self._has_ended = False

    def ends_here(self, asks_for_calls: bool, output_tokens: object) -> bool:
        """Whether the answer to the client ends with this answer of the provider. The first end of an answer counts."""
        if self._has_ended:
            return not self.goes_on
        self._has_ended = True
        self.goes_on = bool(asks_for_calls and self.hidden_calls and not self.visible_calls and not self.is_last)
        if self.goes_on and isinstance(output_tokens, int):
            self._earlier_output += output_tokens
        return not self.goes_on

    @property
    def is_changed(self) -> bool:
        return self.rounds > 1 or self.hidden_calls > 0

    @property
    def has_lost_its_calls(self) -> bool:
        return self.hidden_calls > 0 and not self.visible_calls

    def sum_output(self, usage: object, key: str, total: str = "") -> JsonObject:
        total_usage = dict(as_object(usage))
        for each in filter(None, (key, total)):
            count = total_usage.get(each)
            if isinstance(count, int):
                total_usage[each] = count + self._earlier_output
        return total_usage
