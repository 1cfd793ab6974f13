"""What the answers of upstreams say about their windows: refusals that name a window, and requests that were accepted.

A refusal is only a claim. Its text may repeat the request, and an upstream behind a router may have a smaller window
than the others. So a claimed window is believed

- if the refused request is larger than it, by the own count;
- if no larger request was accepted, or if the refusal also names the size of the request that it refuses, as the own
  count has it. In the second case the window is used for this conversation, but not for others.

Everything is known for one client token, upstream and model, and is forgotten after an hour: a small window is refused
again soon, and a large one must not be given up for longer. The class does no I/O and reads no clock; the caller stores
the text that `encode` returns, and passes stored texts, also those of other processes, to `merge`.
"""

from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from tidegate.models.errors.classification import ProviderError
from tidegate.models.errors.numbers import MAX_WINDOW_TOKENS, MIN_WINDOW_TOKENS

EVIDENCE_SECONDS: Final = 3600.0
_COUNT_MARGIN: Final = 1.5
"""The provider may count this many times as many tokens as the own counter."""
_SAME_SIZE_MARGIN: Final = 1.25
_STORED_GROWTH: Final = 1.125
"""Accepted sizes are stored when they have grown by this factor, and every quarter of their lifetime."""
_MAX_MODELS: Final = 64
"""For each token: of more, those that were not heard of for longest are forgotten."""
_MAX_NAME_CHARS: Final = 200


class WindowKey(NamedTuple):
    """`scope` identifies the client's token; it is empty without tokens."""

    scope: str
    upstream: str
    model: str


class OwnCount(NamedTuple):
    """The own count of a refused request, in tokens, and the output that it asks for."""

    prompt: int
    output: int = 0


class _Record(msgspec.Struct):
    scope: str
    upstream: str
    model: str
    window: int = 0
    learned_at: float = 0.0
    accepted: int = 0
    accepted_at: float = 0.0

    @property
    def key(self) -> WindowKey:
        return WindowKey(self.scope, self.upstream, self.model)

    @property
    def newest(self) -> float:
        return max(self.learned_at, self.accepted_at)

    @property
    def is_sound(self) -> bool:
        return MIN_WINDOW_TOKENS <= (self.window or MIN_WINDOW_TOKENS) <= MAX_WINDOW_TOKENS


class WindowEvidence:
    def __init__(self, text: str | None = None) -> None:
        self._records: dict[WindowKey, _Record] = {}
        self._stored: dict[WindowKey, tuple[int, float]] = {}
        self.merge(text)

    def merge(self, text: str | None) -> None:
        """Add what is stored. Text of another form says nothing: older versions stored one window for all clients."""
        try:
            stored = msgspec.json.decode(text or "[]", type=list[_Record])
        except (msgspec.MsgspecError, UnicodeError):
            return
        for each in stored:
            if each.is_sound:
                self._merge_record(each)
        self._forget_oldest()

    def encode(self) -> str:
        """The text to store, for the next process and for others."""
        self._stored = {key: (each.accepted, each.accepted_at) for key, each in self._records.items()}
        return msgspec.json.encode([self._records[key] for key in sorted(self._records)]).decode()

    def find_window(self, key: WindowKey, now: float) -> int | None:
        """The window to plan with; None if no refusal named one, or a larger request was accepted since."""
        record = self._records.get(key)
        if record is None or not record.window or not _is_recent(record.learned_at, now):
            return None
        return record.window if record.window >= self._largest_accepted(key, now) else None

    def take_refusal(
        self, key: WindowKey, error: ProviderError, count: OwnCount, now: float, ceiling: int | None = None
    ) -> int | None:
        """Take note of a refusal. Return the window that it names if that is believed; the conversation may use it.

        `ceiling` is the window to assume if the refusal names none: somewhat less than what was refused.
        """
        window = error.window or ceiling
        if window is None or error.kind not in ("overflow", "output_cap"):
            return None
        if window > (count.prompt + count.output) * _COUNT_MARGIN:
            return None
        if window < self._largest_accepted(key, now):
            return window if _names_own_size(error, count) else None
        record = self._find_or_add(key)
        if record is not None:
            record.window, record.learned_at = window, now
            self._forget_oldest()
        return window

    def take_accepted(self, key: WindowKey, tokens: int, now: float) -> bool:
        """Take note of a request that was answered, with the input tokens that the upstream reported.

        Return whether to store it: seldom, because every request calls this.
        """
        if tokens <= 0 or tokens <= self._largest_accepted(key, now):
            return False
        record = self._find_or_add(key)
        if record is None:
            return False
        disproves = bool(record.window) and tokens > record.window >= record.accepted
        record.accepted, record.accepted_at = tokens, now
        self._forget_oldest()
        known, stored_at = self._stored.get(key, (0, 0.0))
        return disproves or tokens > known * _STORED_GROWTH or not _is_recent(stored_at, now, EVIDENCE_SECONDS / 4)

    def _largest_accepted(self, key: WindowKey, now: float) -> int:
        record = self._records.get(key)
        return record.accepted if record is not None and _is_recent(record.accepted_at, now) else 0

    def _find_or_add(self, key: WindowKey) -> _Record | None:
        """The record to change; None for a name that is too long to be one."""
        if max(map(len, key)) > _MAX_NAME_CHARS:
            return None
        return self._records.setdefault(key, _Record(*key))

    def _merge_record(self, other: _Record) -> None:
        record = self._find_or_add(other.key)
        if record is None:
            return
        if other.learned_at > record.learned_at:
            record.window, record.learned_at = other.window, other.learned_at
        later = other.accepted_at - record.accepted_at
        if later > EVIDENCE_SECONDS or (other.accepted > record.accepted and later > -EVIDENCE_SECONDS):
            record.accepted, record.accepted_at = other.accepted, other.accepted_at
        self._stored[other.key] = other.accepted, other.accepted_at

    def _forget_oldest(self) -> None:
        by_scope: dict[str, list[_Record]] = {}
        for record in self._records.values():
            by_scope.setdefault(record.scope, []).append(record)
        for records in by_scope.values():
            for each in sorted(records, key=attrgetter("newest"))[:-_MAX_MODELS]:
                del self._records[each.key]
                self._stored.pop(each.key, None)


def _is_recent(time: float, now: float, seconds: float = EVIDENCE_SECONDS) -> bool:
    return abs(now - time) < seconds  # a clock may be set back


def _names_own_size(error: ProviderError, count: OwnCount) -> bool:
    """Whether the refusal says how large the request is: text that was written before the request cannot know it."""
    named = [(error.prompt_tokens, count.prompt), (error.requested_total, count.prompt + count.output)]
    return any(
        said is not None and own / _SAME_SIZE_MARGIN <= said <= own * _SAME_SIZE_MARGIN for said, own in named if own
    )
