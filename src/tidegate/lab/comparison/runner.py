"""Run a comparison: many contenders over many recordings, on all cores."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tidegate.lab.comparison.cells import CellResult, ComparisonCell, ComparisonTerms, measure_cell
from tidegate.lab.comparison.confidence_intervals import MIN_GROUPS
from tidegate.lab.comparison.contenders import Contender
from tidegate.lab.comparison.remote_cells import measure_remotely
from tidegate.lab.comparison.report.findings import ResampledUnit
from tidegate.lab.comparison.result_cache import ResultCache
from tidegate.lab.comparison.session_sources import SessionSource, SkippedSession
from tidegate.lab.peer_process import close_peer_process
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.worker_pool import Engine, ProcessEngine

DEFAULT_MIN_WINDOWS: Final = 1.5
"""Sessions longer than so many windows are measured: shorter ones hardly need managing."""


class ComparisonPlan(msgspec.Struct, frozen=True):
    """Everything that decides the figures of a comparison, or the files that hold it."""

    sources: tuple[SessionSource, ...]
    contenders: tuple[Contender, ...]
    windows: tuple[int, ...]
    terms: ComparisonTerms
    min_windows: float = DEFAULT_MIN_WINDOWS

    def sources_for(self, window: int) -> list[SessionSource]:
        return [source for source in self.sources if source.tokens > self.min_windows * window]

    def skipped_for(self, window: int) -> list[SkippedSession]:
        why = f"not longer than {self.min_windows:g} windows"
        return [
            SkippedSession(source.name, why) for source in self.sources if source.tokens <= self.min_windows * window
        ]

    def list_cells(self) -> list[ComparisonCell]:
        """Return the cells, the longest recordings first. The cells of a peer are adjacent: starting one takes
        seconds.
        """
        cells: list[ComparisonCell] = []
        for of_peers in (False, True):
            some = [each for each in self.contenders if bool(each.peer_name) == of_peers]
            ordered = sorted(self.sources, key=lambda source: -source.tokens)
            pairs = [(each, source) for source in ordered for each in some]
            if of_peers:
                pairs.sort(key=lambda pair: some.index(pair[0]))
            for contender, source in pairs:
                for window in self.windows:
                    if source.tokens > self.min_windows * window:
                        cells.append(ComparisonCell(source, contender, window, self.terms))
        return cells


class ComparisonResults(msgspec.Struct):
    """Figures by window, contender and recording. `unmeasured_cells` counts cells left by an interrupted run."""

    plan: ComparisonPlan
    figures: dict[int, dict[str, dict[str, SessionFigures]]] = {}
    failures: list[CellResult] = []
    unmeasured_cells: int = 0
    cached_cells: int = 0

    def figures_of(self, window: int, contender: str) -> dict[str, SessionFigures]:
        """Return the figures by content hash, in the order of the plan."""
        there = self.figures.get(window, {}).get(contender, {})
        return {
            source.content_hash: there[source.content_hash]
            for source in self.plan.sources
            if source.content_hash in there
        }

    def list_failed_cells(self) -> list[CellResult]:
        """Return the failed cells in the order of the plan."""
        cells = self.plan.list_cells() if self.failures else []
        return sorted(self.failures, key=lambda each: cells.index(each.cell))

    def add_result(self, result: CellResult) -> None:
        cell = result.cell
        self.unmeasured_cells -= 1
        if result.figures is None:
            self.failures.append(result)
        else:
            by_contender = self.figures.setdefault(cell.window, {})
            by_contender.setdefault(cell.contender.key, {})[cell.source.content_hash] = result.figures


def load_cached_results(plan: ComparisonPlan) -> ComparisonResults:
    """Return the results that are in the cache."""
    results = ComparisonResults(plan)
    cache = ResultCache(Path(plan.terms.cache_folder))
    cells = plan.list_cells()
    results.unmeasured_cells = len(cells)
    for cell in cells:
        figures = cache.get(cell.cache_key, SessionFigures)
        if figures is not None:
            results.add_result(CellResult(cell, figures))
            results.cached_cells += 1
    return results


def _list_missing_cells(results: ComparisonResults) -> list[ComparisonCell]:
    there = results.figures
    cells = results.plan.list_cells()
    return [
        cell for cell in cells if cell.source.content_hash not in there.get(cell.window, {}).get(cell.contender.key, {})
    ]


def run_comparison(
    plan: ComparisonPlan, engine: Engine, on_progress: Callable[[int], None] = lambda _: None
) -> ComparisonResults:
    """Measure all cells of the plan. After KeyboardInterrupt the finished cells are in the cache.

    The cells of peers are measured here, whatever the engine: only this machine has their environments.
    """
    results = load_cached_results(plan)
    on_progress(results.cached_cells)
    missing = _list_missing_cells(results)
    own = [cell for cell in missing if not cell.contender.peer_name]
    try:
        if engine.is_remote:
            with closing(measure_remotely(engine, own)) as stream:
                for result in stream:
                    results.add_result(result)
                    on_progress(1)
            missing, engine = [cell for cell in missing if cell.contender.peer_name], ProcessEngine(1)
        with closing(engine.run(measure_cell, missing)) as stream:
            for result in stream:
                results.add_result(result)
                on_progress(1)
    finally:
        close_peer_process()
    return results


class SessionGroups(NamedTuple):
    """The group that each session is resampled with: its project, or itself if there are too few projects."""

    by_session: dict[str, str]
    kind: ResampledUnit


def group_sessions(sources: Sequence[SessionSource], min_groups: int = MIN_GROUPS) -> SessionGroups:
    if len({source.project for source in sources}) >= min_groups:
        return SessionGroups({source.content_hash: source.project for source in sources}, "projects")
    kind: ResampledUnit = "sessions" if len(sources) >= min_groups else ""
    return SessionGroups({source.content_hash: source.content_hash for source in sources}, kind)
