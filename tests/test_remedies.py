"""What a text of the product tells people to use exists: commands, options, slash commands, functions, make targets."""

import ast
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path

import pytest

import tidegate
from tidegate.cli.parser import make_parser
from tidegate.commands.catalog import create_command_registry
from tidegate.session.history import History
from tidegate.session.policy_runner import Recovery
from tidegate.store.store import Store

SOURCE = Path(tidegate.__file__).parent
MAKEFILE = SOURCE.parent.parent / "Makefile"

COMMAND = re.compile(r"`tidegate ([a-z]+)((?: [^`]*)?)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SLASH = re.compile(r"(?<![\w/.`:'\"])/([a-z]+)(?=[ .,]|$)")
FUNCTION = re.compile(r"`[\w.]*?(\w+)\(\)`")
TARGET = re.compile(r"`make ([a-z-]+)")
MAYBE_NAMES = re.compile(r"`tidegate |\(\)`|`make ")  # to parse all files takes seconds; few of them have such a text


def literals(tree: ast.AST) -> Iterator[str]:
    """The texts of a module, without docstrings. The values in an f-string are left out."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(value) for value in node.values}
            yield "".join(str(value.value) if isinstance(value, ast.Constant) else "{}" for value in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@cache
def package_texts() -> dict[str, str]:
    """The texts that name something, by file and number."""
    return {
        f"{path.relative_to(SOURCE)}:{number}": text
        for path in sorted(SOURCE.rglob("*.py"))
        if MAYBE_NAMES.search(source := path.read_text("utf-8"))
        for number, text in enumerate(literals(ast.parse(source)))
        if COMMAND.search(text) or FUNCTION.search(text) or TARGET.search(text)
    }


@cache
def options_of(command: str) -> frozenset[str]:
    """The options that the help of a command lists; of none for a command that does not exist."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()), suppress(SystemExit):
        make_parser().parse_args([command, "--help"])
    return frozenset(OPTION.findall(out.getvalue()))


CLASSES = (tidegate.Session, History, Recovery, tidegate.DataFolder, Store)
METHODS = {name for cls in CLASSES for name in dir(cls)}


def unknown_names(text: str) -> list[str]:
    """The commands, options, functions and make targets that a text names and that do not exist."""
    unknown = []
    for command, rest in COMMAND.findall(text):
        options = options_of(command)
        unknown += [f"tidegate {command} {option}" for option in OPTION.findall(rest) if option not in options]
        unknown += [] if options else [f"tidegate {command}"]
    unknown += [name for name in FUNCTION.findall(text) if name not in METHODS | set(tidegate.__all__)]
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE.read_text("utf-8"), re.MULTILINE))
    return unknown + [f"make {target}" for target in TARGET.findall(text) if target not in targets]


def test_what_a_text_names_exists() -> None:
    assert len(package_texts()) > 20
    unknown = {place: found for place, text in package_texts().items() if (found := unknown_names(text))}
    assert unknown == {}


@pytest.mark.parametrize(
    "text",
    [
        "Run `tidegate nothing`.",
        "See `tidegate sessions --nothing`.",
        "Call `session.nothing()`.",
        "Try `make nothing`.",
    ],
)
def test_the_check_finds_what_does_not_exist(text: str) -> None:
    assert unknown_names(text)


def test_slash_commands_named_in_answers_exist() -> None:
    known = {command.name for command in create_command_registry()}
    rooms = [*(SOURCE / "commands").rglob("*.py"), *(SOURCE / "tui").rglob("*.py")]
    named = {
        name
        for path in rooms
        for text in literals(ast.parse(path.read_text("utf-8")))
        if " " in text
        for name in SLASH.findall(text)
    }
    assert named
    assert named <= known
