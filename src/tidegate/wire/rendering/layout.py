"""Layout of a view as blocks that every dialect can send: the sides alternate, user first and user last.

    user      answers to the calls of the block before, in call order; then texts and images
    assistant texts, thinking and calls, in their original order

Providers differ in notation, not in what they accept: such a layout is valid for the strictest of them. Adjacent
messages of one side share a block, so alternation loses no text. A system message in mid-conversation goes to the user
side under a label, because some servers accept only one system text. An instruction of the configuration's owner
(`INSTRUCTION`) keeps the authority of the system at its place, where a model accepts that. A call without an answer
gets one; an answer without a call becomes text.

Appending to a view changes only the last block, and a block depends only on the calls it answers. A finished block
therefore keeps its JSON, which makes a request cheap and its prefix stable. After an edit of the view the blocks are
laid out again, and those made of the same messages are kept.

The text we add to a request is not counted. It must stay within the margin in the count of a message (16 characters)
and of a request (64): at most 12 characters per message, and two fillers of at most 28 per request.
"""

from collections.abc import Iterable, Sequence

import msgspec

from tidegate.core.messages import (
    Call,
    Image,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    compaction_of,
    is_instruction,
    read_out_compaction,
    text_of,
)
from tidegate.core.thinking_walk import ThinkingWalk
from tidegate.wire.parsing import normalize_arguments
from tidegate.wire.rendering.blocks import (
    BlockSide,
    CallAnswer,
    CallSlot,
    DialectCapabilities,
    LayoutBlock,
    RenderableView,
)
from tidegate.wire.rendering.identifiers import assign_call_id, encode_tool_name
from tidegate.wire.rendering.image_limits import IMAGE_PLACEHOLDER, ImageSelection

FIRST_USER_FILLER = "(conversation continues)"
LAST_USER_FILLER = "Continue."
EMPTY_MESSAGE_TEXT = "(empty)"
NO_OUTPUT_TEXT = "(no output)"
NO_RESULT_TEXT = "(no result)"
_SYSTEM_LABEL = "[system] "
_RESULT_LABEL = "[result] "

# Characters allowed between the texts of one message: a plain text, one under a label, a result.
_SEPARATOR_CHARS, _LABELED_SEPARATOR_CHARS, RESULT_SEPARATOR_CHARS = 10, 1, 5


class _Entry(msgspec.Struct, frozen=True, eq=False, gc=False):
    message: Message
    opaque: bool
    slots: tuple[CallSlot, ...] = ()


class _Span(msgspec.Struct, eq=False, gc=False):
    """Adjacent messages of one side, before layout. `filler` is the text if there is no other."""

    side: BlockSide
    entries: list[_Entry]
    filler: str = ""

    @property
    def slots(self) -> tuple[CallSlot, ...]:
        return tuple(slot for entry in self.entries for slot in entry.slots)


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def join_within_spare(texts: Sequence[str], spare: int = _SEPARATOR_CHARS) -> str:
    """Join the texts of one message. The separators are not counted, so many texts get shorter ones."""
    gap = next((gap for gap in ("\n\n", "\n") if len(gap) * (len(texts) - 1) <= spare), "")
    return gap.join(texts)


class Layout:
    """The blocks of a view, kept up to date as it grows.

    `binds_prefix`: signed data of this model is bound to everything before it. `takes_instructions`: it accepts system
    messages in mid-conversation. `takes_blocks`: it reads blocks that were asked for in place of messages.
    """

    def __init__(
        self,
        rules: DialectCapabilities,
        *,
        binds_prefix: bool = True,
        takes_instructions: bool = False,
        takes_blocks: bool = True,
    ) -> None:
        self._rules = rules
        self._binds_prefix = binds_prefix
        self._takes_instructions = takes_instructions
        self._takes_blocks = takes_blocks
        self.blocks: list[LayoutBlock] = []
        self._clear()

    def _clear(self) -> None:
        self._spans: list[_Span] = []
        self._used: set[str] = set()
        self._early: list[_Entry] = []
        self._images: ImageSelection | None = None  # made for the first image
        self._count = 0
        self._epoch: int | None = None
        self._walk: ThinkingWalk | None = None
        self.has_calls = False

    @property
    def birth(self) -> str:
        """The birth of an answer to this view."""
        return self._walk.birth if self._walk else ""

    @property
    def stable_blocks(self) -> int:
        """The number of leading blocks that later messages cannot change: only the last span still grows."""
        return max(0, len(self._spans) - 1)

    def update(self, view: RenderableView) -> int:
        """Bring the blocks up to date. Return the number of unchanged leading blocks."""
        items = view.items
        if view.prefix_seq != self._epoch or len(items) < self._count:
            self._clear()
            self._epoch = view.prefix_seq
        if self._walk is None:
            self._walk = ThinkingWalk(view, binds_prefix=self._binds_prefix, takes_blocks=self._takes_blocks)
        firm = self.stable_blocks
        for item in items[self._count :] if self._count else items:
            self._take(item.message, self._walk.step(item))
        self._count = len(items)
        if self._images is not None and self._images.update_omitted():
            firm = 0  # images that were laid out before are texts now
        old = self.blocks[firm:]
        old_blocks = {block.key: block for block in old}
        del self.blocks[firm:]
        for place in range(firm, len(self._spans)):
            before = self._spans[place - 1].slots if place else ()
            self.blocks.append(self._sealed(self._spans[place], before, old_blocks))
        if not self._spans or self._spans[-1].side == "assistant":
            before = self._spans[-1].slots if self._spans else ()
            self.blocks.append(self._sealed(_Span("user", [], LAST_USER_FILLER), before, old_blocks))
        same = firm
        for was, now in zip(old, self.blocks[firm:], strict=False):
            if was is not now:
                break
            same += 1
        return same

    # --- taking items in ------------------------------------------------------------------------------------------

    def _take(self, message: Message, signed: bool) -> None:
        opaque = signed and message.origin == self._rules.family
        if message.role != "assistant":
            self._early.clear()
            if message.role == "user" or _has_sendable_part(message, Result):
                limits = self._rules.image_limits
                if limits is not None and _has_image(message.parts):
                    self._images = self._images or ImageSelection(limits)
                    self._images.add(message)
                self._put("user", _Entry(message, opaque))
            return
        block = compaction_of(message)
        is_block_sent = block is not None and opaque
        if not is_block_sent:  # another model can only read what it says
            message = read_out_compaction(message)
        if not _has_sendable_part(message, Call) and not is_block_sent:
            if self._rules.standalone_thinking and opaque and message.parts:
                self._early.append(_Entry(message, opaque))
            return
        if not self._spans and not is_block_sent:  # a block comes first
            self._spans.append(_Span("user", [], FIRST_USER_FILLER))
        for entry in self._early:
            self._put("assistant", entry)
        self._early.clear()
        self._put("assistant", _Entry(message, opaque, self._slots(message)))

    def _slots(self, message: Message) -> tuple[CallSlot, ...]:
        calls = [part for part in message.parts if type(part) is Call]
        self.has_calls = self.has_calls or bool(calls)
        shape = self._rules.identifiers
        return tuple(
            CallSlot(
                call.id,
                assign_call_id(call.id, message.id, index, shape, self._used),
                encode_tool_name(call.name, shape),
            )
            for index, call in enumerate(calls)
        )

    def _put(self, side: BlockSide, entry: _Entry) -> None:
        if not self._spans or self._spans[-1].side != side:
            self._spans.append(_Span(side, []))
        self._spans[-1].entries.append(entry)

    # --- laying out -----------------------------------------------------------------------------------------------

    def _sealed(
        self, span: _Span, before: tuple[CallSlot, ...], old_blocks: dict[tuple[object, ...], LayoutBlock]
    ) -> LayoutBlock:
        out = self._images.omitted if self._images is not None else {}
        own = tuple((id(each.message), each.opaque, each.slots, out.get(id(each.message))) for each in span.entries)
        key = (span.filler, before if span.side == "user" else None, own)
        if old_blocks and key in old_blocks:  # hashing a key takes as long as laying out a small block
            return old_blocks[key]
        sources = tuple(entry.message for entry in span.entries)
        if span.side == "assistant":
            parts = tuple(part for entry in span.entries for part in self._assistant_parts(entry))
            return LayoutBlock(span.side, key, sources, parts)
        instructions: tuple[str, ...] = ()
        user_messages = sources
        if self._takes_instructions:
            user_messages = tuple(message for message in sources if not is_instruction(message))
            instructions = tuple(text_of(message) for message in sources if is_instruction(message))
        parts, answers = self._lay_user(user_messages, before)
        if not parts and not answers:
            parts = (Text(span.filler or LAST_USER_FILLER),)
        return LayoutBlock(span.side, key, sources, parts, answers, instructions)

    def _assistant_parts(self, entry: _Entry) -> list[Part]:
        rules, slots = self._rules, iter(entry.slots)
        parts: list[Part] = []
        for part in entry.message.parts:
            if type(part) is Call:
                slot = next(slots)
                parts.append(
                    Call(slot.id, slot.name, normalize_arguments(part.arguments), part.opaque if entry.opaque else "")
                )
            elif isinstance(part, Text):
                opaque = part.opaque if entry.opaque else ""
                if opaque or not is_blank(part.text):
                    parts.append(part if part.opaque == opaque else Text(part.text))
            elif isinstance(part, Thinking):
                if entry.opaque and part.block:
                    parts.append(part)
                elif rules.plain_thinking and not is_blank(part.text):
                    parts.append(Thinking(part.text))
            elif isinstance(part, Image):
                parts.append(part if rules.assistant_images and _has_pixels(part) else Text(IMAGE_PLACEHOLDER))
        return _join_text_parts(parts) if rules.joins_texts else parts

    def _lay_user(
        self, sources: tuple[Message, ...], before: tuple[CallSlot, ...]
    ) -> tuple[tuple[Part, ...], tuple[CallAnswer, ...]]:
        """Order the answers like the calls. Ids may repeat in a group: the first answer to an id belongs to the
        first call with it.
        """
        user_parts: list[Part] = []
        answers: list[CallAnswer | None] = [None] * len(before)
        images_by_call: list[list[Part]] = [[] for _ in before]
        for source in sources:
            message = self._images.replace_omitted(source) if self._images is not None else source
            texts: list[Part] = []
            for part in message.parts:
                if type(part) is Result:
                    place = next((i for i, s in enumerate(before) if s.call_id == part.call_id and not answers[i]), -1)
                    if place < 0:
                        texts += _add_label(_RESULT_LABEL, self._user_parts(part.parts) or [Text(NO_OUTPUT_TEXT)])
                    else:
                        answers[place] = self._answer(before[place], part, place, images_by_call[place])
            texts += self._user_parts(
                part for part in message.parts if type(part) is not Result and isinstance(part, Text | Image)
            )
            if message.role == "system":
                texts = _add_label(_SYSTEM_LABEL, texts)
            elif not texts and message.role == "user":
                texts = [Text(EMPTY_MESSAGE_TEXT)]
            if self._rules.joins_texts:
                texts = _join_text_parts(
                    texts, _SEPARATOR_CHARS if message.role == "user" else _LABELED_SEPARATOR_CHARS
                )
            user_parts += texts
        settled = tuple(
            answer or CallAnswer(slot.id, slot.name, (Text(NO_RESULT_TEXT),))
            for slot, answer in zip(before, answers, strict=True)
        )
        return (*(part for parts in images_by_call for part in parts), *user_parts), settled

    def _user_parts(self, parts: Iterable[Text | Image]) -> list[Part]:
        parts_to_send: list[Part] = []
        for part in parts:
            if isinstance(part, Text):
                if not is_blank(part.text):
                    parts_to_send.append(Text(part.text) if part.opaque else part)
            else:
                parts_to_send.append(part if self._rules.user_images and _has_pixels(part) else Text(IMAGE_PLACEHOLDER))
        return parts_to_send

    def _answer(self, slot: CallSlot, result: Result, place: int, images: list[Part]) -> CallAnswer:
        """Move the images of results after the results, under the number of their call, where a result may hold
        none.
        """
        parts = self._user_parts(result.parts)
        content: list[Text | Image] = []
        for part in parts:
            if isinstance(part, Text) or (isinstance(part, Image) and self._rules.result_images):
                content.append(part)
            else:
                images.append(part)
        if images:
            images.insert(0, Text(f"img {place + 1}"))
        if not content:
            content.append(Text("(img)" if images else NO_OUTPUT_TEXT))
        if self._rules.joins_texts:
            content = [
                Text(
                    join_within_spare([part.text for part in content if isinstance(part, Text)], RESULT_SEPARATOR_CHARS)
                )
            ]
        return CallAnswer(slot.id, slot.name, tuple(content), result.error)


def _has_image(parts: Iterable[Part]) -> bool:
    return any(isinstance(part, Image) or (isinstance(part, Result) and _has_image(part.parts)) for part in parts)


def _has_sendable_part(message: Message, other: type[Call] | type[Result]) -> bool:
    """Return whether a message holds anything that can be sent by itself; thinking cannot."""
    for part in message.parts:
        kind = type(part)
        if kind is other or kind is Image or (isinstance(part, Text) and not is_blank(part.text)):
            return True
    return False


def _has_pixels(image: Image) -> bool:
    return bool(image.data or image.url)


def _add_label(label: str, parts: list[Part]) -> list[Part]:
    if not parts:
        return parts
    first = parts[0]
    if isinstance(first, Text):
        return [Text(label + first.text), *parts[1:]]
    return [Text(label.strip()), *parts]


def _join_text_parts(parts: list[Part], spare: int = _SEPARATOR_CHARS) -> list[Part]:
    """Join all texts in the place of the first. Texts between images keep their places, because they describe them."""
    if len(parts) < 2:
        return parts
    texts = [part.text for part in parts if isinstance(part, Text)]
    if len(texts) < 2 or any(isinstance(part, Image) for part in parts):
        return parts
    first = next(place for place, part in enumerate(parts) if isinstance(part, Text))
    rest = [part for part in parts[first:] if not isinstance(part, Text)]
    return [*parts[:first], Text(join_within_spare(texts, spare)), *rest]
