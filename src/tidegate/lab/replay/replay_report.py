"""The report of a replay, in sums: reports of sessions add up to the report of all."""

from collections import Counter as Tally
from collections.abc import Iterable, Sequence

import msgspec

from tidegate.lab.scoring.request_size import RequestSize


class ReplayReport(msgspec.Struct):
    """The figures of one session, or of several added up.

    `invalid_by_dialect` counts requests, `broken_rules` the rules broken in them. `refused` counts the calls of
    sessions whose fixed part leaves no room; `refusal` says so with the numbers. The newest user message is whole,
    clipped with a notice because it alone is larger than the room, or lost, which must not happen. `rereads` are tool
    calls that fetched again what could have been recalled. `edit_descriptions` are the edits of one session in words,
    if requested. `used_notes` and `missing_notes` are the keys of recorded state notes; `unusable_notes` are used ones
    that failed their check.
    """

    name: str
    sessions: int = 1
    calls: int = 0
    refused: int = 0
    refusal: str = ""
    requests: int = 0
    tokens: float = 0.0
    max_tokens: float = 0.0
    oversized_requests: int = 0
    later_requests: int = 0
    shared_shares: float = 0.0
    newest_whole: int = 0
    newest_clipped: int = 0
    newest_lost: int = 0
    tool_calls: int = 0
    rereads: int = 0
    used_notes: list[str] = msgspec.field(default_factory=list)
    missing_notes: list[str] = msgspec.field(default_factory=list)
    unusable_notes: int = 0
    edit_descriptions: list[str] = msgspec.field(default_factory=list)
    edits: Tally[str] = msgspec.field(default_factory=Tally)
    invalid_by_dialect: Tally[str] = msgspec.field(default_factory=Tally)
    broken_rules: Tally[str] = msgspec.field(default_factory=Tally)
    exceptions: Tally[str] = msgspec.field(default_factory=Tally)

    @property
    def mean_tokens(self) -> float:
        return self.tokens / self.requests if self.requests else 0.0

    @property
    def mean_shared_share(self) -> float | None:
        """The mean share of a request that is an unchanged prefix of the previous one."""
        return self.shared_shares / self.later_requests if self.later_requests else None

    def add_size(self, size: RequestSize) -> None:
        if self.requests:
            self.later_requests += 1
            self.shared_shares += size.shared_tokens / size.tokens if size.tokens else 1.0
        self.requests += 1
        self.tokens += size.tokens
        self.max_tokens = max(self.max_tokens, size.tokens)
        self.oversized_requests += size.is_oversized

    def count_invalid(self, wire: str, rules: Sequence[str]) -> None:
        self.invalid_by_dialect[wire] += 1
        self.broken_rules.update(f"{wire} {rule}" for rule in dict.fromkeys(rules))

    def add(self, other: "ReplayReport") -> None:
        self.sessions += other.sessions
        self.calls += other.calls
        self.refused += other.refused
        self.requests += other.requests
        self.tokens += other.tokens
        self.max_tokens = max(self.max_tokens, other.max_tokens)
        self.oversized_requests += other.oversized_requests
        self.later_requests += other.later_requests
        self.shared_shares += other.shared_shares
        self.newest_whole += other.newest_whole
        self.newest_clipped += other.newest_clipped
        self.newest_lost += other.newest_lost
        self.tool_calls += other.tool_calls
        self.rereads += other.rereads
        for mine, theirs in zip(self._counters(), other._counters(), strict=True):
            mine.update(theirs)

    def _counters(self) -> tuple[Tally[str], ...]:
        return self.edits, self.invalid_by_dialect, self.broken_rules, self.exceptions


def sum_reports(reports: Iterable[ReplayReport]) -> ReplayReport:
    whole = ReplayReport("total", sessions=0)
    for report in reports:
        whole.add(report)
    return whole
