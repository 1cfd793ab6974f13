"""An answer that a scripted provider or a fake server gives. Each dialect encodes it its own way."""

from collections.abc import Iterator

import msgspec

from tidegate.core.messages import Call
from tidegate.core.usage import Usage
from tidegate.wire.streaming.reply import StopReason

_CHUNK_CHARS = 16


class ScriptedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answers. `signature` signs the thinking. Without `stop` the ordinary stop reason is used;
    without `usage` none is reported. `number` makes the ids of the answer unique in a conversation.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    signature: str = ""
    stop: StopReason | None = None
    usage: Usage | None = None
    model: str = ""
    number: int = 0

    @property
    def effective_stop(self) -> StopReason:
        return self.stop or ("calls" if self.calls else "end")


def cut_pieces(text: str) -> Iterator[str]:
    """The pieces in which a text is streamed."""
    yield from (text[at : at + _CHUNK_CHARS] for at in range(0, len(text), _CHUNK_CHARS))
