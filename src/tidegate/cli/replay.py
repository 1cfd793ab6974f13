"""`tidegate replay`: the command around `lab.batch`."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line
from tidegate.lab.replay import recording_file
from tidegate.lab.replay.batch import ReplayOrder, ReplayOutcome, load_replay_policy, replay_files
from tidegate.lab.replay.report_text import render_replay_json, render_replay_table
from tidegate.terminal.exit_codes import DIALECT_CHOICES, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from tidegate.terminal.output import print_error, print_json, show_progress


def replay_command(options: argparse.Namespace) -> int:
    paths = recording_file.find_chat_recordings([Path(path) for path in options.paths])
    order = _make_order(options, paths)
    done: dict[str, ReplayOutcome] = {}
    interrupted = False
    try:
        with (
            show_progress("replaying", len(paths)) as step,
            closing(replay_files(paths, order, options.jobs or count_cores())) as stream,
        ):
            for each in stream:
                done[each.path] = each
                step(1)
    except KeyboardInterrupt:
        interrupted = True
    outcomes = [done[str(path)] for path in paths if str(path) in done]
    reports = [each.report for each in outcomes if each.report is not None]
    unread = [each.unread for each in outcomes if each.unread is not None]
    if options.json:
        print_json(render_replay_json(order, reports, unread, interrupted=interrupted).encode())
    else:
        print(render_replay_table(order, reports))
    for report in reports if options.explain else ():
        print("\n  ".join([f"\n{clean_line(report.name)}", *map(clean_line, report.edit_descriptions)]))
    sys.stdout.flush()
    for skipped in unread:
        print_error(f"skipped: {skipped.cause}", skipped.remedy)
    if interrupted:
        print(f"tidegate: stopped after {len(done)} of {len(paths)} recordings", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_FAILED if unread else EXIT_OK


def _make_order(options: argparse.Namespace, paths: Sequence[Path]) -> ReplayOrder:
    """The order, with everything checked that would otherwise fail in the middle of the work."""
    load_replay_policy(options.policy, tuple(options.set))
    if options.explain and options.json:
        raise BadInput("--explain is for people, --json for programs.", "Give one of them.")
    asked = options.wire or DIALECT_CHOICES[:1]
    order = ReplayOrder(
        policy=options.policy,
        window=options.window,
        count=options.count,
        dialects=DIALECT_CHOICES if "all" in asked else tuple(dict.fromkeys(asked)),
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


def _check_unique_names(paths: Sequence[Path]) -> None:
    """Requests are filed under the recording's name, so two of one name would overwrite each other."""
    seen: dict[str, Path] = {}
    for path in paths:
        other = seen.setdefault(recording_file.get_recording_name(path), path)
        if other != path:
            raise BadInput(
                f"{other} and {path} would write the same file of requests.", "Replay them one after the other."
            )


def count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
