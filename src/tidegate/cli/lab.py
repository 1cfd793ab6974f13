"""`tidegate lab`: the command around `lab.comparing`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.cli.replay import count_cores
from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line
from tidegate.disk.atomic_files import write_private
from tidegate.lab.comparison.cells import ComparisonTerms, store_common_names
from tidegate.lab.comparison.contenders import Contender, find_peer_contenders, make_policy_contender
from tidegate.lab.comparison.cost_curve import SettingCurve, parse_curve
from tidegate.lab.comparison.regression_gate import (
    GateResult,
    check_regressions,
    has_comparable_results,
    read_stored_findings,
)
from tidegate.lab.comparison.report.builder import ReportContext, build_findings
from tidegate.lab.comparison.report.findings import Findings, FindingsSetup, SetupRates
from tidegate.lab.comparison.report.text import render_equal_cost_csv, render_findings_csv, render_findings_text
from tidegate.lab.comparison.runner import (
    DEFAULT_MIN_WINDOWS,
    ComparisonPlan,
    ComparisonResults,
    load_cached_results,
    run_comparison,
)
from tidegate.lab.comparison.session_sources import (
    COMMON_NAME_PROJECTS,
    SourceScan,
    find_common_names,
    merge_scans,
    scan_sources,
)
from tidegate.lab.importers import find_local_sessions
from tidegate.lab.importers.registry import find_recording_files
from tidegate.models.catalog import find_model
from tidegate.models.pricing import TokenRates
from tidegate.presets import preset_names
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from tidegate.terminal.output import print_error, show_progress

_DEFAULT_PRICE_MODEL = "claude-sonnet-5"
_encode = msgspec.json.Encoder().encode


class LabOptions(msgspec.Struct, frozen=True):
    """What was asked for. What is not said is taken from a stored result, if there is one, else it is the usual."""

    windows: tuple[int, ...]
    policies: tuple[str, ...]
    count: str
    min_windows: float
    price_model: str
    common_names_file: str
    curve_spec: str = ""


def resolve_lab_options(
    options: argparse.Namespace, windows: Sequence[int], policies: Sequence[str], stored: Findings | None = None
) -> LabOptions:
    setup = stored.setup if stored else None
    windows = windows or (setup.windows if setup else ())
    if not windows:
        raise BadInput("No window is given.", "Add --window N, the tokens a request may have.")
    return LabOptions(
        windows=tuple(dict.fromkeys(windows)),
        policies=tuple(dict.fromkeys(policies or (setup.policies if setup else preset_names()))),
        count=options.count or (setup.count if setup else "chars/4"),
        min_windows=options.longer or (setup.longer if setup else DEFAULT_MIN_WINDOWS),
        price_model=options.model or (setup.prices if setup else _DEFAULT_PRICE_MODEL),
        common_names_file=options.common or (setup.common_names if setup else ""),
        curve_spec=getattr(options, "curve", "") or (setup.curve if setup else ""),
    )


def lab_command(options: argparse.Namespace) -> int:
    stored = read_stored_findings(Path(options.gate)) if options.gate else None
    asked = resolve_lab_options(options, options.window, options.policy, stored)
    who = _collect_contenders(options, asked)
    if stored is not None and not has_comparable_results(stored, asked.windows, [each.key for each in who.all]):
        raise _nothing_to_compare()
    found = read_session_sources(options, asked.count)
    plan = make_comparison_plan(options, found, who.all, asked)
    results, interrupted = _run_comparison(plan, options.jobs or count_cores())
    told = ReportContext(
        title=f"{len(who.contenders)} policies on recorded sessions",
        created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        notes=(*list_data_notes(asked, found, plan), *who.missing),
        setup=_describe_setup(asked, plan),
        baseline=who.baseline,
        skipped=tuple(found.skipped),
        curve=who.curve,
    )
    report = build_findings(results, told)
    _write_reports(options, report)
    for skipped in found.skipped:
        print_error(f"skipped: {skipped.name}: {skipped.reason}", skipped.remedy)
    for failed in results.list_failed_cells():
        cell = failed.cell
        print_error(f"failed: {cell.contender.key} on {cell.source.name}: {failed.error}")
    if interrupted:
        print("tidegate: stopped; what is done is kept, the same command goes on", file=sys.stderr)
        return EXIT_INTERRUPTED
    if stored is not None and _report_gate(check_regressions(stored, report)):
        return EXIT_FAILED
    return EXIT_FAILED if results.failures or any(each.remedy for each in found.skipped) else EXIT_OK


class _ContenderSet(NamedTuple):
    """Who is compared. Points of the curve are measured like the others, and shown apart from them."""

    contenders: list[Contender]
    curve: SettingCurve | None
    baseline: str
    missing: list[str]

    @property
    def all(self) -> list[Contender]:
        return [*self.contenders, *(self.curve.extra_contenders if self.curve else ())]


def _collect_contenders(options: argparse.Namespace, asked: LabOptions) -> _ContenderSet:
    contenders = [make_policy_contender(name) for name in asked.policies]
    missing: list[str] = []
    if options.peers or options.peer:
        others = find_peer_contenders(options.peer)
        contenders += others.contenders
        missing += others.missing_reasons
    curve = parse_curve(asked.curve_spec, contenders) if asked.curve_spec else None
    return _ContenderSet(contenders, curve, _choose_baseline(options.baseline, contenders), missing)


def _choose_baseline(wanted: str, contenders: Sequence[Contender]) -> str:
    keys = [each.key for each in contenders]
    if len(set(keys)) < len(keys):
        raise BadInput("Two policies have the same name.", "Rename one of the files.")
    if wanted and wanted not in keys:
        raise BadInput(f"The baseline {wanted!r} is not among the policies.", f"Use one of {', '.join(keys)}.")
    return wanted or ("default" if "default" in keys else keys[0])


def locate_lab_cache(named: str) -> Path:
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tidegate" / "lab"


def read_session_sources(options: argparse.Namespace, count: str) -> SourceScan:
    paths = [Path(path) for path in options.paths]
    files = find_recording_files(paths) if paths else []
    for agent in options.mine:
        files += find_local_sessions(agent)
    if not files:
        raise BadInput("No session is given.", "Name files or folders, or --mine AGENT for your own.")
    jobs, cache = options.jobs or count_cores(), locate_lab_cache(options.cache)
    seen: list[SourceScan] = []
    with show_progress("reading", len(files)) as step, closing(scan_sources(files, cache, count, jobs)) as stream:
        for each in stream:
            seen.append(each)
            step(1)
    found = merge_scans(seen)
    if not found.sources:
        first = found.skipped[0]
        raise BadInput(first.reason, first.remedy or "Give files that hold sessions.")
    return found


def make_comparison_plan(
    options: argparse.Namespace, found: SourceScan, contenders: Sequence[Contender], asked: LabOptions
) -> ComparisonPlan:
    cache = locate_lab_cache(options.cache)
    common = (
        _read_common_names(Path(asked.common_names_file))
        if asked.common_names_file
        else find_common_names(found.sources)
    )
    terms = ComparisonTerms(asked.count, store_common_names(common, cache), _find_rates(asked.price_model), str(cache))
    # The names have done their work, and every cell would carry them to its process.
    sources = (msgspec.structs.replace(source, argument_names=()) for source in found.sources)
    return ComparisonPlan(tuple(sources), tuple(contenders), asked.windows, terms, asked.min_windows)


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
    known_model = find_model(model)
    if known_model is None or not known_model.prices:
        raise BadInput(
            f"The prices of {model!r} are not known.", "Name a model of the catalog, such as claude-sonnet-5."
        )
    return known_model.prices


def _run_comparison(plan: ComparisonPlan, jobs: int) -> tuple[ComparisonResults, bool]:
    try:
        with show_progress("measuring", len(plan.list_cells())) as step:
            return run_comparison(plan, jobs, step), False
    except KeyboardInterrupt:
        return load_cached_results(plan), True


def _describe_setup(asked: LabOptions, plan: ComparisonPlan) -> FindingsSetup:
    rates = plan.terms.rates[0]
    return FindingsSetup(
        policies=asked.policies,
        windows=asked.windows,
        count=asked.count,
        longer=asked.min_windows,
        prices=asked.price_model,
        rates=SetupRates(rates.input, rates.cached, rates.written, rates.output),
        common_names=asked.common_names_file,
        curve=asked.curve_spec,
    )


def list_data_notes(asked: LabOptions, found: SourceScan, plan: ComparisonPlan) -> list[str]:
    timed = sum(source.has_times for source in plan.sources)
    said = []
    if not timed:
        said.append("The recordings have no times: nothing expires from the provider's cache.")
    elif timed < len(plan.sources):
        without = len(plan.sources) - timed
        said.append(f"{without} of {len(plan.sources)} recordings have no times: for them no cache entry expires.")
    said.append("Summaries are written by the deterministic summariser; what a model would cost for them is billed.")
    if not asked.common_names_file and len({source.project for source in plan.sources}) < COMMON_NAME_PROJECTS:
        said.append(f"Fewer than {COMMON_NAME_PROJECTS} projects: no name could be found to be common, so all count.")
    elif not asked.common_names_file:
        said.append(f"Names that the calls of {COMMON_NAME_PROJECTS} projects or more use do not count as references.")
    mended = sum(bool(source.repairs) for source in found.sources)
    if mended:
        said.append(f"{mended} recordings had to be mended; the JSON says how.")
    if found.skipped:
        said.append(f"{len(found.skipped)} files or sessions were skipped.")
    return said


def _write_reports(options: argparse.Namespace, report: Findings) -> None:
    whole = _encode(report)
    if options.json == "-":
        sys.stdout.buffer.write(whole + b"\n")
    else:
        print(render_findings_text(report))
    sys.stdout.flush()
    if options.json and options.json != "-":
        write_private(Path(options.json), whole)
    if options.csv:
        write_private(Path(options.csv), render_findings_csv(report).encode())
        if report.curve:
            write_private(Path(options.csv).with_suffix(".equal-cost.csv"), render_equal_cost_csv(report).encode())
    if options.html:
        from tidegate.web.lab_page import render_lab_page

        write_private(Path(options.html), render_lab_page(report).encode())
    if options.save:
        write_private(Path(options.save), _encode(report.without_details()))


def _report_gate(gated: GateResult) -> bool:
    """True if the gate is shut."""
    if not gated.compared_pairs:
        raise _nothing_to_compare()
    if gated.unmatched_sessions:
        print(f"gate: {gated.unmatched_sessions} sessions are in one result only and are not compared", file=sys.stderr)
    for worse in gated.regressions:
        print(f"gate: worse: {clean_line(str(worse))}", file=sys.stderr)
    if not gated.regressions:
        print(f"gate: {gated.compared_pairs} policies are no worse than stored", file=sys.stderr)
    return bool(gated.regressions)


def _nothing_to_compare() -> BadInput:
    return BadInput("Nothing to compare: the stored result has none of these policies and windows.", "Save it anew.")
