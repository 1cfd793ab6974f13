"""`tidegate tune`: search the settings of a policy."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.cli.extras import require_packages
from tidegate.cli.options import (
    Subparsers,
    add_command,
    add_comparison_options,
    count_cores,
    parse_positive_int,
    parse_window,
)
from tidegate.core.errors import BadInput
from tidegate.core.text.plural import format_count
from tidegate.terminal.exit_codes import EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from pathlib import Path

    from tidegate.lab.comparison.confidence_intervals import MeanEstimate
    from tidegate.lab.comparison.session_sources import SessionSource
    from tidegate.lab.tuning.search import MeasureChange, TuningResult

_ABOUT = """\
Search for better settings of a policy. The search uses one part of the sessions; the report is made on the other part,
which the search never sees. The parts share no project. The result is a policy file with the report in its comments.
"""
_EPILOG = """\
The search looks for settings that keep the most (mean of text to edit, older lines, older names and words of the user)
at no more cost than before; settings that make requests invalid are rejected. The optimizer is an extra:
pip install 'tidegate[tune]'

examples:
  tidegate tune recordings/ --window 32000 --out tuned.yaml
  tidegate tune recordings/ --policy picoclaw --window 16000 --trials 100 --vary keep_last=4..40
"""


def add_parser(subparsers: Subparsers) -> None:
    summary = "search for better settings of a policy"
    parser = add_command(subparsers, "tune", run, summary=summary, description=_ABOUT, epilog=_EPILOG)
    add_comparison_options(parser)
    add = parser.add_argument
    add("--policy", default="default", metavar="NAME_OR_FILE", help="the policy to start from (default: default)")
    add("--window", type=parse_window, required=True, metavar="N", help="the window in tokens")
    add("--trials", type=parse_positive_int, default=40, metavar="N", help="how many settings are tried (default: 40)")
    add("--seed", type=int, default=7, metavar="N", help="seed of the search (default: 7)")
    add(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=LOW..HIGH",
        help="a setting to vary, with its bounds; may be repeated (default: all numbers, a quarter to four times)",
    )
    add("--out", default="tuned.yaml", metavar="FILE", help="the policy file to write (default: tuned.yaml)")


def run(options: argparse.Namespace) -> int:
    require_packages("optuna")

    from pathlib import Path

    from tidegate.cli.comparison_setup import (
        list_data_notes,
        make_comparison_plan,
        read_session_sources,
        resolve_lab_options,
    )
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.lab.tuning.search import SettingsSearch
    from tidegate.lab.tuning.settings import list_tunable_settings, read_policy_text, rewrite_policy_settings
    from tidegate.presets import load
    from tidegate.terminal.output import show_progress

    out = Path(options.out)
    if out.exists():
        raise BadInput(f"{out} exists already.", "Name another file with --out, or move it away.")
    policy = load(options.policy)
    tunable = list_tunable_settings(policy, options.vary)
    lab_options = resolve_lab_options(options, (options.window,), (options.policy,))
    sources = read_session_sources(options, lab_options.count)
    plan = make_comparison_plan(options, sources, (), lab_options)
    search = SettingsSearch(plan, options.policy, tunable, options.seed, options.jobs or count_cores())
    start = {each.name: policy.settings[each.name] for each in tunable}
    with show_progress("trying settings", options.trials) as step:
        tuned = search.run(options.trials, start, step)
    notes = (f"note: {note}" for note in list_data_notes(lab_options, sources, plan))
    evidence = list(map(clean_line, [*_format_evidence(options, tuned), *notes]))
    print("\n".join(evidence))
    if not tuned.settings:
        print(f"nothing better than {options.policy} as it is was found: no file is written")
        return EXIT_OK
    text = rewrite_policy_settings(
        read_policy_text(options.policy), dict(tuned.settings), evidence
    )  # the evidence becomes comments
    out.write_text(text, "utf-8")
    _check_written_policy(out, tuned)
    print(f"written: {out}")
    return EXIT_OK


def _check_written_policy(out: "Path", tuned: "TuningResult") -> None:
    """Check that the written file has the settings that were measured."""
    from tidegate.presets import load

    settings = load(out).settings
    for name, value in tuned.settings:
        if float(settings[name]) != float(value):
            raise BadInput(
                f"{out}: {name} could not be set to {value}.",
                "Set it by hand; the line of this setting has an unusual form.",
            )


def _format_evidence(options: argparse.Namespace, tuned: "TuningResult") -> list[str]:
    parts = tuned.split
    lines = [
        f"tidegate tune: {options.policy}, window {options.window:,}, {format_count(tuned.trial_count, 'trial')},"
        f" seed {options.seed}",
        f"tuned on {format_count(len(parts.tuning_sources), 'session')}: {_format_projects(parts.tuning_sources)}",
        f"reported on {len(parts.report_sources)} others: {_format_projects(parts.report_sources)}",
        f"worth on the tuned part {tuned.score:.4f}, before {tuned.baseline_score:.4f} (kept, less what it costs more)",
    ]
    if parts.divided_by == "sessions":
        lines.append("all sessions are of one project: the parts share it, so this speaks of that project only")
    if tuned.settings:
        lines.append("settings: " + ", ".join(f"{name} {value}" for name, value in tuned.settings))
        lines += ["", "on the other part:", *map(_format_report_line, tuned.changes)]
    return lines


def _format_projects(sources: "Sequence[SessionSource]") -> str:
    names = sorted({source.project for source in sources})
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _format_report_line(line: "MeasureChange") -> str:
    from tidegate.lab.scoring.measures import MEASURES_BY_KEY

    share = MEASURES_BY_KEY[line.measure_key].unit == "share"
    change = f"{_format_estimate(line.before, share)} -> {_format_estimate(line.after, share)}"
    report_line = f"{MEASURES_BY_KEY[line.measure_key].name}: {change}"
    difference = line.difference
    if difference.mean is None:
        return report_line
    scale = 100 if share else 1
    report_line += f", difference {scale * difference.mean:+.3g}"
    if difference.low is None or difference.high is None:
        return f"{report_line} (too few for an interval)"
    return (
        f"{report_line} [{scale * difference.low:+.3g} {scale * difference.high:+.3g}] {line.verdict or 'no verdict'}"
    )


def _format_estimate(each: "MeanEstimate", share: bool) -> str:
    if each.mean is None:
        return "-"
    return f"{100 * each.mean:.1f}%" if share else f"{each.mean:.3f}"
