"""Group commit: appends of many threads that share one transaction and one fsync.

Who finds nobody at work leads: it takes along all that wait and commits them at once. Those who come meanwhile wait,
and the first of them leads next. One that is alone leads itself, and waits for nobody.
"""

from collections.abc import Callable, Sequence
from threading import Lock, get_ident
from time import monotonic

from tidegate.core.errors import NotKept
from tidegate.store.sqlite_rows import cut, mark_of

PATIENCE = 0.5
"""How long to wait for those who shared the last commit, as a part of what that took."""
MOST_PATIENCE = 0.01
"""And in seconds at most."""

Outcome = int | Exception
"""A head, or why there is none."""


class Fate:
    """What became of a batch, in order. `known` is set in one step, when it is committed: whatever interrupts that,
    all of them are written and know it, or none."""

    __slots__ = ("known", "outcomes")

    def __init__(self, outcomes: list[Outcome], *, known: bool) -> None:
        self.outcomes = outcomes
        self.known = known


class Pending:
    """An append on its way, with all that can be made ready before its turn. `gone`: nobody waits for it any more."""

    __slots__ = ("after", "chunks", "fate", "gone", "now", "place", "records", "session", "thread", "turn")
    thread: int
    turn: Lock
    """Of one who waits in a `Line`. Let go by whoever settles this, or makes it the next to lead."""

    def __init__(self, session: str, after: int, records: list[bytes], now: float) -> None:
        self.session = session
        self.after = after
        self.records = records
        self.chunks = cut(after + 1, records, mark_of(now))
        self.now = now
        self.fate: Fate | None = None
        self.place = 0
        self.gone = False

    def share(self, fate: Fate, place: int) -> None:
        self.fate, self.place = fate, place

    def fail(self, fault: Exception) -> None:
        self.share(Fate([fault], known=True), 0)

    @property
    def outcome(self) -> Outcome | None:
        fate = self.fate
        return fate.outcomes[self.place] if fate is not None and fate.known else None


Commit = Callable[[Sequence[Pending]], None]
"""Gives each an outcome. If it raises, it was interrupted, and those without an outcome were not written."""


class Line:
    def __init__(self, commit: Commit, *, most_patience: float = MOST_PATIENCE) -> None:
        self._commit = commit
        self._most_patience = most_patience
        self._gate = Lock()
        self._waiting: list[Pending] = []
        self._taken: list[Pending] = []
        self.leader: Pending | None = None
        self._expected = 0
        self._all_here = Lock()
        self._all_here.acquire()  # let go by the last one that is expected
        self._begun = self._ended = 0.0

    def through(self, mine: Pending) -> None:
        """Returns when `mine` has its outcome. Interrupted, it leaves the line, and the others go on."""
        mine.thread, mine.turn = get_ident(), Lock()
        mine.turn.acquire()
        try:
            if not self._leads(mine):
                mine.turn.acquire()
                if mine.outcome is not None:
                    return
            if self._expected > 1 and len(self._waiting) < self._expected:
                self._gather()
            with self._gate:
                self._taken, self._waiting = self._waiting, []
            self._begun = monotonic()
            self._commit(self._taken)
        finally:
            mine.gone = True
            if self.leader is mine or mine.outcome is None:
                self._leave(mine)

    def _leads(self, mine: Pending) -> bool:
        with self._gate:
            if self.leader is not None:
                self._hand_on()
            leader = self.leader
            if leader is not None and leader.thread == mine.thread:
                # A signal's handler, in the middle of an append: waiting for it would be for ever.
                raise NotKept("This thread is in the middle of another append.", "Try again when that is done.")
            self._waiting.append(mine)
            if leader is None:
                self.leader = mine
            elif len(self._waiting) >= self._expected and self._all_here.locked():
                self._all_here.release()
            return leader is None

    def _gather(self) -> None:
        """Those who were just told are likely to come again at once. Without patience the first of them would go
        alone, and all others wait for it: two commits where one would do."""
        patience = min(PATIENCE * (self._ended - self._begun), self._most_patience)
        left = self._ended + patience - monotonic()
        if left > 0:
            self._all_here.acquire(timeout=left)

    def _leave(self, mine: Pending) -> None:
        """However often this is interrupted: nobody may be left waiting for one who is gone."""
        interruption: BaseException | None = None
        for _ in range(100):
            try:
                with self._gate:
                    if mine in self._waiting:
                        self._waiting.remove(mine)
                    self._hand_on()
                break
            except BaseException as again:  # noqa: BLE001 - it is raised below
                interruption = again
        if interruption is not None:
            raise interruption

    def _hand_on(self) -> None:
        """If who led is gone: tell those who came along, and let the next one lead. May be cut short and done again."""
        if self.leader is None or not self.leader.gone:
            return
        self._expected = len(self._taken) + len(self._waiting)
        if self._expected == 1 and self.leader in self._taken and self.leader.outcome is not None:
            self._taken = []  # it was alone, and nobody has come since
            self.leader = None
            return
        self._ended = monotonic()
        self._all_here.acquire(blocking=False)
        for each in self._taken:
            if each.outcome is not None and not each.gone and each.turn.locked():
                each.turn.release()
        waiting = [each for each in self._taken if each.outcome is None and not each.gone] + self._waiting
        following = waiting[0] if waiting else None
        self.leader, self._taken, self._waiting = following, [], waiting
        if following is not None:
            following.turn.release()
