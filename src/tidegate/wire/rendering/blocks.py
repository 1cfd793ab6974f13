"""The values between a view and a dialect: what is shown, what a dialect can carry, and the blocks laid out for it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from tidegate.core.messages import Image, Message, Part, Text, Tool
from tidegate.wire.rendering.identifiers import IdentifierRules
from tidegate.wire.rendering.image_limits import ImageLimits

BlockSide = Literal["user", "assistant"]
JsonObject = dict[str, object]


class RenderableItem(Protocol):
    """An item of a view. Not `signed`: something before it was edited since, so its opaque data may not be sent."""

    @property
    def message(self) -> Message: ...
    @property
    def signed(self) -> bool: ...


class RenderableView(Protocol):
    """A view. As long as `prefix_seq` is the same, items were only appended."""

    @property
    def items(self) -> Sequence[RenderableItem]: ...
    @property
    def prefix_seq(self) -> int: ...
    @property
    def system(self) -> str: ...
    @property
    def tools(self) -> tuple[Tool, ...]: ...


class DialectCapabilities(msgspec.Struct, frozen=True):
    """What a dialect can carry.

    `joins`: several texts of a message become one. `plain_thinking`: reasoning text is replayed. `early_thinking`:
    thinking may come as a message of its own, right before the one it belongs to. `bounds`: of the pictures, where
    the provider refuses a whole request for one of them. `output`: what is asked for where nobody said how much.
    """

    family: str
    identifiers: IdentifierRules
    joins_texts: bool = False
    plain_thinking: bool = False
    standalone_thinking: bool = False
    user_images: bool = True
    result_images: bool = False
    assistant_images: bool = False
    image_limits: ImageLimits | None = None
    default_max_tokens: int = 0


class RequestOptions(msgspec.Struct, frozen=True):
    """What a request asks for beside its content. `thinking` is a budget in tokens, where a dialect has one.

    `cache` asks for marks where the provider wants to be told what to keep.
    """

    model: str = ""
    max_tokens: int = 0
    thinking_budget: int = 0
    cache_markers: bool = False
    temperature: float | None = None
    top_p: float | None = None

    def sampling(self) -> JsonObject:
        """How freely to choose words, where it was said; without it the provider's own way."""
        wanted = {"temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in wanted.items() if value is not None}


class CallSlot(NamedTuple):
    """A call waiting for its answer: its id in the history, its id and name on the wire."""

    call_id: str
    id: str
    name: str


class CallAnswer(msgspec.Struct):
    id: str
    name: str
    parts: list[Text | Image]
    error: bool = False


class LayoutBlock(msgspec.Struct, eq=False):
    """`key` tells whether another block would render the same; `sources` keep the messages it names alive.

    `wire` and `chunks` hold what was rendered from it: JSON values, and each of them encoded.
    """

    side: BlockSide
    key: tuple[object, ...]
    sources: tuple[Message, ...]
    parts: list[Part]
    answers: list[CallAnswer]
    rendered: list[JsonObject] | None = None
    encoded: list[bytes] = []
