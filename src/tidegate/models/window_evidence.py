"""What the answers of upstreams say about their windows: refusals that name a window, and requests that were accepted.

A refusal is only a claim. Its text may repeat the request, and an upstream behind a router may have a smaller window
than the others. So a claimed window is believed

- if the refused request is larger than it, by the own count;
- if no larger request was accepted, or if the refusal also names the size of the request that it refuses, as the own
  count has it. In the second case the window is used for this conversation, but not for others.

A refusal that names no window sets a ceiling: a share of the request that was refused, by the own count, and not below
what was accepted. It rises by a quarter every hour, so that a window which has become larger is found again.

If a request was refused with words that are not known, and a much smaller one was accepted, the words are remembered
for this token and upstream: only their hash, because they may repeat the request.

Everything is known for one client token, upstream and model. A window is forgotten after an hour: a small one is
refused again soon, and a large one must not be given up for longer. The class does no I/O and reads no clock; the
caller stores the text that `encode` returns, and passes stored texts, also those of other processes, to `merge`.
"""

import re
from hashlib import blake2b
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
_CEILING_GROWTH: Final = 1.25
_CEILING_SECONDS: Final = 86_400.0
_MAX_HASHED_CHARS: Final = 300
_MAX_WORDS: Final = 32
"""Refusals of one upstream whose words are remembered."""
_MAX_FRUITLESS: Final = 1_000
_UNCOUNTED_SHARE: Final = 0.8
"""Of the own count of an accepted request whose size the upstream does not report."""


class WindowKey(NamedTuple):
    """`scope` identifies the client's token; it is empty without tokens."""

    scope: str
    upstream: str
    model: str


def hash_words(error: ProviderError) -> str:
    """What identifies the words of a refusal, whatever numbers are in it. Nothing can be read from it."""
    words = re.sub(r"\d[\d,._]*", "#", error.words.lower())
    return blake2b(" ".join(words.split())[:_MAX_HASHED_CHARS].encode("utf-8", "replace"), digest_size=8).hexdigest()


class OwnCount(NamedTuple):
    """The own count of a refused request, in tokens, and the output that it asks for."""

    prompt: int
    output: int = 0


def estimate_accepted(reported: int, count: int) -> int:
    """The size of an accepted request, as the upstream reported it; else somewhat less than the own count."""
    return reported or int(count * _UNCOUNTED_SHARE)


class _Record(msgspec.Struct):
    scope: str
    upstream: str
    model: str
    window: int = 0
    learned_at: float = 0.0
    accepted: int = 0
    accepted_at: float = 0.0
    ceiling: int = 0
    ceiling_at: float = 0.0
    words: tuple[str, ...] = ()

    @property
    def key(self) -> WindowKey:
        return WindowKey(self.scope, self.upstream, self.model)

    @property
    def newest(self) -> float:
        return max(self.learned_at, self.accepted_at, self.ceiling_at)

    @property
    def is_sound(self) -> bool:
        return all(not each or MIN_WINDOW_TOKENS <= each <= MAX_WINDOW_TOKENS for each in (self.window, self.ceiling))

    def read_ceiling(self, now: float) -> int | None:
        age = abs(now - self.ceiling_at)
        if not self.ceiling or age >= _CEILING_SECONDS:
            return None
        return int(self.ceiling * _CEILING_GROWTH ** (age // EVIDENCE_SECONDS))


class WindowEvidence:
    def __init__(self, text: str | None = None) -> None:
        self._records: dict[WindowKey, _Record] = {}
        self._stored: dict[WindowKey, tuple[int, float]] = {}
        self._fruitless: dict[tuple[WindowKey, str], None] = {}  # not stored: they count for this process
        self.merge(text)

    def merge(self, text: str | None) -> None:
        """Add what is stored. Text of another form says nothing: older versions stored one window for all clients."""
        try:
            records = msgspec.json.decode(text or "[]", type=list[_Record])
        except (msgspec.MsgspecError, UnicodeError):
            return
        for each in records:
            if each.is_sound:
                self._merge_record(each)
        self._forget_oldest()

    def encode(self) -> str:
        """The text to store, for the next process and for others."""
        self._stored = {key: (each.accepted, each.accepted_at) for key, each in self._records.items()}
        return msgspec.json.encode([self._records[key] for key in sorted(self._records)]).decode()

    def find_window(self, key: WindowKey, now: float) -> int | None:
        """The window to plan with; None if no refusal says anything about it, or a larger request was accepted."""
        record = self._records.get(key)
        if record is None:
            return None
        accepted = self.largest_accepted(key, now)
        window = record.window if _is_recent(record.learned_at, now) and record.window >= accepted else None
        ceiling = record.read_ceiling(now)
        return min((each for each in (window, ceiling and max(ceiling, accepted)) if each), default=None)

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
        if window < self.largest_accepted(key, now):
            return window if _names_own_size(error, count) else None
        record = self._find_or_add(key)
        if record is not None:
            record.window, record.learned_at = window, now
            self._forget_oldest()
        return window

    def take_ceiling(self, key: WindowKey, tokens: int, now: float) -> None:
        """Take note that requests must be smaller than this; one that named no window was refused."""
        record = self._find_or_add(key)
        if record is not None and tokens >= MIN_WINDOW_TOKENS:
            record.ceiling, record.ceiling_at = min(tokens, MAX_WINDOW_TOKENS), now
            self._forget_oldest()

    def take_words(self, key: WindowKey, words: str, now: float) -> None:
        """Remember the words of a refusal, which meant that the request was too long."""
        record = self._find_or_add(key._replace(model=""))
        if record is not None and words not in record.words:
            record.words = (*record.words, words)[-_MAX_WORDS:]
            record.learned_at = now
            self._forget_oldest()

    def knows_words(self, key: WindowKey, words: str) -> bool:
        record = self._records.get(key._replace(model=""))
        return record is not None and words in record.words

    def is_fruitless(self, key: WindowKey, words: str) -> bool:
        """Whether a smaller request was refused after these words as well."""
        return (key, words) in self._fruitless

    def note_fruitless(self, key: WindowKey, words: str) -> None:
        """Take note that a smaller request was refused after these words as well."""
        self._fruitless[key, words] = None
        while len(self._fruitless) > _MAX_FRUITLESS:
            del self._fruitless[next(iter(self._fruitless))]

    def take_accepted(self, key: WindowKey, tokens: int, now: float) -> bool:
        """Take note of a request that was answered, with the input tokens that the upstream reported.

        Return whether to store it: seldom, because every request calls this.
        """
        if tokens <= 0 or tokens <= self.largest_accepted(key, now):
            return False
        record = self._find_or_add(key)
        if record is None:
            return False
        disproves = bool(record.window) and tokens > record.window >= record.accepted
        record.accepted, record.accepted_at = tokens, now
        self._forget_oldest()
        old_tokens, stored_at = self._stored.get(key, (0, 0.0))
        return disproves or tokens > old_tokens * _STORED_GROWTH or not _is_recent(stored_at, now, EVIDENCE_SECONDS / 4)

    def largest_accepted(self, key: WindowKey, now: float) -> int:
        """The tokens of the largest request that was accepted in the last hour."""
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
        if other.ceiling_at > record.ceiling_at:
            record.ceiling, record.ceiling_at = other.ceiling, other.ceiling_at
        record.words = tuple(dict.fromkeys((*record.words, *other.words)))[-_MAX_WORDS:]
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
    pairs = [(error.prompt_tokens, count.prompt), (error.requested_total, count.prompt + count.output)]
    return any(
        number is not None and own / _SAME_SIZE_MARGIN <= number <= own * _SAME_SIZE_MARGIN
        for number, own in pairs
        if own
    )
