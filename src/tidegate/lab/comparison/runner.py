"""Run a comparison: many contenders over many recordings, on all cores."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.lab.comparison.cells import (
    CellResult,
    ComparisonCell,
    ComparisonTerms,
    load_common_names,
    measure_cell,
    store_common_names,
)
from tidegate.lab.comparison.confidence_intervals import MIN_GROUPS
from tidegate.lab.comparison.contenders import Contender, make_policy_contender
from tidegate.lab.comparison.report.findings import ResampledUnit
from tidegate.lab.comparison.result_cache import CURRENT_VERSIONS, ResultCache
from tidegate.lab.comparison.session_sources import SHIPPED_SUFFIX, SessionSource, SkippedSession, load_recording
from tidegate.lab.peer_process import close_peer_process
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.worker_pool import Engine, ProcessEngine, StopCheck
from tidegate.presets import preset_names

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


# --- machines without our files --------------------------------------------------------------------------------------
# The cells of a recording travel together with its content. A worker writes what it was sent into a folder of its own
# and measures there as this machine would. It refuses to measure with another version of the engine or the measures,
# so results are the same to the last digit everywhere.


class ShippedCells(msgspec.Struct, frozen=True):
    """All cells of one recording that are to be measured, and everything that is needed for that.

    `policies` has the text of each policy file by its name here.
    """

    cells: tuple[ComparisonCell, ...]
    recording: bytes
    common_names: tuple[str, ...]
    policies: dict[str, str]


class MeasuredFigures(msgspec.Struct, frozen=True):
    """The outcome of each cell in order: its figures as MessagePack, or an error."""

    figures: tuple[bytes, ...]
    errors: tuple[str, ...]


def measure_remotely(engine: Engine, cells: Sequence[ComparisonCell]) -> Generator[CellResult, None, None]:
    """Yield the result of each cell. Figures are put into the cache here, as a cell that is measured here does."""
    by_recording: dict[tuple[str, int], list[ComparisonCell]] = {}
    for cell in cells:
        by_recording.setdefault((cell.source.path, cell.source.index_in_file), []).append(cell)
    tasks = [msgspec.msgpack.encode(_ship(some)) for some in by_recording.values()]
    for reply in engine.run(measure_shipped_cells, tasks):
        yield from _unpack(reply)


def _ship(cells: Sequence[ComparisonCell]) -> ShippedCells:
    source, terms = cells[0].source, cells[0].terms
    files = {cell.contender.policy_name for cell in cells} - set(preset_names())
    return ShippedCells(
        tuple(cells),
        msgspec.msgpack.encode(load_recording(source.path, source.index_in_file)),
        tuple(sorted(load_common_names(terms.common_names_key, terms.cache_folder))),
        {name: Path(name).read_text() for name in files},
    )


def _unpack(reply: bytes) -> Generator[CellResult, None, None]:
    shipped, answer = msgspec.msgpack.decode(reply, type=tuple[tuple[ComparisonCell, ...], MeasuredFigures])
    for cell, data, error in zip(shipped, answer.figures, answer.errors, strict=True):
        if error:
            yield CellResult(cell, None, error)
            continue
        cache = ResultCache(Path(cell.terms.cache_folder))
        figures = msgspec.msgpack.decode(data, type=SessionFigures)
        cache.put(cell.cache_key, figures)
        yield CellResult(cell, cache.get(cell.cache_key, SessionFigures) or figures)


def measure_shipped_cells(task: bytes, should_stop: StopCheck) -> bytes:
    """Measure the cells of one recording on a worker."""
    shipped = msgspec.msgpack.decode(task, type=ShippedCells)
    with TemporaryDirectory(prefix="tidegate-lab-") as folder:
        results = [_measure(cell, shipped, Path(folder), should_stop) for cell in shipped.cells]
    figures = tuple(msgspec.msgpack.encode(each.figures) for each in results)
    errors = tuple(each.error for each in results)
    return msgspec.msgpack.encode((shipped.cells, MeasuredFigures(figures, errors)))


def _measure(cell: ComparisonCell, shipped: ShippedCells, folder: Path, should_stop: StopCheck) -> CellResult:
    recording = folder / f"{cell.source.content_hash}{SHIPPED_SUFFIX}"
    if not recording.exists():
        recording.write_bytes(shipped.recording)
    try:
        contender = _receive_contender(cell.contender, shipped.policies, folder)
    except TidegateError as error:
        return CellResult(cell, None, str(error.args[0]))
    if contender.fingerprint != cell.contender.fingerprint or cell.terms.versions != CURRENT_VERSIONS:
        return CellResult(cell, None, "the worker has another version of tidegate: install the same on all machines")
    store_common_names(frozenset(shipped.common_names), folder)
    here = msgspec.structs.replace(
        cell,
        source=msgspec.structs.replace(cell.source, path=str(recording), index_in_file=0),
        contender=contender,
        terms=msgspec.structs.replace(cell.terms, cache_folder=str(folder)),
    )
    return measure_cell(here, should_stop)


def _receive_contender(contender: Contender, policies: dict[str, str], folder: Path) -> Contender:
    name = contender.policy_name
    if name in policies:
        file = folder / f"{len(policies)}-{Path(name).name}"
        file.write_text(policies[name])
        name = str(file)
    return make_policy_contender(name, contender.settings, contender.key)
