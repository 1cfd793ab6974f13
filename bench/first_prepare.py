"""The first `prepare` of a session that was opened again: all of its view is laid out, encoded and judged.

    python bench/first_prepare.py                         views of about 20,000, 100,000 and 290,000 tokens
    python bench/first_prepare.py --steps 400 --runs 20

The session is of a coding agent (`agent_sessions.py`), under a policy that lets the view grow as large: under `default`
a view seldom has more than some 60,000 tokens. Each run is a process of its own: times are those of the call alone, the
first figure with and the second without the collector of garbage, which may make a full collection just then.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Any

from agent_sessions import make_chat

from tidegate import DataFolder

SETTINGS: dict[str, Any] = {"policy": "jutul", "window": 2_000_000, "count": "chars/4"}
MODEL = "gpt-4o"


def fill(folder: str, steps: int) -> None:
    with DataFolder(folder, secrets=[]) as data, data.open("s", MODEL, **SETTINGS) as session:
        for message in make_chat("s1", steps):
            session.add(message)
        session.prepare()


def measure(folder: str, *, collects: bool) -> dict[str, float]:
    with DataFolder(folder, secrets=[]) as data, data.open("s", MODEL, **SETTINGS) as session:
        if not collects:
            gc.disable()
        start = time.perf_counter()
        session.prepare()
        taken = time.perf_counter() - start
        return {"ms": taken * 1000, "tokens": session.tokens, "messages": len(session.view.items)}


def run(folder: str, mode: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", folder, mode]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default="40,150,420", help="answers in the session, with commas between them")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "MODE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], collects=options.measure[1] == "collecting")))
        return
    for steps in map(int, options.steps.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            fill(folder, steps)
            runs = {mode: [run(folder, mode) for _ in range(options.runs)] for mode in ("collecting", "without")}
        first = runs["collecting"][0]
        medians = [median(each["ms"] for each in found) for found in runs.values()]
        print(
            f"{first['tokens']:,} tokens in {first['messages']:,} messages: median {medians[0]:.0f} ms,"
            f" {medians[1]:.0f} ms without the collector; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
