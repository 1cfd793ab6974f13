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
from tidegate.session.recovery import Recovery
from tidegate.store.store import Store

SOURCE = Path(tidegate.__file__).parent
MAKEFILE = SOURCE.parent.parent / "Makefile"

COMMAND = re.compile(r"`tidegate ([a-z]+)((?: [^`]*)?)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SLASH = re.compile(r"(?<![\w/.`:'\"])/([a-z]+)(?=[ .,]|$)")
FUNCTION = re.compile(r"`[\w.]*?(\w+)\(\)`")
TARGET = re.compile(r"`make ([a-z-]+)")


def literals(tree: ast.AST) -> Iterator[str]:
    """The texts of a module, without docstrings. The values in an f-string are left out."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(value) for value in node.values}
            yield "".join(str(value.value) if isinstance(value, ast.Constant) else "{}" for value in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


TEXTS = [
    pytest.param(text, id=f"{path.relative_to(SOURCE)}:{number}")
    for path in sorted(SOURCE.rglob("*.py"))
    for number, text in enumerate(literals(ast.parse(path.read_text("utf-8"))))
    if COMMAND.search(text) or FUNCTION.search(text) or TARGET.search(text)
]


@cache
def options_of(command: str) -> frozenset[str]:
    """The options that the help of a command lists; of none for a command that does not exist."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()), suppress(SystemExit):
        make_parser().parse_args([command, "--help"])
    return frozenset(OPTION.findall(out.getvalue()))


CLASSES = (tidegate.Session, History, Recovery, tidegate.DataFolder, Store)
METHODS = {name for cls in CLASSES for name in dir(cls)}


@pytest.mark.parametrize("text", TEXTS)
def test_what_a_text_names_exists(text: str) -> None:
    for command, rest in COMMAND.findall(text):
        assert options_of(command), f"tidegate {command}"
        assert set(OPTION.findall(rest)) <= options_of(command)
    assert set(FUNCTION.findall(text)) <= METHODS | set(tidegate.__all__)
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE.read_text("utf-8"), re.MULTILINE))
    assert set(TARGET.findall(text)) <= targets


def test_the_check_finds_what_does_not_exist() -> None:
    for text in ("Run `tidegate nothing`.", "See `tidegate sessions --nothing`.", "Call `session.nothing()`."):
        with pytest.raises(AssertionError):
            test_what_a_text_names_exists(text)


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
