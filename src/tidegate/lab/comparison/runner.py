"""Many policies over many recordings: what is to be measured, and measuring it with all cores."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tidegate.lab.comparison.cells import CellResult, ComparisonCell, ComparisonTerms, measure_cell
from tidegate.lab.comparison.confidence_intervals import MIN_GROUPS
from tidegate.lab.comparison.contenders import Contender
from tidegate.lab.comparison.result_cache import ResultCache
from tidegate.lab.comparison.session_sources import SessionSource, SkippedSession
from tidegate.lab.peer_process import close_peer_process
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.worker_pool import run_in_processes

DEFAULT_MIN_WINDOWS: Final = 1.5
"""Sessions longer than so many windows are measured: shorter ones hardly need managing."""


class ComparisonPlan(msgspec.Struct, frozen=True):
    """What is compared. Everything that decides a figure is in here or in the files it names."""

    sources: tuple[SessionSource, ...]
    contenders: tuple[Contender, ...]
    windows: tuple[int, ...]
    terms: ComparisonTerms
    longer: float = DEFAULT_MIN_WINDOWS

    def long_enough(self, window: int) -> list[SessionSource]:
        return [source for source in self.sources if source.tokens > self.longer * window]

    def left_out(self, window: int) -> list[SkippedSession]:
        why = f"not longer than {self.longer:g} windows"
        return [SkippedSession(source.name, why) for source in self.sources if source.tokens <= self.longer * window]

    def cells(self) -> list[ComparisonCell]:
        """Recording by recording, the longest first; the cells of a peer together, for starting it takes seconds."""
        found: list[ComparisonCell] = []
        for of_peers in (False, True):
            some = [each for each in self.contenders if bool(each.peer) == of_peers]
            ordered = sorted(self.sources, key=lambda source: -source.tokens)
            pairs = [(each, source) for source in ordered for each in some]
            if of_peers:
                pairs.sort(key=lambda pair: some.index(pair[0]))
            for contender, source in pairs:
                for window in self.windows:
                    if source.tokens > self.longer * window:
                        found.append(ComparisonCell(source, contender, window, self.terms))
        return found


class ComparisonResults(msgspec.Struct):
    """Figures by window, contender and recording. `waiting` counts cells that were not measured before a stop."""

    plan: ComparisonPlan
    figures: dict[int, dict[str, dict[str, SessionFigures]]] = {}
    failures: list[CellResult] = []
    waiting: int = 0
    from_cache: int = 0

    def of(self, window: int, contender: str) -> dict[str, SessionFigures]:
        """By the key of the recording, in the order of the plan: which of them was measured first says nothing."""
        there = self.figures.get(window, {}).get(contender, {})
        return {source.key: there[source.key] for source in self.plan.sources if source.key in there}

    def failed(self) -> list[CellResult]:
        """In the order of the plan, too."""
        cells = self.plan.cells() if self.failures else []
        return sorted(self.failures, key=lambda each: cells.index(each.cell))

    def take(self, measured: CellResult) -> None:
        cell = measured.cell
        self.waiting -= 1
        if measured.figures is None:
            self.failures.append(measured)
        else:
            by_contender = self.figures.setdefault(cell.window, {})
            by_contender.setdefault(cell.contender.key, {})[cell.source.key] = measured.figures


def load_cached_results(plan: ComparisonPlan) -> ComparisonResults:
    """What the cache has already."""
    results = ComparisonResults(plan)
    kept = ResultCache(Path(plan.terms.cache))
    cells = plan.cells()
    results.waiting = len(cells)
    for cell in cells:
        figures = kept.get(cell.key, SessionFigures)
        if figures is not None:
            results.take(CellResult(cell, figures))
            results.from_cache += 1
    return results


def _list_missing_cells(results: ComparisonResults) -> list[ComparisonCell]:
    there = results.figures
    cells = results.plan.cells()
    return [cell for cell in cells if cell.source.key not in there.get(cell.window, {}).get(cell.contender.key, {})]


def run_comparison(plan: ComparisonPlan, jobs: int, step: Callable[[int], None] = lambda _: None) -> ComparisonResults:
    """All cells of the plan. KeyboardInterrupt leaves what is done in the cache, for the next run to begin with."""
    results = load_cached_results(plan)
    step(results.from_cache)
    try:
        with closing(run_in_processes(measure_cell, _list_missing_cells(results), jobs)) as stream:
            for measured in stream:
                results.take(measured)
                step(1)
    finally:
        close_peer_process()
    return results


class SessionGroups(NamedTuple):
    """Which group each session is drawn with. Groups are projects, or sessions if there are too few projects."""

    by_session: dict[str, str]
    kind: str


def group_sessions(sources: Sequence[SessionSource], least: int = MIN_GROUPS) -> SessionGroups:
    if len({source.project for source in sources}) >= least:
        return SessionGroups({source.key: source.project for source in sources}, "projects")
    kind = "sessions" if len(sources) >= least else ""
    return SessionGroups({source.key: source.key for source in sources}, kind)
