"""Sessions stored by tidegate, and threads stored by LangGraph's SqliteSaver and PostgresSaver, in one run.

    python bench/savers.py                              20 sessions of 100 turns (make peers ARGS="langchain" before)
    python bench/savers.py --sessions 100 --turns 50
    python bench/savers.py --only sqlite,langgraph_sqlite

A turn is a user's message and an answer of some 300 characters each, of this project's documentation. tidegate also
prepares the request in it, and LangGraph runs a graph with one node. The figures: the median time and the CPU time of
a turn, bytes on disk for each message after all was indexed for search, the time to find a word that one message has,
and the time to open one session again with new connections: the request is prepared, or the state is read. LangGraph's
savers have no search; the newest state of each thread is read and looked through. Imports are not counted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from teams import start_postgres

from tidegate.lab.peer_registry import get_environment_interpreter

RUNNERS = Path(__file__).resolve().parent / "runners"
CONTENDERS = {
    "sqlite": "tidegate_saver",
    "langgraph_sqlite": "langgraph_saver",
    "postgres": "tidegate_saver",
    "langgraph_postgres": "langgraph_saver",
}


def run_contender(name: str, sessions: int, turns: int) -> dict[str, float]:
    runner = CONTENDERS[name]
    interpreter = Path(sys.executable) if runner == "tidegate_saver" else get_environment_interpreter("langchain")
    if not interpreter.exists():
        raise SystemExit('LangGraph has no environment: run `make peers ARGS="langchain"`.')
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = stack.enter_context(start_postgres()) if "postgres" in name else ""
        command = [str(interpreter), str(RUNNERS / f"{runner}.py"), folder, url, str(sessions), str(turns)]
        figures: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--only", default=",".join(CONTENDERS))
    options = parser.parse_args()
    print(f"{'':20}turn ms   CPU ms   bytes a message   search ms   reopen ms")
    for name in options.only.split(","):
        figures = run_contender(name, options.sessions, options.turns)
        print(
            f"{name:20}{figures['turn']:7.1f}{figures['cpu']:9.1f}{figures['bytes']:18,.0f}{figures['search']:12.1f}"
            f"{figures['reopen']:12.1f}",
            flush=True,
        )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
