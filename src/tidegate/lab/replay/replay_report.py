"""What a replay found, in sums: reports of sessions add up to the report of all of them."""

from collections import Counter as Tally
from collections.abc import Iterable, Sequence

import msgspec

from tidegate.lab.scoring.request_size import RequestSize


class ReplayReport(msgspec.Struct):
    """Of one session, or of several put together.

    `invalid` counts requests by dialect, `rules` the broken rules in them; `refused` are the calls of sessions whose
    fixed part leaves no room, and `refusal` says so with the numbers. The newest user message is `whole`, `clipped`
    with a notice because it alone is larger than the room, or `lost`, which must not happen. `rereads` are tool calls
    that fetched again what had left and could have been recalled. `told` are the edits of one session in words, where
    they were asked for.
    """

    name: str
    sessions: int = 1
    calls: int = 0
    refused: int = 0
    refusal: str = ""
    requests: int = 0
    tokens: float = 0.0
    most: float = 0.0
    over: int = 0
    extensions: int = 0
    extended: float = 0.0
    newest_whole: int = 0
    newest_clipped: int = 0
    newest_lost: int = 0
    tool_calls: int = 0
    rereads: int = 0
    told: list[str] = msgspec.field(default_factory=list)
    edits: Tally[str] = msgspec.field(default_factory=Tally)
    invalid: Tally[str] = msgspec.field(default_factory=Tally)
    rules: Tally[str] = msgspec.field(default_factory=Tally)
    exceptions: Tally[str] = msgspec.field(default_factory=Tally)

    @property
    def mean(self) -> float:
        return self.tokens / self.requests if self.requests else 0.0

    @property
    def prefix(self) -> float | None:
        """Mean share of a request that is the unchanged beginning of it; the first request has none before it."""
        return self.extended / self.extensions if self.extensions else None

    def weighed(self, size: RequestSize) -> None:
        if self.requests:
            self.extensions += 1
            self.extended += size.shared / size.tokens if size.tokens else 1.0
        self.requests += 1
        self.tokens += size.tokens
        self.most = max(self.most, size.tokens)
        self.over += size.over

    def count_invalid(self, wire: str, rules: Sequence[str]) -> None:
        self.invalid[wire] += 1
        self.rules.update(f"{wire} {rule}" for rule in dict.fromkeys(rules))

    def add(self, other: "ReplayReport") -> None:
        self.sessions += other.sessions
        self.calls += other.calls
        self.refused += other.refused
        self.requests += other.requests
        self.tokens += other.tokens
        self.most = max(self.most, other.most)
        self.over += other.over
        self.extensions += other.extensions
        self.extended += other.extended
        self.newest_whole += other.newest_whole
        self.newest_clipped += other.newest_clipped
        self.newest_lost += other.newest_lost
        self.tool_calls += other.tool_calls
        self.rereads += other.rereads
        for mine, theirs in zip(self._tallies(), other._tallies(), strict=True):
            mine.update(theirs)

    def _tallies(self) -> tuple[Tally[str], ...]:
        return self.edits, self.invalid, self.rules, self.exceptions


def sum_reports(reports: Iterable[ReplayReport]) -> ReplayReport:
    whole = ReplayReport("total", sessions=0)
    for report in reports:
        whole.add(report)
    return whole
