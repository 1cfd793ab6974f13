"""The figures of one recording under one policy in one window: counts, and the measures computed from them."""

import msgspec

from tidegate.lab.scoring.text_scorer import KeptShare, TextFigures


class LostItem(msgspec.Struct, frozen=True):
    """Something far back that a request needed and lacked. `recoverable` is None for contenders without recall."""

    message_index: int
    measure: str
    what: str
    last_seen_index: int
    recoverable: bool | None


CACHE_READ_FACTOR, CACHE_WRITE_FACTOR = 0.1, 1.25
"""What a token costs that is read from the cache, or written to it, in tokens of plain input."""
_AUTOMATIC_MIN_TOKENS, _AUTOMATIC_STEP = 1_024, 128


class ModelCosts(msgspec.Struct):
    """The input of a session, in tokens at the plain price, under three ways to charge for a cache.

    `warm`: the shared prefix is read from the cache, the rest is written to it, and nothing expires (Anthropic).
    `cold`: the same, but the cache has expired whenever the user spoke. `automatic`: the shared prefix is read in whole
    steps, and writing costs nothing extra (OpenAI).
    """

    warm: float = 0.0
    cold: float = 0.0
    automatic: float = 0.0

    def add_request(self, tokens: float, shared: float, *, after_user: bool) -> None:
        """`after_user`: a user message came since the previous request."""
        self.warm += shared * CACHE_READ_FACTOR + (tokens - shared) * CACHE_WRITE_FACTOR
        read = 0.0 if after_user else shared
        self.cold += read * CACHE_READ_FACTOR + (tokens - read) * CACHE_WRITE_FACTOR
        read = shared // _AUTOMATIC_STEP * _AUTOMATIC_STEP if shared >= _AUTOMATIC_MIN_TOKENS else 0.0
        self.automatic += read * CACHE_READ_FACTOR + tokens - read


class UnmanagedCost(msgspec.Struct, frozen=True):
    """The cost with the whole history in every request: under each way to charge, in tokens, in dollars."""

    costs: ModelCosts
    tokens: float
    dollars: float


class SessionFigures(msgspec.Struct):
    """Sums of one cell, in tokens unless the name says otherwise.

    `note_dollars` are the part of `dollars` for writing state notes; `used_notes` are the keys of recorded ones.
    Fidelity is measured only for requests beyond the window: before that, everything still fits.
    """

    recording_tokens: float
    expected_requests: int
    requests: int = 0
    requests_beyond_window: int = 0
    failed_requests: int = 0
    failed_beyond_window: int = 0
    oversized_requests: int = 0
    guarded_requests: int = 0
    invalid_requests: int = 0
    invalid_in_other_dialects: int = 0
    broken_chat: int = 0
    broken_turns: int = 0
    broken_rules: dict[str, int] = {}
    held_tokens: float = 0.0
    largest_request: float = 0.0
    sent_tokens: float = 0.0
    sent_after_first: float = 0.0
    cached_tokens: float = 0.0
    rewritten_tokens: float = 0.0
    edited_requests: int = 0
    requests_after_first: int = 0
    all_references: KeptShare = msgspec.field(default_factory=KeptShare)
    far_references: KeptShare = msgspec.field(default_factory=KeptShare)
    all_anchors: KeptShare = msgspec.field(default_factory=KeptShare)
    far_anchors: KeptShare = msgspec.field(default_factory=KeptShare)
    recoverable: KeptShare = msgspec.field(default_factory=KeptShare)
    user_word_shares: float = 0.0
    newest_whole: int = 0
    summary_calls: int = 0
    state_notes: int = 0
    note_dollars: float = 0.0
    used_notes: list[str] = []
    missing_notes: int = 0
    unusable_notes: int = 0
    longest_pause: float = 0.0
    texts: TextFigures = msgspec.field(default_factory=TextFigures)
    costs: ModelCosts = msgspec.field(default_factory=ModelCosts)
    dollars: float = 0.0
    expired_requests: int = 0
    unmanaged: UnmanagedCost = UnmanagedCost(ModelCosts(), 0.0, 0.0)
    message_indices: list[int] = []
    request_sizes: list[int | None] = []
    cached_sizes: list[int | None] = []
    edited_indices: list[int] = []
    lost_items: list[LostItem] = []
    unlisted_losses: int = 0
    error: str = ""

    def compute_measures(self) -> dict[str, float | None]:
        """Return every measure of `MEASURES` by its key; None where the session gives no answer."""
        beyond, successes = self.requests_beyond_window, self.requests_beyond_window - self.failed_beyond_window
        full = self.unmanaged
        return self.texts.compute_measures() | {
            "held": self.held_tokens / successes if successes else None,
            "largest": self.largest_request,
            "user": self.user_word_shares / beyond if beyond else None,
            "newest": self.newest_whole / beyond if beyond else None,
            "recoverable": self.recoverable.value,
            "over": float(self.oversized_requests),
            "failed": float(self.failed_requests),
            "mended": float(self.guarded_requests),
            "invalid": float(self.invalid_requests + self.invalid_in_other_dialects),
            "broken": float(self.broken_chat + self.broken_turns),
            "cached": self.cached_tokens / self.sent_after_first if self.sent_after_first else None,
            "rewritten": self.rewritten_tokens,
            "edits": 100.0 * self.edited_requests / self.requests_after_first if self.requests_after_first else None,
            "cost": _ratio(self.costs.warm, full.costs.warm),
            "cost_cold": _ratio(self.costs.cold, full.costs.cold),
            "cost_automatic": _ratio(self.costs.automatic, full.costs.automatic),
            "sent": _ratio(self.sent_tokens, full.tokens),
            "billed": self.dollars,
            "billed_ratio": _ratio(self.dollars, full.dollars),
            "summaries": float(self.summary_calls),
            "pause": self.longest_pause,
        }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
