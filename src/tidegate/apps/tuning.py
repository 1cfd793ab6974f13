"""`tidegate tune`: the command around `lab.tuning`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tidegate.apps.choices import OK
from tidegate.apps.comparing import asked_for, make_plan, notes, read_sources
from tidegate.apps.progress import progress
from tidegate.apps.replay import cores
from tidegate.core.errors import BadInput
from tidegate.core.terminal_text import clean_line
from tidegate.lab.comparing import Plan
from tidegate.lab.knobs import knobs_of, policy_text, with_settings
from tidegate.lab.measures import BY_KEY
from tidegate.lab.sources import Source
from tidegate.lab.stats import Estimate
from tidegate.lab.tuning import Line, Search, Tuned
from tidegate.presets import load


def tune_command(options: argparse.Namespace) -> int:
    out = Path(options.out)
    if out.exists():
        raise BadInput(f"{out} is there already.", "Name another file with --out, or move it away.")
    policy = load(options.policy)
    knobs = knobs_of(policy, options.vary)
    asked = asked_for(options, (options.window,), (options.policy,))
    found = read_sources(options, asked.count)
    plan = make_plan(options, found, (), asked)
    search = Search(plan, options.policy, knobs, options.seed, options.jobs or cores())
    begin = {knob.name: policy.settings[knob.name] for knob in knobs}
    with progress("trying settings", options.trials) as step:
        tuned = search.run(options.trials, begin, step)
    told = [*_evidence(options, tuned), *(f"note: {note}" for note in notes(asked, found, plan))]
    told = list(map(clean_line, told))  # they become comments of the policy file, too
    print("\n".join(told))
    if not tuned.settings:
        print(f"nothing better than {options.policy} as it is was found: no file is written")
        return OK
    text = with_settings(policy_text(options.policy), dict(tuned.settings), told)
    out.write_text(text, "utf-8")
    _check(out, tuned, plan)
    print(f"written: {out}")
    return OK


def _check(out: Path, tuned: Tuned, plan: Plan) -> None:
    """What was written must say what was measured."""
    written = load(out).settings
    for name, value in tuned.settings:
        if float(written[name]) != float(value):
            raise BadInput(f"{out}: {name} could not be set to {value}.", "Set it by hand; its line is written oddly.")


def _evidence(options: argparse.Namespace, tuned: Tuned) -> list[str]:
    parts = tuned.parts
    lines = [
        f"tidegate tune: {options.policy}, window {options.window:,}, {tuned.trials} trials, seed {options.seed}",
        f"tuned on {len(parts.tuned_on)} sessions: {_projects(parts.tuned_on)}",
        f"reported on {len(parts.reported_on)} others: {_projects(parts.reported_on)}",
        f"worth on the tuned part {tuned.worth:.4f}, before {tuned.worth_before:.4f} (kept, less what it costs more)",
    ]
    if parts.by == "sessions":
        lines.append("all sessions are of one project: the parts share it, so this speaks of that project only")
    if tuned.settings:
        lines.append("settings: " + ", ".join(f"{name} {value}" for name, value in tuned.settings))
        lines += ["", "on the other part:", *map(_line, tuned.report)]
    return lines


def _projects(sources: Sequence[Source]) -> str:
    names = sorted({source.project for source in sources})
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _line(line: Line) -> str:
    share = BY_KEY[line.measure].unit == "share"
    found = f"{BY_KEY[line.measure].name}: {_value(line.before, share)} -> {_value(line.after, share)}"
    difference = line.difference
    if difference.mean is None:
        return found
    scale = 100 if share else 1
    found += f", difference {scale * difference.mean:+.3g}"
    if difference.low is None or difference.high is None:
        return f"{found} (too few for an interval)"
    return f"{found} [{scale * difference.low:+.3g} {scale * difference.high:+.3g}] {line.verdict or 'no verdict'}"


def _value(each: Estimate, share: bool) -> str:
    if each.mean is None:
        return "-"
    return f"{100 * each.mean:.1f}%" if share else f"{each.mean:.3f}"
