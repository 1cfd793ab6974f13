"""`tidegate tune`: the command around `lab.tuning`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tidegate.cli.lab import list_data_notes, make_comparison_plan, read_session_sources, resolve_lab_options
from tidegate.cli.replay import count_cores
from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line
from tidegate.lab.comparison.confidence_intervals import MeanEstimate
from tidegate.lab.comparison.runner import ComparisonPlan
from tidegate.lab.comparison.session_sources import SessionSource
from tidegate.lab.scoring.measures import MEASURES_BY_KEY
from tidegate.lab.tuning.search import MeasureChange, SettingsSearch, TuningResult
from tidegate.lab.tuning.settings import list_tunable_settings, read_policy_text, rewrite_policy_settings
from tidegate.presets import load
from tidegate.terminal.exit_codes import EXIT_OK
from tidegate.terminal.output import show_progress


def tune_command(options: argparse.Namespace) -> int:
    out = Path(options.out)
    if out.exists():
        raise BadInput(f"{out} is there already.", "Name another file with --out, or move it away.")
    policy = load(options.policy)
    knobs = list_tunable_settings(policy, options.vary)
    asked = resolve_lab_options(options, (options.window,), (options.policy,))
    found = read_session_sources(options, asked.count)
    plan = make_comparison_plan(options, found, (), asked)
    search = SettingsSearch(plan, options.policy, knobs, options.seed, options.jobs or count_cores())
    begin = {knob.name: policy.settings[knob.name] for knob in knobs}
    with show_progress("trying settings", options.trials) as step:
        tuned = search.run(options.trials, begin, step)
    told = [*_format_evidence(options, tuned), *(f"note: {note}" for note in list_data_notes(asked, found, plan))]
    told = list(map(clean_line, told))  # they become comments of the policy file, too
    print("\n".join(told))
    if not tuned.settings:
        print(f"nothing better than {options.policy} as it is was found: no file is written")
        return EXIT_OK
    text = rewrite_policy_settings(read_policy_text(options.policy), dict(tuned.settings), told)
    out.write_text(text, "utf-8")
    _check_written_policy(out, tuned, plan)
    print(f"written: {out}")
    return EXIT_OK


def _check_written_policy(out: Path, tuned: TuningResult, plan: ComparisonPlan) -> None:
    """What was written must say what was measured."""
    written = load(out).settings
    for name, value in tuned.settings:
        if float(written[name]) != float(value):
            raise BadInput(f"{out}: {name} could not be set to {value}.", "Set it by hand; its line is written oddly.")


def _format_evidence(options: argparse.Namespace, tuned: TuningResult) -> list[str]:
    parts = tuned.split
    lines = [
        f"tidegate tune: {options.policy}, window {options.window:,}, {tuned.trial_count} trials, seed {options.seed}",
        f"tuned on {len(parts.tuning_sources)} sessions: {_format_projects(parts.tuning_sources)}",
        f"reported on {len(parts.report_sources)} others: {_format_projects(parts.report_sources)}",
        f"worth on the tuned part {tuned.score:.4f}, before {tuned.baseline_score:.4f} (kept, less what it costs more)",
    ]
    if parts.divided_by == "sessions":
        lines.append("all sessions are of one project: the parts share it, so this speaks of that project only")
    if tuned.settings:
        lines.append("settings: " + ", ".join(f"{name} {value}" for name, value in tuned.settings))
        lines += ["", "on the other part:", *map(_format_report_line, tuned.changes)]
    return lines


def _format_projects(sources: Sequence[SessionSource]) -> str:
    names = sorted({source.project for source in sources})
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _format_report_line(line: MeasureChange) -> str:
    share = MEASURES_BY_KEY[line.measure_key].unit == "share"
    change = f"{_format_estimate(line.before, share)} -> {_format_estimate(line.after, share)}"
    found = f"{MEASURES_BY_KEY[line.measure_key].name}: {change}"
    difference = line.difference
    if difference.mean is None:
        return found
    scale = 100 if share else 1
    found += f", difference {scale * difference.mean:+.3g}"
    if difference.low is None or difference.high is None:
        return f"{found} (too few for an interval)"
    return f"{found} [{scale * difference.low:+.3g} {scale * difference.high:+.3g}] {line.verdict or 'no verdict'}"


def _format_estimate(each: MeanEstimate, share: bool) -> str:
    if each.mean is None:
        return "-"
    return f"{100 * each.mean:.1f}%" if share else f"{each.mean:.3f}"
