"""The parser of `tidegate import`. The command itself is elsewhere and loaded late."""

import argparse
from typing import Any

from tidegate.cli.options import DATA_VARIABLE, STORE_VARIABLE

LOCAL_AGENT_CHOICES = ("claude-code", "codex", "opencode", "copilot", "gemini", "pi")

_IMPORT = """\
Take sessions in: files that `tidegate export` wrote, and the session files of Claude Code, Codex, OpenCode, Copilot
CLI, Gemini CLI, Pi, OpenHands, SWE-agent, mini-swe-agent, tau-bench, LiveMCPBench, LangChain and LangGraph,
OpenTelemetry spans, logs of requests, and chat messages one a line; plain or .gz. What a file holds decides, not its
name. A folder means the files in it. It says what had to be mended; the files are only read.

A file may come from somebody else, so nothing that its user said or pinned is a rule here. With --mine or --trust what
was typed is taken as your own.
"""
_END = """\
examples:
  tidegate import copy.tidegate --as b
  tidegate import rollout.jsonl trajectories/
  tidegate import --mine claude-code
  tidegate import --trust laptop.tidegate
"""


def add_import_parser(commands: Any) -> None:
    """Add the parser; `commands` is what argparse's add_subparsers gave."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "import",
        help="take in sessions: exported ones, and those of other agents",
        description=_IMPORT,
        epilog=_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("path", nargs="*", metavar="PATH", help="files, or folders of files")
    add("--as", dest="name", default="", metavar="NAME", help="under another name (one session)")
    add(
        "--mine",
        action="append",
        default=[],
        choices=LOCAL_AGENT_CHOICES,
        help="the sessions of this agent in your home",
    )
    add("--trust", action="store_true", help="these sessions are yours: rules in what you typed and pinned hold")
    add("--data", default="", metavar="DIR", help=f"the data folder (default: ${DATA_VARIABLE}, else your data home)")
    add(
        "--store",
        default="",
        metavar="URL",
        help=f"where the logs are, if not in the data folder (default: ${STORE_VARIABLE})",
    )
