"""`tidegate replay`: run a policy over recorded sessions."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, count_cores, parse_positive_int, parse_window
from tidegate.core.errors import BadInput
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from pathlib import Path

    from tidegate.lab.replay.batch import ReplayOrder, ReplayOutcome

COUNTER_CHOICES = ("exact", "chars/4", "estimate")
DIALECT_CHOICES = ("openai_chat", "openai_responses", "anthropic", "gemini")
_ABOUT = """\
Replay recorded sessions under a policy: before each recorded answer, prepare the request that would have been sent.
Report the size of the requests, whether they are valid, and how much of them the provider's cache already had.

A recording is JSONL in OpenAI chat form, one message per line, plain or .gz, or an export of tidegate (.tidegate).
A folder means the recordings directly in it. Time is simulated (30 seconds per assistant message) and summaries are
deterministic: the same input gives the same figures.
"""
_EPILOG = """\
columns:
  mean, max  tokens of the requests
  over       requests larger than the window
  invalid    requests a dialect refuses
  refused    calls for which the fixed part leaves no room
  prefix     share that is as in the request before (mean)
  newest     requests with the latest user message whole
             (clipped: it alone is larger than the room)

examples:
  tidegate replay session.jsonl --policy default --window 32000
  tidegate replay recordings/ --policy cowagent --window 16000 --count chars/4 --requests out/
  tidegate replay recordings/ --policy my.yaml --window 64000 --wire all --json > report.json
  tidegate replay recordings/ --policy default --window 16000 --set fidelity=0.4
  tidegate replay session.jsonl --window 32000 --explain
"""


def add_parser(subparsers: Subparsers) -> None:
    summary = "run a policy over recorded sessions"
    parser = add_command(subparsers, "replay", run, summary=summary, description=_ABOUT, epilog=_EPILOG)
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="a recording, or a folder of recordings")
    add(
        "--policy", default="default", metavar="NAME_OR_FILE", help="a shipped policy or a YAML file (default: default)"
    )
    add("--window", type=parse_window, required=True, metavar="N", help="the context window in tokens")
    add(
        "--count",
        choices=COUNTER_CHOICES,
        default="exact",
        help="how tokens are counted (default: exact, with o200k_base)",
    )
    add(
        "--wire",
        action="append",
        choices=(*DIALECT_CHOICES, "all"),
        metavar="NAME",
        help=f"validate each request in this dialect: {', '.join(DIALECT_CHOICES)} or all; may be repeated "
        "(default: openai_chat)",
    )
    add(
        "--set",
        action="append",
        default=[],
        type=_parse_setting,
        metavar="NAME=VALUE",
        help="change a setting of the policy",
    )
    add(
        "--requests",
        default="",
        metavar="DIR",
        help="write DIR/<name>.jsonl: each request as it is, secrets included, in OpenAI chat form",
    )
    add("--explain", action="store_true", help="print each edit with its calculation, and the next sweep")
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--jobs", type=parse_positive_int, default=0, metavar="N", help="processes (default: one per core)")


def run(options: argparse.Namespace) -> int:
    from contextlib import closing
    from pathlib import Path

    from tidegate.core.text.terminal_text import clean_line
    from tidegate.lab.replay.batch import replay_files
    from tidegate.lab.replay.recording_file import find_chat_recordings
    from tidegate.lab.replay.report_text import render_replay_json, render_replay_table
    from tidegate.terminal.output import find_terminal_width, print_error, print_json, show_progress

    paths = find_chat_recordings([Path(path) for path in options.paths])
    order = _make_order(options, paths)
    replay_outcomes: dict[str, ReplayOutcome] = {}
    interrupted = False
    try:
        with (
            show_progress("replaying", len(paths)) as step,
            closing(replay_files(paths, order, options.jobs or count_cores())) as stream,
        ):
            for each in stream:
                replay_outcomes[each.path] = each
                step(1)
    except KeyboardInterrupt:
        interrupted = True
    outcomes = [replay_outcomes[str(path)] for path in paths if str(path) in replay_outcomes]
    reports = [each.report for each in outcomes if each.report is not None]
    unread = [each.unread for each in outcomes if each.unread is not None]
    if options.json:
        print_json(render_replay_json(order, reports, unread, interrupted=interrupted).encode())
    else:
        print(render_replay_table(order, reports, width=find_terminal_width()))
    for report in reports if options.explain else ():
        print("\n  ".join([f"\n{clean_line(report.name)}", *map(clean_line, report.edit_descriptions)]))
    sys.stdout.flush()
    for fault in unread:
        print_error(f"skipped: {fault.cause}", fault.remedy)
    if interrupted:
        print(f"tidegate: stopped after {len(replay_outcomes)} of {len(paths)} recordings", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_FAILED if unread else EXIT_OK


def _make_order(options: argparse.Namespace, paths: "Sequence[Path]") -> "ReplayOrder":
    """Return the order. Everything that would otherwise fail in the middle of the work is checked here."""
    from pathlib import Path

    from tidegate.lab.replay.batch import ReplayOrder, load_replay_policy

    load_replay_policy(options.policy, tuple(options.set))
    if options.explain and options.json:
        raise BadInput("--explain is for people, --json for programs.", "Give one of them.")
    dialects = options.wire or DIALECT_CHOICES[:1]
    order = ReplayOrder(
        policy=options.policy,
        window=options.window,
        count=options.count,
        dialects=DIALECT_CHOICES if "all" in dialects else tuple(dict.fromkeys(dialects)),
        settings=tuple(options.set),
        requests_folder=options.requests,
        explain=options.explain,
    )
    if order.requests_folder:
        _check_unique_names(paths)
        try:
            Path(order.requests_folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"{order.requests_folder}: cannot be made ({error.strerror}).", "Name another folder."
            ) from None
    return order


def _check_unique_names(paths: "Sequence[Path]") -> None:
    """Requests are filed under the recording's name, so two of one name would overwrite each other."""
    from tidegate.lab.replay.recording_file import get_recording_name

    paths_by_name: dict[str, Path] = {}
    for path in paths:
        other = paths_by_name.setdefault(get_recording_name(path), path)
        if other != path:
            raise BadInput(
                f"{other} and {path} would write the same file of requests.", "Replay them one after the other."
            )


def _parse_setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()
