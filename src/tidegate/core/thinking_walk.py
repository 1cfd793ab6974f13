"""Signed thinking: which of it may be sent with a view. Pure.

Providers sign the thinking of a model, and refuse it in another place than where it was made. Two kinds of signatures
exist. One is bound to its own block: the block may be sent as long as it is unchanged. The other is bound to everything
before it: to the system prompt, the tools, all messages, and the thinking block before it. After an edit of the view,
such blocks after the edited place are left out, in this and all later requests; those before it stay, and those made
after the edit stay as long as nothing changes again.

Each answer with such thinking is logged with its *birth* (`AnswerBirth`): a hash of what was sent before it, and the
message with the thinking before it. So an undo, a fork or a restart cannot bring a block back into a place where it was
not made.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from tidegate.core.message_key import hash_message
from tidegate.core.messages import Call, Message, Text, Thinking, Tool, compaction_of
from tidegate.core.text.lazy_pattern import LazyPattern

_BIRTH = LazyPattern(r"((?:[0-9a-f]{2})+) (\w*)")
BORN_ELSEWHERE = "elsewhere"
"""The birth of an answer to something that was not a view, so that no view has its place."""


class WalkedItem(Protocol):
    """An item of a view. Without a `birth`, `signed` says whether the view before it is as it was."""

    @property
    def message(self) -> Message: ...
    @property
    def signed(self) -> bool: ...
    @property
    def birth(self) -> str: ...


class WalkedView(Protocol):
    """A view. Signed data of messages up to the event `rejected_seq` was refused by the provider."""

    @property
    def system(self) -> str: ...
    @property
    def tools(self) -> tuple[Tool, ...]: ...
    @property
    def rejected_seq(self) -> int: ...


class ThinkingWalk:
    """Walks the messages of a request in order.

    `binds_prefix`: signatures of this model are bound to everything before them. `is_foreign`: something
    besides the messages of a host is sent, so its data whose birth is not known must not be; nor that of messages which
    came after the first edit, the event `first_edit_seq`. `is_open`: nothing of ours was ever sent, so all data is sent
    that the host has. `takes_blocks`: the model reads compactions that were made on demand.
    """

    def __init__(
        self,
        view: WalkedView,
        *,
        binds_prefix: bool,
        is_foreign: bool = False,
        is_open: bool = False,
        first_edit_seq: int = 0,
        takes_blocks: bool = True,
    ) -> None:
        self._rejected_seq = view.rejected_seq
        self._first_edit_seq = first_edit_seq
        self._binds_prefix = binds_prefix
        self._is_foreign = is_foreign
        self._is_open = is_open
        self._takes_blocks = takes_blocks
        self._chain = self._fixed = _hash_fixed_part(view.system, view.tools) if binds_prefix else b""
        self._last = ""

    @property
    def birth(self) -> str:
        """The birth of an answer to the messages so far; empty if it does not matter."""
        return f"{self._chain.hex()} {self._last}" if self._binds_prefix else ""

    def step(self, item: WalkedItem, host_message: Message | None = None) -> bool:
        """Whether the signed data of the next message may be sent. `host_message` is the message as a host has it."""
        message = host_message or item.message
        block = compaction_of(message)
        if block is not None and block.horizon and not self._takes_blocks:
            return False
        if not self._binds_prefix:
            return not self._is_rejected(item.message.id)
        if block is not None:
            is_valid = not self._is_rejected(item.message.id)
            birth = _BIRTH.fullmatch(block.birth) if is_valid else None
            if birth is not None:
                # "The check accepts the swap when the API wrote the summary", if what follows is unchanged:
                # https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks
                self._chain, self._last = bytes.fromhex(birth[1]), birth[2]
            else:  # what is bound to the prefix is bound to this from here on
                self._last = item.message.id
                self._chain = blake2b(self._fixed + hash_message(item.message).encode(), digest_size=12).digest()
            return is_valid
        is_valid = True
        if has_signed_data(message):
            is_valid = not self._is_rejected(item.message.id) and (self._is_open or self._is_in_place(item))
            if is_valid:
                self._last = item.message.id
        self._chain = blake2b(self._chain + hash_message(item.message).encode(), digest_size=12).digest()
        return is_valid

    def _is_rejected(self, ident: str) -> bool:
        if not self._rejected_seq:
            return False
        seq = seq_of_id(f"m{ident[1:].partition('.')[0]}") if ident[:1] == "e" else seq_of_id(ident)
        return seq <= self._rejected_seq

    def _is_in_place(self, item: WalkedItem) -> bool:
        if not item.birth:  # nobody knows what was sent before it, unless the view had never been edited
            is_first = not self._first_edit_seq or seq_of_id(item.message.id) < self._first_edit_seq
            return is_first and item.signed and not self._is_foreign
        prefix, _, previous = item.birth.partition(" ")
        # Thinking may be missing at the beginning, so the first block that is sent need not follow another.
        return prefix == self._chain.hex() and self._last in ("", previous)


def seq_of_id(ident: str) -> int:
    """The number of the event that added a message; 0 for a message of the engine."""
    number = ident[1:]
    return int(number) if ident[:1] == "m" and number.isdecimal() and len(number) < 20 else 0


def has_signed_data(message: Message) -> bool:
    """Whether a message holds data that a provider signed: thinking, or a signature on a text or a call."""
    return any(
        part.block if isinstance(part, Thinking) else isinstance(part, Text | Call) and part.opaque
        for part in message.parts
    )


def _hash_fixed_part(system: str, tools: Sequence[Tool]) -> bytes:
    state = blake2b(system.encode("utf-8", "surrogatepass"), digest_size=12)
    state.update(msgspec.msgpack.encode([(tool.name, tool.description, tool.parameters) for tool in tools]))
    return state.digest()
