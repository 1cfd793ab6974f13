"""The parser of the command line: `tidegate` and its commands, each of which adds its own parser."""

import argparse
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from tidegate import __version__
from tidegate.cli.extras import list_extras
from tidegate.cli.operation_parser import add_operation
from tidegate.cli.options import HelpFormatter
from tidegate.terminal.exit_codes import EXIT_OK, EXIT_USAGE

_ABOUT = "Keeps an LLM agent's context window from overflowing: a log of everything, and a view of it that always fits."
_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("talk with an agent", ("chat", "run", "demo")),
    ("keep a client's window from overflowing", ("wrap", "serve", "ui", "mcp")),
    ("look at sessions", ("sessions", "show", "misses", "trace", "view", "recall", "memory")),
    ("change and move sessions", ("undo", "clear", "fork", "forget", "export", "import_", "doctor")),
    ("compare policies", ("policies", "lab", "replay", "tune")),
    ("set up", ("config", "plugins", "fetch", "completion")),
)
"""The modules of the commands, in the order of `tidegate --help`."""
_UNLISTED = ("seeds",)
"""Commands for those who work on tidegate itself."""
_MODULES = {name: name for _, names in (*_GROUPS, ("", _UNLISTED)) for name in names}
_MODULES |= {"import": "import_", "redo": "undo"}
"""The module of each command."""
_OPERATIONS = frozenset(
    {"sessions", "trace", "recall", "memory", "undo", "clear", "fork", "export", "policies", "config"}
)
"""Modules of commands that are slash commands of the chat, too."""
_EPILOG = """\
`tidegate COMMAND --help` describes a command and has examples. Sessions are in ~/.local/share/tidegate, your settings
in ~/.config/tidegate and results of the lab in ~/.cache/tidegate. To remove everything, delete these three folders.
"""


class _ShowVersion(argparse.Action):
    """Looks for the extras when it is asked: finding packages takes time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        import platform  # slow to import

        extras = list_extras()
        print(f"tidegate {__version__} with Python {platform.python_version()}")
        print("extras installed:", ", ".join(name for name, is_there in extras.items() if is_there) or "none")
        if missing := [name for name, is_there in extras.items() if not is_there]:
            print(f"not installed:    {', '.join(missing)}   (pip install 'tidegate[{','.join(missing)}]')")
        parser.exit(EXIT_OK)


class CommandParser(argparse.ArgumentParser):
    def error(self, message: str, remedy: str = "") -> NoReturn:
        """Print one line and a remedy, not the whole usage."""
        remedy = remedy or f"`{self.prog} --help` lists what is accepted."
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message}\nremedy: {remedy}\n")

    def list_option_names(self) -> list[str]:
        return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", self.format_help().partition("examples:")[0])))


class TidegateParser(CommandParser):
    """The parser of `tidegate`. Its help lists the commands in groups, and it suggests names for mistyped ones.

    Without a command it prints the help. Its result has `run_command`, the function of the command.

    With the name of a command it knows only the commands of that module: making all parsers takes longer than most
    commands.
    """

    def __init__(self, command: str = "") -> None:
        super().__init__(prog="tidegate", description=_ABOUT, formatter_class=HelpFormatter)
        self.commands: dict[str, CommandParser] = {}
        self.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and the extras, and exit")
        self.set_defaults(run_command=self._print_help)
        self._summaries: list[tuple[str, str]] = []
        self._groups: list[tuple[str, list[tuple[str, str]]]] = []
        self._subparsers_action = self.add_subparsers(
            prog="tidegate", dest="command", metavar="COMMAND", parser_class=CommandParser
        )
        only = _MODULES.get(command, "")
        for title, modules in (*_GROUPS, ("", _UNLISTED)):
            self._summaries = []
            for module in modules:
                if module == only or not only:
                    self._load_module(module)
            if title:
                self._groups.append((title, self._summaries))

    def _load_module(self, name: str) -> None:
        if name in _OPERATIONS:
            for operation in import_module(f"tidegate.commands.operations.{name}").OPERATIONS:
                add_operation(self, operation)
        else:
            import_module(f"tidegate.cli.{name}").add_parser(self)

    def add_parser(self, name: str, *, help: str, **options: Any) -> CommandParser:  # noqa: A002 - argparse's own name
        """Add the parser of a command, as what `add_subparsers` returns does."""
        parser: CommandParser = self._subparsers_action.add_parser(name, **options)
        self.commands[name] = parser
        self._summaries.append((name, help))
        return parser

    def format_help(self) -> str:
        formatter = self.formatter_class(prog=self.prog)
        formatter.add_usage("tidegate COMMAND ...", (), ())
        formatter.add_text(self.description)
        for title, commands in self._groups:
            formatter.start_section(title)
            formatter.add_arguments([argparse.Action([], "", metavar=name, help=text) for name, text in commands])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([each for each in self._actions if each.option_strings])
        formatter.end_section()
        formatter.add_text(_EPILOG)
        return formatter.format_help()

    def _print_help(self, _: argparse.Namespace) -> int:
        self.print_help()
        return EXIT_OK

    def parse_command_line(self, words: Sequence[str]) -> argparse.Namespace:
        """`parse_args`, but an unknown command or option is reported with the name that was probably meant."""
        command = next((word for word in words if not word.startswith("-")), "")
        if command and command not in self.commands:
            remedy = f"{_suggest(command, self.commands)}`tidegate --help` lists the commands."
            self.error(f"there is no command {command!r}.", remedy)
        options, unknown = self.parse_known_args(words)
        if "rest_field" in options and not any(word.startswith("-") for word in unknown):
            getattr(options, options.rest_field).extend(unknown)  # argparse leaves the words behind an option
            unknown = []
        if unknown:
            parser = self.commands.get(options.command, self)
            mistyped = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
            guess = _suggest(mistyped, parser.list_option_names()) if mistyped else ""
            remedy = f"{guess}`{parser.prog} --help` lists what is accepted."
            parser.error(f"unrecognized arguments: {' '.join(unknown)}", remedy)
        return options


def _suggest(word: str, names: Iterable[str]) -> str:
    import difflib

    matches = difflib.get_close_matches(word[:80], list(names), n=1)
    return f"Did you mean {matches[0]}? " if matches else ""


def make_parser(words: Sequence[str] = ()) -> TidegateParser:
    """Return the parser of a command line that begins with these words, or without words that of every one."""
    return TidegateParser(words[0] if words else "")
