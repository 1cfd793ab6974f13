"""One recording under one contender in one window, from the file to its figures: what a worker does."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.secrets import Mask
from tidegate.lab.asked import Asked
from tidegate.lab.bill import Bill
from tidegate.lab.cache import MEASURES, RECALL, Cache, code_of, digest_of
from tidegate.lab.contenders import Contender, policy_of
from tidegate.lab.figures import Figures
from tidegate.lab.gauge import Gauge, Task, unmanaged
from tidegate.lab.importers.recording import Recording
from tidegate.lab.replay import MAIN, Setup, replay
from tidegate.lab.rivals import leave, rival
from tidegate.lab.signals import Signals, signals_of
from tidegate.lab.sources import Source, mask_of, recording_at, ruler_of
from tidegate.lab.traces import Line
from tidegate.lab.workers import Stopped
from tidegate.models.prices import Rates

WIRES = (MAIN, "anthropic")
"""The dialects that every request of ours is rendered and validated in."""


class Terms(msgspec.Struct, frozen=True):
    """What all cells of a run share. `common` is where the list of common names stands, `cache` a folder."""

    count: str
    common: str
    rates: tuple[Rates, ...]
    cache: str


class Cell(msgspec.Struct, frozen=True):
    source: Source
    contender: Contender
    window: int
    terms: Terms

    @property
    def key(self) -> str:
        """What decides the figures, and nothing else: neither where a file stands nor what it is called."""
        terms = self.terms
        code = code_of(MEASURES, but=RECALL) if self.contender.peer else code_of(MEASURES)
        return digest_of(
            "cell", self.source.key, self.contender.stamp, self.window, terms.count, terms.common, terms.rates, code,
        )  # fmt: skip


class Measured(msgspec.Struct, frozen=True):
    """A cell's figures; with an error there are none."""

    cell: Cell
    figures: Figures | None
    error: str = ""


def keep_common(names: frozenset[str], cache: Path) -> str:
    """The list is the same for all cells, so it is handed to the workers by its hash."""
    listed = sorted(names)
    key = digest_of("common", listed)
    Cache(cache).put(key, listed)
    return key


@lru_cache(maxsize=2)
def _common(key: str, cache: str) -> frozenset[str]:
    return frozenset(Cache(Path(cache)).get(key, list[str]) or ())


@lru_cache(maxsize=4)
def _signals(content: str, path: str, place: int, count: str, cache: str) -> Signals:
    """They are the same for every policy, so they are found once a recording."""
    kept = Cache(Path(cache))
    key = digest_of("signals", content, count, code_of(MEASURES, but=RECALL))
    signals = kept.get(key, Signals)
    if signals is None:
        signals = signals_of(recording_at(path, place).messages, ruler_of(count))
        if not _hold_secrets(signals, _mask(path, place)):  # they cannot be masked: they are looked for as they are
            kept.put(key, signals)
    return signals


@lru_cache(maxsize=4)
def _mask(path: str, place: int) -> Mask:
    return mask_of(recording_at(path, place))


def _hold_secrets(signals: Signals, mask: Mask) -> bool:
    """Also where two pieces of a text have one secret between them."""
    texts = msgspec.json.encode(signals).decode(), "".join(signals.pieces)
    return any(mask(text) != text for text in texts)


def measure(cell: Cell, stopped: Stopped) -> Measured:
    """The figures of a cell, from the cache if they are there. What fails as a whole is said, and not kept."""
    kept = Cache(Path(cell.terms.cache))
    known = kept.get(cell.key, Figures)
    if known is None:
        try:
            known = _masked(_measured(cell, stopped), cell.source)
        except TidegateError as error:
            leave()
            return Measured(cell, None, str(error.args[0]))
        except Exception as error:  # noqa: BLE001 - one cell is never in the way of a thousand others
            leave()
            return Measured(cell, None, f"{type(error).__name__}: {error}"[:300])
        kept.put(cell.key, known)
        # As every later run reads them: a whole number comes back as the float it was declared to be.
        known = kept.get(cell.key, Figures) or known
    return Measured(cell, known)


def _masked(figures: Figures, source: Source) -> Figures:
    """Figures without the secrets in what was lost: it is only shown."""
    if figures.lost:
        mask = _mask(source.path, source.place)
        figures.lost = [msgspec.structs.replace(each, what=mask(each.what)) for each in figures.lost]
    return figures


def _measured(cell: Cell, stopped: Stopped) -> Figures:
    source, terms = cell.source, cell.terms
    recording = recording_at(source.path, source.place)
    times = [time or None for time in recording.times]
    task = Task(
        _signals(source.key, source.path, source.place, terms.count, terms.cache),
        recording.messages,
        ruler_of(terms.count),
        cell.window,
        _common(terms.common, terms.cache),
    )
    gauge = Gauge(task, Bill(terms.rates, times))
    elsewhere = _play(cell, recording, gauge.add, stopped)
    figures = gauge.figures()
    figures.invalid_elsewhere = elsewhere
    figures.unmanaged = unmanaged(task, Bill(terms.rates, times))
    return figures


def _play(cell: Cell, recording: Recording, sink: Callable[[Asked], None], stopped: Stopped) -> int:
    """Hand each request to the sink; returns how many requests another dialect than the main one would refuse."""
    contender = cell.contender
    if contender.peer:
        rival(contender.peer).play(recording.messages, cell.window, sink, stopped)
        return 0
    policy = policy_of(contender)
    typed = recording.typed or [None] * len(recording.messages)
    lines = [Line(number, *each) for number, each in enumerate(zip(recording.messages, typed, strict=True), 1)]
    setup = Setup(policy, cell.window, cell.terms.count, WIRES)
    report = replay(cell.source.name, lines, setup, sink=sink, stopped=stopped)
    return report.invalid.total()
