"""What the parsers of several commands share. Light: parsing a command line loads nothing else of tidegate."""

import argparse
import os
import re
from collections.abc import Callable
from typing import Any, Protocol

from tidegate.core.config.token_amount import parse_token_amount
from tidegate.core.errors import BadInput
from tidegate.datafolder.location import DATA_VARIABLE, STORE_VARIABLE

_MAX_HELP_WIDTH = 118
"""Longer lines are hard to read."""


class Subparsers(Protocol):
    """What `ArgumentParser.add_subparsers` returns; argparse has no public name for it."""

    def add_parser(
        self,
        name: str,
        *,
        help: str,  # noqa: A002 - argparse's own name
        **options: Any,
    ) -> argparse.ArgumentParser: ...


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps the paragraphs of a description and an epilog to the terminal."""

    def __init__(self, prog: str, **options: Any) -> None:
        # argparse makes a formatter for each option; without a width each would load what finds the terminal's.
        super().__init__(prog, **{"width": _MAX_HELP_WIDTH, **options})

    def format_help(self) -> str:
        import shutil

        self._width = min(shutil.get_terminal_size().columns - 2, _MAX_HELP_WIDTH)
        self._max_help_position = min(self._max_help_position, max(self._width - 20, 2 * self._indent_increment))
        return super().format_help()

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return wrap_help(text, width) + "\n"

    def _split_lines(self, text: str, width: int) -> list[str]:
        import textwrap  # argparse, too, loads it only for help

        return textwrap.wrap(text, width, break_on_hyphens=False)


def wrap_help(text: str, width: int) -> str:
    """Wrap the paragraphs of a help text. Indented lines, such as examples, stay; `word:` begins a paragraph."""
    import textwrap

    lines: list[str] = []
    paragraph: list[str] = []
    for line in [*text.strip("\n").splitlines(), ""]:
        if not line or re.match(r" |\w+:", line):
            lines += textwrap.wrap(" ".join(paragraph), width, break_long_words=False, break_on_hyphens=False)
            paragraph.clear()
        if not line or line.startswith(" "):
            lines.append(line)
        else:
            paragraph.append(line)
    return "\n".join(lines).rstrip()


def add_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    summary: str,
    description: str,
    epilog: str,
) -> argparse.ArgumentParser:
    """Add the parser of a command. `options.run_command` is the function that runs it."""
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=HelpFormatter,
    )
    parser.set_defaults(run_command=run)
    return parser


def format_examples(name: str, *arguments: str) -> str:
    """Return the examples that end the help of a command, one for each string of arguments."""
    return "examples:\n" + "".join(f"  tidegate {name} {each}".rstrip() + "\n" for each in arguments)


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add `--data` and `--store`: where the sessions are."""
    add_data_folder_option(parser)
    parser.add_argument(
        "--store",
        default="",
        metavar="URL",
        help=f"the PostgreSQL database to use instead of files in the folder (default: ${STORE_VARIABLE})",
    )


def add_data_folder_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        default="",
        metavar="FOLDER",
        help=f"the data folder (default: ${DATA_VARIABLE}, else ~/.local/share/tidegate)",
    )


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that has an agent."""
    parser.add_argument(
        "--config", default="", metavar="FILE", help="use this file instead of the tidegate.yaml of this folder"
    )
    parser.add_argument("--agent", default="", metavar="ID", help="use this agent, if the file has several")
    parser.add_argument(
        "--model", default="", metavar="[PROVIDER/]MODEL", help="use this model instead of the configured one"
    )
    parser.add_argument(
        "--policy", default="", metavar="NAME_OR_FILE", help="use this policy instead of the configured one"
    )


def add_comparison_options(parser: argparse.ArgumentParser) -> None:
    """Add what `lab` and `tune` share: which sessions, and how they are measured."""
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="a file of any known agent, a folder, a pattern or a URL")
    add("--mine", action="append", default=[], metavar="AGENT", help="your own sessions of this agent (only read)")
    add("--count", choices=("chars/4", "exact"), default=None, help="how tokens are counted (default: chars/4)")
    add(
        "--common",
        default="",
        metavar="FILE",
        help="JSON list of common names, which do not count (default: those used in 4 projects)",
    )
    add("--longer", type=float, default=None, metavar="N", help="measure sessions longer than N windows (default: 1.5)")
    add("--model", default="", metavar="NAME", help="use the prices of this model (default: claude-sonnet-5)")
    add("--cache", default="", metavar="DIR", help="where results are cached (default: the user's cache folder)")
    add("--jobs", type=parse_positive_int, default=0, metavar="N", help="processes (default: one per core)")


def parse_positive_int(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def parse_window(text: str) -> int:
    """Read a number of tokens, such as 16000 or 16k."""
    try:
        return parse_token_amount(text)
    except BadInput as bad:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens, such as 16000 or 16k") from bad


def count_cores() -> int:
    """Return how many processes `--jobs` means when it is not given."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_port(text: str) -> int:
    """Read the number of a port; 0 lets the system choose one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)
