"""What a provider knows of the thinking that it has signed (AN13), for fake providers and the laws of thinking."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from tidegate.wire.validation.faults import RequestFault

_THINKING_TYPES = ("thinking", "redacted_thinking")
_MODIFIED_TEXT = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
_TAMPERED_TEXT = "Invalid `signature` in `thinking` block"
_UNBOUND_TEXT = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


class IssuedThinking:
    """AN13: what a provider knows of the thinking that it has signed, over all requests of a conversation.

    `issue` records an answer with the request that it answers; `find_faults` checks a later request, and `find_dropped`
    names the blocks that a provider would drop if it is asked to drop instead of refuse. Each block is compared with
    the request that it answered: without `binds_prefix` only the block itself, with it also the system prompt, the
    tools, everything before the block, and the thinking block before it. Cache markers do not count, and thinking may
    be missing at the beginning.
    """

    def __init__(self, *, binds_prefix: bool = True) -> None:
        self._binds_prefix = binds_prefix
        self._issued: dict[str, _IssuedBlock] = {}
        self._compacted: dict[str, tuple[bytes, str]] = {}

    def issue(self, request: Mapping[str, object], content: Sequence[object]) -> None:
        """Record the blocks of an answer to a request."""
        walk = _PrefixWalk(request, self._compacted)
        for _ in walk.blocks(request):
            pass
        for block in content:
            if key := _signature(block):
                self._issued.setdefault(key, _IssuedBlock(block, walk.state, walk.last))
            walk.add("assistant", block)

    def issue_compaction(self, request: Mapping[str, object], signature: str) -> None:
        """Record a block that stands for all messages of a request: what follows it counts as if it followed them.

        https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks
        """
        walk = _PrefixWalk(request, self._compacted)
        for _ in walk.blocks(request):
            pass
        self._compacted[signature] = walk.state, walk.last

    def find_faults(self, request: Mapping[str, object]) -> list[RequestFault]:
        """What the provider would refuse: the first block that is not where it was made."""
        return [fault for fault, _ in self._find_misplaced(request)][:1]

    def find_dropped(self, request: Mapping[str, object]) -> list[str]:
        """The places of the blocks that the provider would drop: the first in a wrong place, and all after it."""
        return [place for _, place in self._find_misplaced(request)]

    def _find_misplaced(self, request: Mapping[str, object]) -> Iterator[tuple[RequestFault, str]]:
        walk = _PrefixWalk(request, self._compacted)
        is_broken = False
        try:
            for where, block in walk.blocks(request):
                key = _signature(block)
                if not key:
                    continue
                issued = self._issued.get(key)
                text = _TAMPERED_TEXT
                if issued is not None and _strip_cache_markers(block) != _strip_cache_markers(issued.block):
                    text = _MODIFIED_TEXT
                elif issued is not None:
                    follows = not self._binds_prefix or (issued.state == walk.state and walk.last in ("", issued.last))
                    text = "" if follows and not is_broken else _UNBOUND_TEXT
                if text:
                    is_broken = True
                    rule = "AN13" if text == _UNBOUND_TEXT else "AN12"
                    yield RequestFault(rule, f"{where}: {text}", where), where
        except RecursionError:
            yield RequestFault("SHAPE", "messages: nested too deeply", "messages"), "messages"


class _IssuedBlock(NamedTuple):
    """A block, a hash of everything before it, and the signature of the thinking before it."""

    block: object
    state: bytes
    last: str


class _PrefixWalk:
    """Walks the blocks of a request. `state` is a hash of those before the current one, without thinking and marks.

    `compacted` has the states of what signed compactions stand for.
    """

    def __init__(self, request: Mapping[str, object], compacted: Mapping[str, tuple[bytes, str]]) -> None:
        self._compacted = compacted
        self.state = sha256(_encode([request.get(name) for name in ("system", "tools")])).digest()
        self.last = ""

    def blocks(self, request: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        messages = request.get("messages")
        for at, message in enumerate(messages if isinstance(messages, list) else []):
            content = message.get("content") if isinstance(message, dict) else None
            role = message.get("role") if isinstance(message, dict) else None
            parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
            for number, block in enumerate(parts):
                yield f"messages.{at}.content.{number}", block
                self.add(role, block)

    def add(self, role: object, block: object) -> None:
        if key := _signature(block):
            self.last = key
        elif (
            isinstance(block, dict) and block.get("type") == "compaction" and block.get("signature") in self._compacted
        ):
            self.state, self.last = self._compacted[block["signature"]]
        else:
            self.state = sha256(self.state + _encode([role, block])).digest()


def drops_misplaced_thinking(request: Mapping[str, object]) -> bool:
    """Whether a request asks the provider to drop thinking in a wrong place instead of refusing the request."""
    thinking = request.get("thinking")
    binding = thinking.get("block_binding") if isinstance(thinking, dict) else None
    return isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"


def _signature(block: object) -> str:
    if not isinstance(block, dict) or block.get("type") not in _THINKING_TYPES:
        return ""
    key = block.get("signature") or block.get("data")
    return key if isinstance(key, str) else ""


def _encode(value: object) -> bytes:
    """A value without cache markers, as bytes. Malformed ones, which other rules refuse, are all the same."""
    try:
        return msgspec.json.encode(_strip_cache_markers(value), order="sorted")
    except (TypeError, ValueError, RecursionError):
        return b"malformed"


def _strip_cache_markers(value: object) -> object:
    if isinstance(value, list):
        return [_strip_cache_markers(one) for one in value]
    if isinstance(value, dict):
        return {key: _strip_cache_markers(one) for key, one in value.items() if key != "cache_control"}
    return value
