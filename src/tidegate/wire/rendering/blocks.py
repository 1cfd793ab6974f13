"""The values between a view and a dialect: view items, the capabilities of a dialect, and the blocks laid out for
it.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from tidegate.core.messages import Image, Message, Part, Text
from tidegate.core.thinking_walk import WalkedItem, WalkedView
from tidegate.wire.rendering.identifiers import IdentifierRules
from tidegate.wire.rendering.image_limits import ImageLimits

BlockSide = Literal["user", "assistant"]
JsonObject = dict[str, object]


class RenderableView(WalkedView, Protocol):
    """A view. While `prefix_seq` stays the same, items are only appended."""

    @property
    def items(self) -> Sequence[WalkedItem]: ...
    @property
    def prefix_seq(self) -> int: ...


class DialectCapabilities(msgspec.Struct, frozen=True):
    """The content that a dialect can hold.

    `joins_texts`: several texts of a message become one. `plain_thinking`: reasoning text is sent back.
    `standalone_thinking`: thinking may be a separate message, directly before the one it belongs to. `image_limits`:
    set where the provider refuses a whole request because of one image. `default_max_tokens`: the output limit of a
    request whose options set none.
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
    """The options of a request besides its content. `thinking_budget` is in tokens, where a dialect has one.

    `cache_markers` asks for markers where the provider caches only what is marked. `extra` are the user's own options,
    in the provider's form; they are sent as they are.
    """

    model: str = ""
    max_tokens: int = 0
    thinking_budget: int = 0
    cache_markers: bool = False
    temperature: float | None = None
    top_p: float | None = None
    extra: JsonObject = {}

    def sampling(self) -> JsonObject:
        """Return the sampling settings that are set; for the others the provider's defaults apply."""
        options = {"temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in options.items() if value is not None}


class CallSlot(NamedTuple):
    """A call waiting for its answer: its id in the history, its id and name in the request."""

    call_id: str
    id: str
    name: str


class CallAnswer(msgspec.Struct, gc=False):
    id: str
    name: str
    parts: tuple[Text | Image, ...]
    error: bool = False


class LayoutBlock(msgspec.Struct, eq=False, gc=False):
    """One turn of one side. It has tuples, not lists: a process has one for each message of all its open sessions, and
    the garbage collector skips a tuple of such values.

    Two blocks with the same `key` render the same; `sources` keeps the messages alive that the key names.
    `instructions` are texts with the authority of the system, after all else. `rendered` and `encoded` hold the JSON
    values made from the block, and each of them as bytes.
    """

    side: BlockSide
    key: tuple[object, ...]
    sources: tuple[Message, ...]
    parts: tuple[Part, ...]
    answers: tuple[CallAnswer, ...] = ()
    instructions: tuple[str, ...] = ()
    rendered: tuple[JsonObject, ...] | None = None
    encoded: tuple[bytes, ...] = ()
