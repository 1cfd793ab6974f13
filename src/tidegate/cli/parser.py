"""What `tidegate` understands. Light: nothing of the product is loaded to parse a command line."""

import argparse
from typing import NoReturn

from tidegate import __version__
from tidegate.cli.options import add_session_parsers
from tidegate.cli.parsers.chat import add_chat_parser
from tidegate.cli.parsers.demo import add_demo_parser
from tidegate.cli.parsers.import_ import add_import_parser
from tidegate.cli.parsers.lab import add_lab_parsers
from tidegate.cli.parsers.run import add_run_parsers
from tidegate.cli.parsers.view import add_view_parser
from tidegate.terminal.exit_codes import COUNTER_CHOICES, DIALECT_CHOICES, EXIT_USAGE

_ABOUT = "Keeps an LLM agent's context window from flooding: an append-only log, and a view of it that always fits."
_REPLAY = """\
Go through recorded sessions again under a policy, as if each assistant message had to be asked for, and say what
would have been sent: how large, how valid, how much of it the provider's prompt cache already had.

A recording is JSONL in OpenAI chat form, one message a line, plain or .gz; a folder means the recordings directly in
it. Time is simulated (30 seconds an assistant message) and summaries are deterministic: same input, same figures.
"""
_REPLAY_END = """\
columns:
  mean, max  tokens of the requests        over     requests larger than the window
  invalid    requests a dialect refuses    refused  calls for which the fixed part leaves no room
  prefix     share of a request that is the unchanged beginning of it, from the request before (mean)
  newest     requests with the user's newest message whole (clipped: it alone is larger than the room)

examples:
  tidegate replay session.jsonl --policy default --window 32000
  tidegate replay recordings/ --policy cowagent --window 16000 --count chars/4 --requests out/
  tidegate replay recordings/ --policy my.yaml --window 64000 --wire all --json > report.json
  tidegate replay recordings/ --policy default --window 16000 --set fidelity=1
  tidegate replay session.jsonl --window 32000 --explain
"""
_SEEDS = "List every promise of the presets with the tests that prove it; --run runs these tests now."
_SEEDS_END = """\
states (with --run): proved = it has tests and all passed; failing = one did not; open = it has none yet

examples:
  tidegate seeds
  tidegate seeds --run
  tidegate seeds --run --json > seeds.json
"""
_POLICIES = "List the presets, or print one: the place to start a policy file of your own."
_POLICIES_END = "examples:\n  tidegate policies\n  tidegate policies default > my.yaml\n"


class CommandParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line and a remedy, not the whole usage."""
        self.exit(
            EXIT_USAGE, f"{self.prog}: error: {message}\nremedy: see `{self.prog} --help` for what is accepted.\n"
        )


def make_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="tidegate", description=_ABOUT)
    parser.add_argument("--version", action="version", version=f"tidegate {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)
    raw = argparse.RawDescriptionHelpFormatter
    _add_replay(
        commands.add_parser(
            "replay",
            help="run a policy over recorded sessions",
            description=_REPLAY,
            epilog=_REPLAY_END,
            formatter_class=raw,
        )
    )
    add_demo_parser(commands)
    policies = commands.add_parser(
        "policies", help="list or print the presets", description=_POLICIES, epilog=_POLICIES_END, formatter_class=raw
    )
    policies.add_argument("name", nargs="?", metavar="NAME", help="print the file of this preset")
    seeds = commands.add_parser(
        "seeds",
        help="the presets' promises and their proofs",
        description=_SEEDS,
        epilog=_SEEDS_END,
        formatter_class=raw,
    )
    seeds.add_argument(
        "--run", action="store_true", help="run the tests now (in a checkout) and give each row its state"
    )
    seeds.add_argument("--json", action="store_true", help='a list of {"id", "text", "tests", "state"}')
    add_session_parsers(commands)
    add_import_parser(commands)
    add_view_parser(commands)
    add_lab_parsers(commands)
    add_run_parsers(commands)
    add_chat_parser(commands)
    return parser


def _add_replay(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="a recording, or a folder of recordings")
    add("--policy", default="default", metavar="NAME_OR_FILE", help="a preset or a YAML file (default: default)")
    add("--window", type=_parse_positive_int, required=True, metavar="N", help="the context window in tokens")
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
        help="validate each request in this dialect; may be repeated (default: openai_chat)",
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
    add("--explain", action="store_true", help="below the table each edit with its arithmetic, and the next sweep")
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--jobs", type=_parse_positive_int, default=0, metavar="N", help="processes (default: one a core)")


def _parse_positive_int(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def _parse_setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()
