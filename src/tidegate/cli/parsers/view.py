"""The parser of `tidegate view`. The command itself is elsewhere and loaded late."""

import argparse
from typing import Any

from tidegate.cli.options import DATA_VARIABLE, STORE_VARIABLE

_VIEW = """\
Write one HTML file about a session, to be opened in any browser, with no network: how full the window was over time and
with what, each compaction with before and after, every request as it was sent, what each cost. Secrets are masked.
"""
_END = """\
examples:
  tidegate view build-fix
  tidegate view build-fix --out build-fix.html --window 32000
"""


def add_view_parser(commands: Any) -> None:
    """Add the parser; `commands` is what argparse's add_subparsers gave."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "view",
        help="a session as a page to look at",
        description=_VIEW,
        epilog=_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("session", metavar="SESSION")
    add("--out", default="", metavar="FILE", help="where to write it (default: SESSION.html)")
    add(
        "--window",
        type=_parse_positive_int,
        default=0,
        metavar="N",
        help="the window, where log and catalog do not know it",
    )
    add(
        "--data", default="", metavar="FOLDER", help=f"the data folder (default: ${DATA_VARIABLE}, else the user's own)"
    )
    add(
        "--store",
        default="",
        metavar="URL",
        help=f"where the logs are, if not in the folder (default: ${STORE_VARIABLE})",
    )


def _parse_positive_int(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)
