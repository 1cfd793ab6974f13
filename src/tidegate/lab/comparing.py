"""Many policies over many recordings: what is to be measured, and measuring it with all cores."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tidegate.lab.cache import Cache
from tidegate.lab.cells import Cell, Measured, Terms, measure
from tidegate.lab.contenders import Contender
from tidegate.lab.figures import Figures
from tidegate.lab.rivals import leave
from tidegate.lab.sources import Skipped, Source
from tidegate.lab.stats import LEAST_GROUPS
from tidegate.lab.workers import spread

LONGER: Final = 1.5
"""Sessions longer than so many windows are measured: shorter ones hardly need managing."""


class Plan(msgspec.Struct, frozen=True):
    """What is compared. Everything that decides a figure is in here or in the files it names."""

    sources: tuple[Source, ...]
    contenders: tuple[Contender, ...]
    windows: tuple[int, ...]
    terms: Terms
    longer: float = LONGER

    def long_enough(self, window: int) -> list[Source]:
        return [source for source in self.sources if source.tokens > self.longer * window]

    def left_out(self, window: int) -> list[Skipped]:
        why = f"not longer than {self.longer:g} windows"
        return [Skipped(source.name, why) for source in self.sources if source.tokens <= self.longer * window]

    def cells(self) -> list[Cell]:
        """Recording by recording, the longest first; the cells of a peer together, for starting it takes seconds."""
        found: list[Cell] = []
        for of_peers in (False, True):
            some = [each for each in self.contenders if bool(each.peer) == of_peers]
            ordered = sorted(self.sources, key=lambda source: -source.tokens)
            pairs = [(each, source) for source in ordered for each in some]
            if of_peers:
                pairs.sort(key=lambda pair: some.index(pair[0]))
            for contender, source in pairs:
                for window in self.windows:
                    if source.tokens > self.longer * window:
                        found.append(Cell(source, contender, window, self.terms))
        return found


class Results(msgspec.Struct):
    """Figures by window, contender and recording. `waiting` counts cells that were not measured before a stop."""

    plan: Plan
    figures: dict[int, dict[str, dict[str, Figures]]] = {}
    failures: list[Measured] = []
    waiting: int = 0
    from_cache: int = 0

    def of(self, window: int, contender: str) -> dict[str, Figures]:
        """By the key of the recording, in the order of the plan: which of them was measured first says nothing."""
        there = self.figures.get(window, {}).get(contender, {})
        return {source.key: there[source.key] for source in self.plan.sources if source.key in there}

    def failed(self) -> list[Measured]:
        """In the order of the plan, too."""
        cells = self.plan.cells() if self.failures else []
        return sorted(self.failures, key=lambda each: cells.index(each.cell))

    def take(self, measured: Measured) -> None:
        cell = measured.cell
        self.waiting -= 1
        if measured.figures is None:
            self.failures.append(measured)
        else:
            by_contender = self.figures.setdefault(cell.window, {})
            by_contender.setdefault(cell.contender.key, {})[cell.source.key] = measured.figures


def known(plan: Plan) -> Results:
    """What the cache has already."""
    results = Results(plan)
    kept = Cache(Path(plan.terms.cache))
    cells = plan.cells()
    results.waiting = len(cells)
    for cell in cells:
        figures = kept.get(cell.key, Figures)
        if figures is not None:
            results.take(Measured(cell, figures))
            results.from_cache += 1
    return results


def missing(results: Results) -> list[Cell]:
    there = results.figures
    cells = results.plan.cells()
    return [cell for cell in cells if cell.source.key not in there.get(cell.window, {}).get(cell.contender.key, {})]


def compare(plan: Plan, jobs: int, step: Callable[[int], None] = lambda _: None) -> Results:
    """All cells of the plan. KeyboardInterrupt leaves what is done in the cache, for the next run to begin with."""
    results = known(plan)
    step(results.from_cache)
    try:
        with closing(spread(measure, missing(results), jobs)) as stream:
            for measured in stream:
                results.take(measured)
                step(1)
    finally:
        leave()
    return results


class Groups(NamedTuple):
    """Which group each session is drawn with. Groups are projects, or sessions if there are too few projects."""

    by_session: dict[str, str]
    kind: str


def groups_of(sources: Sequence[Source], least: int = LEAST_GROUPS) -> Groups:
    if len({source.project for source in sources}) >= least:
        return Groups({source.key: source.project for source in sources}, "projects")
    kind = "sessions" if len(sources) >= least else ""
    return Groups({source.key: source.key for source in sources}, kind)
