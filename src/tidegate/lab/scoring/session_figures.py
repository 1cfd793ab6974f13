"""What was found of one recording under one policy in one window: counts, and the measures made of them."""

import msgspec


class KeptShare(msgspec.Struct):
    """So many of so many; nothing if there was nothing to count."""

    kept: int = 0
    of: int = 0

    @property
    def value(self) -> float | None:
        return self.kept / self.of if self.of else None


class LostItem(msgspec.Struct, frozen=True):
    """Something far back that a request needed and did not hold. `recoverable` is None where nobody could recall."""

    at: int
    measure: str
    what: str
    seen: int
    recoverable: bool | None


class UnmanagedCost(msgspec.Struct, frozen=True):
    """The same session with its whole history in every request: by the rule of thumb, in tokens, in dollars."""

    cost: float
    tokens: float
    dollars: float


class SessionFigures(msgspec.Struct):
    """Sums of one cell, in tokens where nothing else is said. `beyond`: requests whose history is over the window.

    Fidelity is judged at those only: before the history is longer than the window everything is there anyway.
    """

    tokens: float
    asks: int
    requests: int = 0
    beyond: int = 0
    failed: int = 0
    failed_beyond: int = 0
    over: int = 0
    mended: int = 0
    invalid: int = 0
    invalid_elsewhere: int = 0
    broken_chat: int = 0
    broken_turns: int = 0
    rules: dict[str, int] = {}
    held: float = 0.0
    largest: float = 0.0
    sent: float = 0.0
    sent_later: float = 0.0
    from_cache: float = 0.0
    rewritten: float = 0.0
    edited: int = 0
    later: int = 0
    all_references: KeptShare = msgspec.field(default_factory=KeptShare)
    far: KeptShare = msgspec.field(default_factory=KeptShare)
    far_strict: KeptShare = msgspec.field(default_factory=KeptShare)
    all_anchors: KeptShare = msgspec.field(default_factory=KeptShare)
    anchors: KeptShare = msgspec.field(default_factory=KeptShare)
    anchors_strict: KeptShare = msgspec.field(default_factory=KeptShare)
    recoverable: KeptShare = msgspec.field(default_factory=KeptShare)
    user_words: float = 0.0
    newest_whole: int = 0
    summaries: int = 0
    pause: float = 0.0
    dollars: float = 0.0
    expired: int = 0
    unmanaged: UnmanagedCost = UnmanagedCost(0.0, 0.0, 0.0)
    at: list[int] = []
    sizes: list[int | None] = []
    read: list[int | None] = []
    edited_at: list[int] = []
    lost: list[LostItem] = []
    lost_more: int = 0
    error: str = ""

    def values(self) -> dict[str, float | None]:
        """Every measure of `measures.MEASURES` by its key; None where the session gives no answer."""
        beyond, made = self.beyond, self.beyond - self.failed_beyond
        full = self.unmanaged
        return {
            "held": self.held / made if made else None,
            "largest": self.largest,
            "references": self.all_references.value,
            "far": self.far.value,
            "far_strict": self.far_strict.value,
            "anchors": self.anchors.value,
            "anchors_strict": self.anchors_strict.value,
            "user": self.user_words / beyond if beyond else None,
            "newest": self.newest_whole / beyond if beyond else None,
            "recoverable": self.recoverable.value,
            "over": float(self.over),
            "failed": float(self.failed),
            "mended": float(self.mended),
            "invalid": float(self.invalid + self.invalid_elsewhere),
            "broken": float(self.broken_chat + self.broken_turns),
            "cached": self.from_cache / self.sent_later if self.sent_later else None,
            "rewritten": self.rewritten,
            "edits": 100.0 * self.edited / self.later if self.later else None,
            "cost": _ratio(self.reference_cost, full.cost),
            "sent": _ratio(self.sent, full.tokens),
            "billed": self.dollars,
            "billed_ratio": _ratio(self.dollars, full.dollars),
            "summaries": float(self.summaries),
            "pause": self.pause,
        }

    @property
    def reference_cost(self) -> float:
        return self.from_cache * CACHE_READ_FACTOR + (self.sent - self.from_cache) * CACHE_WRITE_FACTOR


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


CACHE_READ_FACTOR, CACHE_WRITE_FACTOR = 0.1, 1.25
"""The rule of thumb of what a token costs: read from the cache, or not, in tokens of plain input."""
