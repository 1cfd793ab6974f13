"""The figures of one recording under one policy in one window: counts, and the measures computed from them."""

import msgspec


class KeptShare(msgspec.Struct):
    """A count out of a total."""

    kept: int = 0
    total: int = 0

    @property
    def value(self) -> float | None:
        return self.kept / self.total if self.total else None


class LostItem(msgspec.Struct, frozen=True):
    """Something far back that a request needed and lacked. `recoverable` is None for contenders without recall."""

    message_index: int
    measure: str
    what: str
    last_seen_index: int
    recoverable: bool | None


class UnmanagedCost(msgspec.Struct, frozen=True):
    """The cost with the whole history in every request: by the rule of thumb, in tokens, in dollars."""

    cost: float
    tokens: float
    dollars: float


class SessionFigures(msgspec.Struct):
    """Sums of one cell, in tokens unless the name says otherwise.

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
    far_references_strict: KeptShare = msgspec.field(default_factory=KeptShare)
    all_anchors: KeptShare = msgspec.field(default_factory=KeptShare)
    far_anchors: KeptShare = msgspec.field(default_factory=KeptShare)
    far_anchors_strict: KeptShare = msgspec.field(default_factory=KeptShare)
    recoverable: KeptShare = msgspec.field(default_factory=KeptShare)
    user_word_shares: float = 0.0
    newest_whole: int = 0
    summary_calls: int = 0
    longest_pause: float = 0.0
    dollars: float = 0.0
    expired_requests: int = 0
    unmanaged: UnmanagedCost = UnmanagedCost(0.0, 0.0, 0.0)
    message_indices: list[int] = []
    request_sizes: list[int | None] = []
    cached_sizes: list[int | None] = []
    edited_indices: list[int] = []
    lost_items: list[LostItem] = []
    unlisted_losses: int = 0
    error: str = ""

    def compute_measures(self) -> dict[str, float | None]:
        """Return every measure of `MEASURES` by its key; None where the session gives no answer."""
        beyond, made = self.requests_beyond_window, self.requests_beyond_window - self.failed_beyond_window
        full = self.unmanaged
        return {
            "held": self.held_tokens / made if made else None,
            "largest": self.largest_request,
            "references": self.all_references.value,
            "far": self.far_references.value,
            "far_strict": self.far_references_strict.value,
            "anchors": self.far_anchors.value,
            "anchors_strict": self.far_anchors_strict.value,
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
            "cost": _ratio(self.reference_cost, full.cost),
            "sent": _ratio(self.sent_tokens, full.tokens),
            "billed": self.dollars,
            "billed_ratio": _ratio(self.dollars, full.dollars),
            "summaries": float(self.summary_calls),
            "pause": self.longest_pause,
        }

    @property
    def reference_cost(self) -> float:
        return self.cached_tokens * CACHE_READ_FACTOR + (self.sent_tokens - self.cached_tokens) * CACHE_WRITE_FACTOR


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


CACHE_READ_FACTOR, CACHE_WRITE_FACTOR = 0.1, 1.25
"""The rule of thumb of what a token costs: read from the cache, or not, in tokens of plain input."""
