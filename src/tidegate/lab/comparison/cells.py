"""Measure one cell of a comparison: one recording under one contender in one window."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.text.secrets import SecretMask
from tidegate.lab.comparison.contenders import Contender, load_contender_policy
from tidegate.lab.comparison.result_cache import CURRENT_VERSIONS, ResultCache, ResultVersions, hash_values
from tidegate.lab.comparison.session_sources import (
    SessionSource,
    create_recording_mask,
    create_unit_counter,
    load_recording,
)
from tidegate.lab.importers.recording import Recording
from tidegate.lab.peer_process import close_peer_process, get_peer_process
from tidegate.lab.replay.recorded_notes import AnswerNote, NoteFolder
from tidegate.lab.replay.recording_file import list_recorded_lines
from tidegate.lab.replay.replay_report import ReplayReport
from tidegate.lab.replay.session_replay import MAIN_DIALECT, ReplaySetup, replay_session
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.request_scorer import RequestScorer, ScoringTask, compute_unmanaged_cost
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.scoring.signals import SessionSignals, extract_signals
from tidegate.lab.worker_pool import StopCheck
from tidegate.models.pricing import TokenRates

_VALIDATED_DIALECTS = (MAIN_DIALECT, "anthropic")
"""The dialects that every request of ours is rendered and validated in."""


class ComparisonTerms(msgspec.Struct, frozen=True):
    """The values that all cells of a run share. The list of common names is in the cache, under its key.

    `notes_folder` has recorded state notes; its contents have the hash `notes_hash`.
    """

    count: str
    common_names_key: str
    rates: tuple[TokenRates, ...]
    cache_folder: str
    versions: ResultVersions = CURRENT_VERSIONS
    notes_folder: str = ""
    notes_hash: str = ""


class ComparisonCell(msgspec.Struct, frozen=True):
    source: SessionSource
    contender: Contender
    window: int
    terms: ComparisonTerms

    @property
    def cache_key(self) -> str:
        """The hash of everything that decides the figures. The path and the name of the recording do not."""
        terms, contender = self.terms, self.contender
        runs = terms.versions.peers if contender.peer_name else terms.versions.engine
        return hash_values(
            "cell", self.source.content_hash, contender.fingerprint, self.window,
            terms.count, terms.common_names_key, terms.rates, terms.versions.scoring, runs,
            *([terms.notes_hash] if terms.notes_hash and not contender.peer_name else []),
        )  # fmt: skip


class CellResult(msgspec.Struct, frozen=True):
    """A cell's figures; with an error there are none."""

    cell: ComparisonCell
    figures: SessionFigures | None
    error: str = ""


def store_common_names(names: frozenset[str], cache: Path) -> str:
    """Store the list in the cache and return its key. The workers of all cells read it from there."""
    listed = sorted(names)
    key = hash_values("common", listed)
    ResultCache(cache).put(key, listed)
    return key


@lru_cache(maxsize=2)
def load_common_names(key: str, cache: str) -> frozenset[str]:
    return frozenset(ResultCache(Path(cache)).get(key, list[str]) or ())


@lru_cache(maxsize=4)
def _load_signals(content: str, path: str, place: int, count: str, cache: str) -> SessionSignals:
    """Extract the signals of a recording, or take them from the cache. They are the same for every policy."""
    results_cache = ResultCache(Path(cache))
    key = hash_values("signals", content, count, CURRENT_VERSIONS.scoring)
    signals = results_cache.get(key, SessionSignals)
    if signals is None:
        signals = extract_signals(load_recording(path, place).messages, create_unit_counter(count))
        if not _contain_secrets(
            signals, _load_mask(path, place)
        ):  # they cannot be masked: they are looked for as they are
            results_cache.put(key, signals)
    return signals


@lru_cache(maxsize=4)
def _load_mask(path: str, place: int) -> SecretMask:
    return create_recording_mask(load_recording(path, place))


def _contain_secrets(signals: SessionSignals, mask: SecretMask) -> bool:
    """Return whether the signals hold a secret, also one that is split between two pieces of a text."""
    texts = msgspec.json.encode(signals).decode(), "".join(signals.pieces)
    return any(mask(text) != text for text in texts)


def measure_cell(cell: ComparisonCell, should_stop: StopCheck) -> CellResult:
    """Return the figures of a cell, from the cache if they are there. A failure is returned and not cached."""
    results_cache = ResultCache(Path(cell.terms.cache_folder))
    figures = results_cache.get(cell.cache_key, SessionFigures)
    if figures is None:
        try:
            figures = _mask_losses(_score_cell(cell, should_stop), cell.source)
        except TidegateError as error:
            close_peer_process()
            return CellResult(cell, None, str(error.args[0]))
        except Exception as error:  # noqa: BLE001 - one cell is never in the way of a thousand others
            close_peer_process()
            return CellResult(cell, None, f"{type(error).__name__}: {error}"[:300])
        results_cache.put(cell.cache_key, figures)
        # As every later run reads them: a whole number comes back as the float it was declared to be.
        figures = results_cache.get(cell.cache_key, SessionFigures) or figures
    return CellResult(cell, figures)


def _mask_losses(figures: SessionFigures, source: SessionSource) -> SessionFigures:
    """Mask secrets in the lost items, which are only shown."""
    if figures.lost_items:
        mask = _load_mask(source.path, source.index_in_file)
        figures.lost_items = [msgspec.structs.replace(each, what=mask(each.what)) for each in figures.lost_items]
    return figures


def _score_cell(cell: ComparisonCell, stopped: StopCheck) -> SessionFigures:
    source, terms = cell.source, cell.terms
    recording = load_recording(source.path, source.index_in_file)
    times = [time or None for time in recording.times]
    task = ScoringTask(
        _load_signals(source.content_hash, source.path, source.index_in_file, terms.count, terms.cache_folder),
        recording.messages,
        create_unit_counter(terms.count),
        cell.window,
        load_common_names(terms.common_names_key, terms.cache_folder),
    )
    gauge = RequestScorer(task, InputBill(terms.rates, times))
    replayed = run_contender(cell, recording, gauge.add_request, stopped)
    figures = gauge.finish()
    if replayed is not None:
        figures.invalid_in_other_dialects = replayed.invalid_by_dialect.total()
        figures.used_notes, figures.missing_notes = replayed.used_notes, len(replayed.missing_notes)
        figures.unusable_notes = replayed.unusable_notes
    figures.unmanaged = compute_unmanaged_cost(task, InputBill(terms.rates, times))
    return figures


def run_contender(
    cell: ComparisonCell,
    recording: Recording,
    sink: Callable[[ContenderRequest], None],
    stopped: StopCheck,
    answer_note: AnswerNote | None = None,
) -> ReplayReport | None:
    """Hand each request to the sink. Return the report of the replay; None for a peer.

    State notes are those that are recorded for the cell, unless `answer_note` gives others.
    """
    contender = cell.contender
    if contender.peer_name:
        get_peer_process(contender.peer_name).play(recording.messages, cell.window, sink, stopped)
        return None
    policy = load_contender_policy(contender)
    lines = list_recorded_lines(recording)
    setup = ReplaySetup(policy, cell.window, cell.terms.count, _VALIDATED_DIALECTS, rates=cell.terms.rates)
    if answer_note is None and cell.terms.notes_folder:
        answer_note = NoteFolder(Path(cell.terms.notes_folder)).answer
    return replay_session(cell.source.name, lines, setup, on_request=sink, should_stop=stopped, answer_note=answer_note)
