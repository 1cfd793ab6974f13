"""What `lab` and `tune` share: their resolved options, the sessions they read, and the plan of the measurement."""

import argparse
import json
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from tidegate.cli.options import count_cores
from tidegate.core.errors import BadInput
from tidegate.core.text.plural import format_count
from tidegate.lab.comparison.cells import ComparisonTerms, store_common_names
from tidegate.lab.comparison.contenders import Contender
from tidegate.lab.comparison.report.findings import Findings
from tidegate.lab.comparison.runner import DEFAULT_MIN_WINDOWS, ComparisonPlan
from tidegate.lab.comparison.session_sources import (
    COMMON_NAME_PROJECTS,
    SourceScan,
    find_common_names,
    merge_scans,
    scan_sources,
)
from tidegate.lab.importers import find_local_sessions
from tidegate.lab.importers.registry import find_recording_files
from tidegate.lab.importers.remote_files import fetch_recordings
from tidegate.models.catalog import find_model
from tidegate.models.pricing import TokenRates
from tidegate.presets import preset_names
from tidegate.terminal.output import show_progress

DEFAULT_PRICE_MODEL = "claude-sonnet-5"


class LabOptions(msgspec.Struct, frozen=True):
    """The options of a comparison. One that was not given comes from a stored result, else it has its default."""

    windows: tuple[int, ...]
    policies: tuple[str, ...]
    count: str
    min_windows: float
    price_model: str
    common_names_file: str
    curve_spec: str = ""


def resolve_lab_options(
    options: argparse.Namespace,
    windows: Sequence[int],
    policies: Sequence[str],
    findings: Findings | None = None,
    curve_spec: str = "",
) -> LabOptions:
    setup = findings.setup if findings else None
    windows = windows or (setup.windows if setup else ())
    if not windows:
        raise BadInput("No window is given.", "Add --window N, the tokens a request may have.")
    return LabOptions(
        windows=tuple(dict.fromkeys(windows)),
        policies=tuple(dict.fromkeys(policies or (setup.policies if setup else preset_names()))),
        count=options.count or (setup.count if setup else "chars/4"),
        min_windows=options.longer or (setup.longer if setup else DEFAULT_MIN_WINDOWS),
        price_model=options.model or (setup.prices if setup else DEFAULT_PRICE_MODEL),
        common_names_file=options.common or (setup.common_names if setup else ""),
        curve_spec=curve_spec or (setup.curve if setup else ""),
    )


def read_session_sources(options: argparse.Namespace, count: str) -> SourceScan:
    paths = fetch_recordings(options.paths, locate_lab_cache(options.cache))
    files = find_recording_files(paths) if paths else []
    for agent in options.mine:
        files += find_local_sessions(agent)
    if not files:
        raise BadInput("No session is given.", "Name files or folders, or --mine AGENT for your own.")
    jobs, cache = options.jobs or count_cores(), locate_lab_cache(options.cache)
    scans: list[SourceScan] = []
    with show_progress("reading", len(files)) as step, closing(scan_sources(files, cache, count, jobs)) as stream:
        for each in stream:
            scans.append(each)
            step(1)
    scan = merge_scans(scans)
    if not scan.sources:
        first = scan.skipped[0]
        raise BadInput(first.reason, first.remedy or "Give files that hold sessions.")
    return scan


def make_comparison_plan(
    options: argparse.Namespace, scan: SourceScan, contenders: Sequence[Contender], lab_options: LabOptions
) -> ComparisonPlan:
    cache = locate_lab_cache(options.cache)
    common = (
        _read_common_names(Path(lab_options.common_names_file))
        if lab_options.common_names_file
        else find_common_names(scan.sources)
    )
    terms = ComparisonTerms(
        lab_options.count, store_common_names(common, cache), _find_rates(lab_options.price_model), str(cache)
    )
    # The names are no longer needed, and every cell would send them to its process.
    sources = (msgspec.structs.replace(source, argument_names=()) for source in scan.sources)
    return ComparisonPlan(tuple(sources), tuple(contenders), lab_options.windows, terms, lab_options.min_windows)


def _read_common_names(path: Path) -> frozenset[str]:
    remedy = 'Give a JSON list of names, such as ["README.md", "main.go"].'
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).", remedy) from None
    except ValueError as error:
        raise BadInput(f"{path}: broken JSON ({error}).", remedy) from None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise BadInput(f"{path}: not a list of names.", remedy)
    return frozenset(value)


def _find_rates(model: str) -> tuple[TokenRates, ...]:
    info = find_model(model)
    if info is None or not info.prices:
        raise BadInput(
            f"The prices of {model!r} are not known.", "Name a model of the catalog, such as claude-sonnet-5."
        )
    return info.prices


def locate_lab_cache(folder: str) -> Path:
    if folder:
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tidegate" / "lab"


def list_data_notes(lab_options: LabOptions, scan: SourceScan, plan: ComparisonPlan) -> list[str]:
    with_times = sum(source.has_times for source in plan.sources)
    notes = []
    if not with_times:
        notes.append("The recordings have no times: nothing expires from the provider's cache.")
    elif with_times < len(plan.sources):
        without = len(plan.sources) - with_times
        notes.append(f"{without} of {len(plan.sources)} recordings have no times: for them no cache entry expires.")
    notes.append("Summaries are written by the deterministic summarizer; what a model would cost for them is billed.")
    if not lab_options.common_names_file and len({source.project for source in plan.sources}) < COMMON_NAME_PROJECTS:
        notes.append(f"Fewer than {COMMON_NAME_PROJECTS} projects: no name could be found to be common, so all count.")
    elif not lab_options.common_names_file:
        notes.append(f"Names that the calls of {COMMON_NAME_PROJECTS} projects or more use do not count as references.")
    mended = sum(bool(source.repairs) for source in scan.sources)
    if mended:
        notes.append(f"{format_count(mended, 'recording')} had to be repaired; the JSON report says how.")
    if scan.skipped:
        notes.append(f"{format_count(len(scan.skipped), 'recording')} skipped.")
    return notes
