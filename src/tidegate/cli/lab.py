"""`tidegate lab`: compare policies on recorded sessions."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidegate.cli.options import Subparsers, add_command, add_comparison_options, count_cores, parse_positive_int
from tidegate.core.errors import BadInput
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.cli.comparison_setup import LabOptions
    from tidegate.lab.comparison.contenders import Contender
    from tidegate.lab.comparison.cost_curve import SettingCurve
    from tidegate.lab.comparison.regression_gate import GateResult
    from tidegate.lab.comparison.report.findings import Findings, FindingsSetup
    from tidegate.lab.comparison.runner import ComparisonPlan, ComparisonResults

_ABOUT = """\
Replay recorded sessions under several policies, without a model and without a key, and say in numbers what each keeps
and what it costs: means over sessions with 95% intervals over projects, and paired differences from a baseline.

PATH is a session file of any known agent, or a folder of them; --mine finds your own. Sessions longer than 1.5 windows
are measured. Results are kept in a cache by content: a run that was stopped goes on, one that is repeated is instant.
"""
_EPILOG = """\
what the columns mean, what they do not show and how to read an interval: docs/lab.md

examples:
  tidegate lab recordings/ --window 32000
  tidegate lab recordings/ --policy default --policy my.yaml --window 16000 --window 64000 --html report.html
  tidegate lab --mine claude-code --window 64000 --peers --json report.json
  tidegate lab recordings/ --window 32000 --peers --curve fidelity=0.2,0.3,0.4,0.65
  tidegate lab recordings/ --policy my.yaml --window 32000 --save kept.json     then, after a change:
  tidegate lab recordings/ --gate kept.json                                     exit status 1 if it got worse
"""


def add_parser(subparsers: Subparsers) -> None:
    summary = "compare policies on recorded sessions"
    parser = add_command(subparsers, "lab", run, summary=summary, description=_ABOUT, epilog=_EPILOG)
    add_comparison_options(parser)
    add = parser.add_argument
    add(
        "--policy",
        action="append",
        default=[],
        metavar="NAME_OR_FILE",
        help="a preset or a YAML file; may be repeated (default: all presets)",
    )
    add("--window", action="append", type=parse_positive_int, default=[], metavar="N", help="tokens; may be repeated")
    add("--peers", action="store_true", help="other tools too, as far as `make peers` built them")
    add("--peer", action="append", default=[], metavar="NAME", help="one other tool; may be repeated")
    add(
        "--curve",
        default="",
        metavar="[POLICY:]SETTING=V,V,...",
        help="one policy (default: default) at these values of a setting, in a table of its own, and compared with each"
        " other policy at equal cost",
    )
    add(
        "--baseline", default="", metavar="NAME", help="the policy that all others are compared with (default: default)"
    )
    add("--json", default="", metavar="FILE", help="everything, for programs (- for the standard output)")
    add(
        "--csv",
        default="",
        metavar="FILE",
        help="one line for each session under each policy; with --curve NAME.equal-cost.csv beside it",
    )
    add("--html", default="", metavar="FILE", help="one page to read and to click through, no network needed")
    add("--save", default="", metavar="FILE", help="what --gate compares with later")
    add("--gate", default="", metavar="FILE", help="exit status 1 if a policy is worse than stored, beyond noise")


def run(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime
    from pathlib import Path

    from tidegate.cli.comparison_setup import (
        list_data_notes,
        make_comparison_plan,
        read_session_sources,
        resolve_lab_options,
    )
    from tidegate.lab.comparison.regression_gate import (
        check_regressions,
        has_comparable_results,
        read_stored_findings,
    )
    from tidegate.lab.comparison.report.builder import ReportContext, build_findings
    from tidegate.terminal.output import print_error

    stored = read_stored_findings(Path(options.gate)) if options.gate else None
    lab_options = resolve_lab_options(options, options.window, options.policy, stored, options.curve)
    chosen = _collect_contenders(options, lab_options)
    if stored is not None and not has_comparable_results(
        stored, lab_options.windows, [each.key for each in chosen.all]
    ):
        raise _nothing_to_compare()
    found = read_session_sources(options, lab_options.count)
    plan = make_comparison_plan(options, found, chosen.all, lab_options)
    results, interrupted = _run_comparison(plan, options.jobs or count_cores())
    context = ReportContext(
        title=f"{len(chosen.contenders)} policies on recorded sessions",
        created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        notes=(*list_data_notes(lab_options, found, plan), *chosen.missing),
        setup=_describe_setup(lab_options, plan),
        baseline=chosen.baseline,
        skipped=tuple(found.skipped),
        curve=chosen.curve,
    )
    report = build_findings(results, context)
    _write_reports(options, report)
    for skipped in found.skipped:
        print_error(f"skipped: {skipped.name}: {skipped.reason}", skipped.remedy)
    for failed in results.list_failed_cells():
        cell = failed.cell
        print_error(f"failed: {cell.contender.key} on {cell.source.name}: {failed.error}")
    if interrupted:
        print("tidegate: stopped; finished results are kept, run the same command to continue", file=sys.stderr)
        return EXIT_INTERRUPTED
    if stored is not None and _report_gate(check_regressions(stored, report)):
        return EXIT_FAILED
    return EXIT_FAILED if results.failures or any(each.remedy for each in found.skipped) else EXIT_OK


class _ContenderSet(NamedTuple):
    """The contenders. The points of the curve are measured like the others, and shown apart from them."""

    contenders: "list[Contender]"
    curve: "SettingCurve | None"
    baseline: str
    missing: list[str]

    @property
    def all(self) -> "list[Contender]":
        return [*self.contenders, *(self.curve.extra_contenders if self.curve else ())]


def _collect_contenders(options: argparse.Namespace, lab_options: "LabOptions") -> _ContenderSet:
    from tidegate.lab.comparison.contenders import find_peer_contenders, make_policy_contender
    from tidegate.lab.comparison.cost_curve import parse_curve

    contenders = [make_policy_contender(name) for name in lab_options.policies]
    missing: list[str] = []
    if options.peers or options.peer:
        others = find_peer_contenders(options.peer)
        contenders += others.contenders
        missing += others.missing_reasons
    curve = parse_curve(lab_options.curve_spec, contenders) if lab_options.curve_spec else None
    return _ContenderSet(contenders, curve, _choose_baseline(options.baseline, contenders), missing)


def _choose_baseline(wanted: str, contenders: "Sequence[Contender]") -> str:
    keys = [each.key for each in contenders]
    if len(set(keys)) < len(keys):
        raise BadInput("Two policies have the same name.", "Rename one of the files.")
    if wanted and wanted not in keys:
        raise BadInput(f"The baseline {wanted!r} is not among the policies.", f"Use one of {', '.join(keys)}.")
    return wanted or ("default" if "default" in keys else keys[0])


def _run_comparison(plan: "ComparisonPlan", jobs: int) -> "tuple[ComparisonResults, bool]":
    """Return the results, and whether Ctrl-C stopped the measurement before it was complete."""
    from tidegate.lab.comparison.runner import load_cached_results, run_comparison
    from tidegate.terminal.output import show_progress

    try:
        with show_progress("measuring", len(plan.list_cells())) as step:
            return run_comparison(plan, jobs, step), False
    except KeyboardInterrupt:
        return load_cached_results(plan), True


def _describe_setup(lab_options: "LabOptions", plan: "ComparisonPlan") -> "FindingsSetup":
    from tidegate.lab.comparison.report.findings import FindingsSetup, SetupRates

    rates = plan.terms.rates[0]
    return FindingsSetup(
        policies=lab_options.policies,
        windows=lab_options.windows,
        count=lab_options.count,
        longer=lab_options.min_windows,
        prices=lab_options.price_model,
        rates=SetupRates(rates.input, rates.cached, rates.written, rates.output),
        common_names=lab_options.common_names_file,
        curve=lab_options.curve_spec,
    )


def _write_reports(options: argparse.Namespace, report: "Findings") -> None:
    from pathlib import Path

    import msgspec

    from tidegate.disk.atomic_files import write_private
    from tidegate.lab.comparison.report.text import render_equal_cost_csv, render_findings_csv, render_findings_text

    encode = msgspec.json.encode
    whole = encode(report)
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
        write_private(Path(options.save), encode(report.without_details()))


def _report_gate(gated: "GateResult") -> bool:
    """Print the result of `--gate`. Return whether a policy is worse than stored."""
    from tidegate.core.text.terminal_text import clean_line

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
