"""The request of a session, kept up to date.

A session needs its request before every call, and little has changed since the last one. So the JSON values, their
bytes and the state of the validator are kept per block. An update usually renders, encodes and validates only what is
new, and joins the rest.
"""

from functools import partial
from itertools import takewhile
from operator import eq
from typing import NamedTuple

import msgspec

from tidegate.core.messages import Tool, encode_into_bytes
from tidegate.wire.dialect import Dialect
from tidegate.wire.parsing import repair_json_unicode, require_object
from tidegate.wire.registry import get_dialect
from tidegate.wire.rendering.blocks import JsonObject, LayoutBlock, RenderableView, RequestOptions
from tidegate.wire.rendering.layout import Layout
from tidegate.wire.request_options import merge_extra_options
from tidegate.wire.splicing.options import THINKING_OPTION
from tidegate.wire.validation.faults import RequestFault
from tidegate.wire.validation.validator import RequestValidator

_encode = partial(encode_into_bytes, msgspec.json.Encoder())


class RequestRenderer:
    """One request in one dialect, following one view.

    `shared` is the number of leading messages that the last update left unchanged, which the provider may have cached.
    It is 0 after a change of the head (system text, tools).
    """

    def __init__(
        self,
        dialect: Dialect | str,
        model: str = "",
        *,
        max_tokens: int = 0,
        thinking: int = 0,
        cache: bool = False,
        temperature: float | None = None,
        top_p: float | None = None,
        extra: JsonObject | None = None,
    ) -> None:
        self.dialect = get_dialect(dialect) if isinstance(dialect, str) else dialect
        self.options = RequestOptions(model, max_tokens, thinking, cache, temperature, top_p, extra or {})
        self.shared = 0
        self._layout = Layout(
            self.dialect.capabilities,
            binds_prefix=self.dialect.binds_prefix(model),
            takes_instructions=self.dialect.takes_instructions(model),
            takes_blocks=self.dialect.find_compaction(model) is not None,
        )
        self._system = ""
        self._tools: tuple[Tool, ...] = ()
        self._messages: list[JsonObject] = []
        self._chunks: list[bytes] = []
        self._starts: list[int] = []  # index of the first message of each block
        self._head: JsonObject = {}
        self._head_bytes = b""
        self._head_of: tuple[bool, bool, int] | None = None
        self._check: RequestValidator | None = None
        self._read = 0  # number of messages the validator has read

    def update(self, view: RenderableView) -> None:
        same_blocks = self._layout.update(view)
        if self._head_of is None or view.system != self._system or view.tools != self._tools:
            same_blocks = 0
            self._system, self._tools = view.system, view.tools
            self._head_of = None
        blocks = self._layout.blocks
        start = self._starts[same_blocks] if same_blocks < len(self._starts) else len(self._messages)
        start = start if same_blocks else 0
        before = self._chunks[start:]
        del self._messages[start:], self._chunks[start:], self._starts[same_blocks:]
        if not same_blocks:
            for message in self.dialect.render_leading_messages(self._system):
                self._put(message)
        for block in blocks[same_blocks:]:
            self._starts.append(len(self._messages))
            self._add(block)
        self.shared = start + sum(1 for _ in takewhile(bool, map(eq, before, self._chunks[start:])))
        if start < self._read:
            self._check = None
        self._renew_head()

    def _add(self, block: LayoutBlock) -> None:
        if block.rendered is None:
            pairs = [_encode_repaired(message) for message in self.dialect.render_block(block, self.options)]
            block.rendered = tuple(sound for sound, _ in pairs)
            block.encoded = tuple(b"," + encoded for _, encoded in pairs)
        self._messages += block.rendered
        self._chunks += block.encoded

    def _put(self, message: JsonObject) -> None:
        sound, encoded = _encode_repaired(message)
        self._messages.append(sound)
        self._chunks.append(b"," + encoded)

    def _renew_head(self) -> None:
        """Render the head again if its inputs have changed."""
        thinks = self.wants_thinking and self.allows_thinking
        calls = self._layout.has_calls
        made_of = (calls, thinks, self.options.max_tokens)
        if self._head_of == made_of:
            return
        options = self.options if thinks else msgspec.structs.replace(self.options, thinking_budget=0)
        extra = self.options.extra
        if THINKING_OPTION in extra and not thinks:  # the provider would refuse it with these messages
            extra = {name: value for name, value in extra.items() if name != THINKING_OPTION}
        plain_head = self.dialect.render_head(self._system, self._tools, options, calls)
        head, encoded = _encode_repaired(merge_extra_options(plain_head, extra))
        self._head_of = made_of
        if encoded != self._head_bytes:
            self._head, self._head_bytes = head, encoded
            self._check = None
            self.shared = 0

    @property
    def wants_thinking(self) -> bool:
        """Whether the options turn on extended thinking."""
        return bool(self.options.thinking_budget) or THINKING_OPTION in self.options.extra

    @property
    def thinking_tokens(self) -> int:
        """The tokens that the options give to thinking, of the output; 0 for none or an amount that is not known."""
        return self.dialect.thinking.read_budget(self.options.extra) or self.options.thinking_budget

    @property
    def allows_thinking(self) -> bool:
        """Whether the provider accepts these messages with thinking turned on."""
        return not self.dialect.starts_loops_with_thinking(self.options) or self.dialect.allows_thinking(self._messages)

    @property
    def birth(self) -> str:
        """The birth of an answer to this request (`core/thinking_walk.py`)."""
        return self._layout.birth

    def without_extra_options(self, view: RenderableView) -> "RequestRenderer":
        """Return a renderer of the same view that leaves out the user's own options."""
        plain = RequestRenderer(self.dialect)
        plain.options = msgspec.structs.replace(self.options, extra={})
        plain.update(view)
        return plain

    def lower_output(self, most: int) -> bool:
        """Lower the output limit from the next update on. Return False if the limit is not above `most` already."""
        limit = self.dialect.output_tokens(self.options)
        if most <= 0 or 0 < limit <= most:
            return False
        return self.set_output(most)

    def set_output(self, limit: int) -> bool:
        """Set the output limit from the next update on; 0 for none. Return False if it is the limit already."""
        if limit == self.options.max_tokens:
            return False
        self.options = msgspec.structs.replace(self.options, max_tokens=limit)
        return True

    # --- the request ----------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[JsonObject]:
        """The messages of the request. They are kept for the next one: do not change them."""
        return list(self._messages)

    def _marked(self) -> dict[int, JsonObject]:
        """Return the messages with a cache marker, by index. The kept messages have none: markers move with every
        request and must not count as a change.

        One marker is at the end of the last real message, for the next request. The other is where an earlier request
        with the same beginning ended: a provider looks for cached content only a limited number of blocks before a
        marker, and much may have been added since, or edited.
        """
        if not self.options.cache_markers or not self._starts:
            return {}
        filler = not self._layout.blocks[-1].sources  # a filler will not be there next time
        last = (self._starts[-1] if filler else len(self._messages)) - 1
        earlier = min(self.shared - 1, last)
        while earlier >= 0 and self._messages[earlier].get("role") == "assistant":
            earlier -= 1
        messages = {place: self.dialect.add_cache_marker(self._messages[place]) for place in {earlier, last} - {-1}}
        return {place: message for place, message in messages.items() if message is not None}

    def freeze(self) -> "RenderedRequest":
        """Return the request as it is now; later updates do not change it."""
        messages, chunks = self.messages, list(self._chunks)
        for place, message in self._marked().items():
            messages[place], chunks[place] = message, b"," + _encode(message)
        return RenderedRequest(self.dialect.form.key, self._head, self._head_bytes, messages, chunks)

    def body(self) -> JsonObject:
        return self.freeze().body()

    def to_bytes(self) -> bytes:
        return self.freeze().to_bytes()

    def faults(self) -> list[RequestFault]:
        """Return what the provider would refuse. Messages that cannot change any more are checked only once."""
        if self._check is None:
            self._check = self.dialect.create_validator(self._head, self.dialect.profile_for_model(self.options.model))
            self._read = 0
        stable_blocks = self._layout.stable_blocks
        stable = max(
            self._read, self._starts[stable_blocks] if stable_blocks < len(self._starts) else len(self._messages)
        )
        for message in self._messages[self._read : stable]:
            self._check.feed(message)
        self._read = stable
        tail = self._check.fork()
        marked_messages = self._marked()
        for place in range(stable, len(self._messages)):
            tail.feed(marked_messages.get(place, self._messages[place]))
        return tail.finish()


class RenderedRequest(NamedTuple):
    """A request at one moment: its messages as values and as bytes, each with a leading comma, ready to be joined."""

    key: str
    head: JsonObject
    head_bytes: bytes
    messages: list[JsonObject]
    chunks: list[bytes]

    def replace_head(self, head: JsonObject) -> "RenderedRequest":
        """The same messages with another head."""
        sound, encoded = _encode_repaired(head)
        return self._replace(head=sound, head_bytes=encoded)

    def body(self) -> JsonObject:
        return {**self.head, self.key: self.messages}

    def to_bytes(self) -> bytes:
        """Return the body as JSON: the same as `msgspec.json.encode(self.body())`, at the cost of joining."""
        comma = b"," if self.head else b""
        opening = b'%s%s"%s":[' % (self.head_bytes[:-1], comma, self.key.encode())
        first = [chunk[1:] for chunk in self.chunks[:1]]
        return b"".join([opening, *first, *self.chunks[1:], b"]}"])


class _EncodedMessage(NamedTuple):
    value: JsonObject
    chunk: bytes


def _encode_repaired(value: JsonObject) -> _EncodedMessage:
    """Encode a message. One that was never parsed may hold half a surrogate pair, which is repaired here."""
    try:
        return _EncodedMessage(value, _encode(value))
    except UnicodeEncodeError:
        sound = require_object(repair_json_unicode(value), "A message")
        return _EncodedMessage(sound, _encode(sound))
