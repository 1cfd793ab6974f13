"""`tidegate replay`: the command around `lab.batch`."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tidegate.apps.choices import FAILED, INTERRUPTED, OK, WIRES
from tidegate.apps.progress import progress
from tidegate.apps.terminal import print_error, print_json
from tidegate.core.errors import BadInput
from tidegate.core.terminal_text import clean_line
from tidegate.lab import traces
from tidegate.lab.batch import Done, Order, policy_of, replay_paths
from tidegate.lab.report import as_json, as_table


def replay_command(options: argparse.Namespace) -> int:
    paths = traces.find([Path(path) for path in options.paths])
    order = _order(options, paths)
    done: dict[str, Done] = {}
    interrupted = False
    try:
        with (
            progress("replaying", len(paths)) as step,
            closing(replay_paths(paths, order, options.jobs or cores())) as stream,
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
        print_json(as_json(order, reports, unread, interrupted=interrupted).encode())
    else:
        print(as_table(order, reports))
    for report in reports if options.explain else ():
        print("\n  ".join([f"\n{clean_line(report.name)}", *map(clean_line, report.told)]))
    sys.stdout.flush()
    for skipped in unread:
        print_error(f"skipped: {skipped.cause}", skipped.remedy)
    if interrupted:
        print(f"tidegate: stopped after {len(done)} of {len(paths)} recordings", file=sys.stderr)
        return INTERRUPTED
    return FAILED if unread else OK


def _order(options: argparse.Namespace, paths: Sequence[Path]) -> Order:
    """The order, with everything checked that would otherwise fail in the middle of the work."""
    policy_of(options.policy, tuple(options.set))
    if options.explain and options.json:
        raise BadInput("--explain is for people, --json for programs.", "Give one of them.")
    asked = options.wire or WIRES[:1]
    order = Order(
        policy=options.policy,
        window=options.window,
        count=options.count,
        wires=WIRES if "all" in asked else tuple(dict.fromkeys(asked)),
        settings=tuple(options.set),
        requests=options.requests,
        explain=options.explain,
    )
    if order.requests:
        _check_names(paths)
        try:
            Path(order.requests).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"{order.requests}: cannot be made ({error.strerror}).", "Name another folder.") from None
    return order


def _check_names(paths: Sequence[Path]) -> None:
    """Requests are filed under the recording's name, so two of one name would overwrite each other."""
    seen: dict[str, Path] = {}
    for path in paths:
        other = seen.setdefault(traces.stem_of(path), path)
        if other != path:
            raise BadInput(
                f"{other} and {path} would write the same file of requests.", "Replay them one after the other."
            )


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
