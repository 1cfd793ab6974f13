"""The parser of the command line: `tidegate` and its commands, each of which adds its own parser."""

import argparse
import platform
from typing import NoReturn

from tidegate import __version__
from tidegate.cli import (
    chat,
    clear,
    config,
    demo,
    doctor,
    export,
    fetch,
    forget,
    fork,
    import_,
    lab,
    mcp,
    memory,
    plugins,
    policies,
    recall,
    replay,
    run,
    seeds,
    serve,
    sessions,
    show,
    trace,
    tune,
    ui,
    undo,
    view,
    wrap,
)
from tidegate.cli.extras import list_extras
from tidegate.terminal.exit_codes import EXIT_OK, EXIT_USAGE

_ABOUT = "Keeps an LLM agent's context window from overflowing: a log of everything, and a view of it that always fits."
_COMMANDS = (
    *(chat, run, wrap, serve, ui, mcp, demo),
    *(sessions, show, trace, view, recall, memory),
    *(undo, clear, fork, forget, export, import_, doctor),
    *(lab, replay, tune, policies, seeds),
    *(config, plugins, fetch),
)
"""In the order of `tidegate --help`."""


class _ShowVersion(argparse.Action):
    """Looks for the extras when it is asked: finding packages takes time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        extras = list_extras()
        print(f"tidegate {__version__} with Python {platform.python_version()}")
        print("extras installed:", ", ".join(name for name, is_there in extras.items() if is_there) or "none")
        if missing := [name for name, is_there in extras.items() if not is_there]:
            print(f"not installed:    {', '.join(missing)}   (pip install 'tidegate[{missing[0]}]')")
        parser.exit(EXIT_OK)


class CommandParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print one line and a remedy, not the whole usage."""
        self.exit(
            EXIT_USAGE, f"{self.prog}: error: {message}\nremedy: see `{self.prog} --help` for what is accepted.\n"
        )


def make_parser() -> argparse.ArgumentParser:
    """Return the parser. Its result has `run_command`, the function of the command. Without one it prints the help."""
    parser = CommandParser(prog="tidegate", description=_ABOUT)
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and the extras, and exit")

    def print_help(_: argparse.Namespace) -> int:
        parser.print_help()
        return EXIT_OK

    parser.set_defaults(run_command=print_help)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return parser
