"""Messages that are lists of blocks, as most frameworks have them.

A framework says in a subclass of `BlockFormat` how one of its blocks is read and written. Reading a message, copying it
with edits and making a new one are the same for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from tidegate.core.messages import TOOL_RESULT, Call, Image, Message, Part, Result, Role, Text, text_of
from tidegate.integrations.host_messages import MessagePiece, PartEdit
from tidegate.wire.splicing.message_form import join_result_text

HostObject = TypeVar("HostObject")


class BlockFormat(ABC, Generic[HostObject]):
    """A `MessageFormat` for messages that consist of blocks: texts, images, thinking, calls and results.

    A result that is a message of its own is the only block of that message.
    """

    results_are_user = False

    @abstractmethod
    def list_blocks(self, host: HostObject) -> tuple[Role, Sequence[Any]]:
        """The role of a message and its blocks. A block that is a result may have any role."""

    @abstractmethod
    def copy_with(self, host: HostObject, blocks: list[Any]) -> HostObject:
        """A copy of the message with these blocks. The original must not be changed."""

    @abstractmethod
    def create(self, role: Role, blocks: list[Any]) -> HostObject:
        """A new message with these blocks: a text, or results if the role is "tool"."""

    @abstractmethod
    def read_block(self, block: Any) -> Part:
        """The part of the engine for a block."""

    @abstractmethod
    def write_text(self, text: str, old: Any) -> Any:
        """A block with this text. `old` is the block in whose place it is sent, or None."""

    @abstractmethod
    def write_call(self, call: Call, old: Any) -> Any:
        """The block of a call with other arguments."""

    @abstractmethod
    def write_result(self, result: Result, text: str, media: list[Any], old: Any) -> Any:
        """A block with the text of this result. `old` is the block in whose place it is sent, or None.

        `media` are the blocks of the original result that are not texts and are still in the edited one.
        """

    def list_result_blocks(self, old: Any) -> Iterable[Any]:
        """The blocks in the block of a result."""
        return ()

    def read_result_block(self, block: Any) -> Part:
        """The part for one of these."""
        return self.read_block(block)

    def read(self, host: HostObject) -> list[MessagePiece]:
        """The messages in an object of the framework: one for each result, and one for everything else."""
        role, blocks = self.list_blocks(host)
        pieces: list[MessagePiece] = []
        parts: list[Part] = []
        places: list[int] = []
        for place, block in enumerate(blocks):
            part = self.read_block(block)
            if isinstance(part, Result):
                pieces.append(MessagePiece(Message("tool", (part,), kind=TOOL_RESULT), (place,)))
            else:
                parts.append(part)
                places.append(place)
        if parts or role == "assistant":
            pieces.append(MessagePiece(Message(role, tuple(parts)), tuple(places)))
        return pieces

    def rewrite(self, host: HostObject, edits: Sequence[PartEdit]) -> HostObject:
        _, blocks = self.list_blocks(host)
        new_blocks = [self._write(blocks, edit) for edit in edits]
        return cast(HostObject, new_blocks[0]) if blocks and blocks[0] is host else self.copy_with(host, new_blocks)

    def _write(self, blocks: Sequence[Any], edit: PartEdit) -> Any:
        old, part = blocks[edit.place] if edit.place >= 0 else None, edit.part
        if part is None:
            return old
        if isinstance(part, Result):
            return self._write_result(part, old)
        if isinstance(part, Call):
            return self.write_call(part, old)
        return self.write_text(part.text if isinstance(part, Text) else "", old)

    def _write_result(self, result: Result, old: Any) -> Any:
        blocks = self.list_result_blocks(old) if old is not None else ()
        read = ((block, self.read_result_block(block)) for block in blocks)
        media = [block for block, part in read if not isinstance(part, Text) and part in result.parts]
        return self.write_result(result, join_result_text(result), media, old)

    def insert(self, message: Message) -> HostObject:
        results = [self._write_result(part, None) for part in message.parts if isinstance(part, Result)]
        texts = [self.write_text(text_of(message), None)] if text_of(message) or not results else []
        role: Role = "tool" if results else "assistant" if message.role == "assistant" else "user"
        return self.create(role, [*results, *texts])


def build_result(call_id: str, parts: Iterable[Part], error: bool = False) -> Result:
    return Result(call_id, tuple(part for part in parts if isinstance(part, Text | Image)), error)
