"""Measure cells on machines that have none of our files: the cells of a recording travel together with its content.

A worker writes what it was sent into a folder of its own and measures there as this machine would. It refuses to
measure with another version of the engine or the measures, so results are the same to the last digit everywhere.
"""

from collections.abc import Generator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.lab.comparison.cells import (
    CellResult,
    ComparisonCell,
    load_common_names,
    measure_cell,
    store_common_names,
)
from tidegate.lab.comparison.contenders import Contender, make_policy_contender
from tidegate.lab.comparison.result_cache import CURRENT_VERSIONS, ResultCache
from tidegate.lab.comparison.session_sources import SHIPPED_SUFFIX, load_recording
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.worker_pool import Engine, StopCheck
from tidegate.presets import preset_names


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
