"""A command that is declared once is on the command line and in the chat, and reads its arguments alike."""

import pytest

from tidegate import BadInput
from tidegate.cli.parser import make_parser
from tidegate.commands.catalog import create_command_registry
from tidegate.commands.operation_command import parse_arguments
from tidegate.commands.operations.clear import CLEAR
from tidegate.commands.operations.config import CONFIG
from tidegate.commands.operations.export import EXPORT
from tidegate.commands.operations.fork import FORK
from tidegate.commands.operations.memory import MEMORY
from tidegate.commands.operations.operation import Operation
from tidegate.commands.operations.policies import POLICIES
from tidegate.commands.operations.recall import RECALL
from tidegate.commands.operations.sessions import SESSIONS
from tidegate.commands.operations.trace import TRACE
from tidegate.commands.operations.undo import REDO, UNDO

OPERATIONS = (UNDO, REDO, FORK, RECALL, EXPORT, MEMORY, SESSIONS, TRACE, POLICIES, CONFIG)
LINES = [
    (FORK, "other", ["other"]),
    (FORK, "other at m12", ["other", "--at", "m12"]),
    (FORK, "--at 12 other", ["--at", "12", "other"]),
    (RECALL, "port 8443 offset 200", ["port", "8443", "--offset", "200"]),
    (RECALL, "--chars 900 port", ["--chars", "900", "port"]),
    (EXPORT, "a.md --handoff --window 16k", ["a.md", "--handoff", "--window", "16k"]),
    (RECALL, "--chars 900 --offset 3 port", ["--chars", "900", "--offset", "3", "port"]),
    (MEMORY, "search --notes deploy it", ["search", "--notes", "deploy", "it"]),
    (MEMORY, "", []),
    (UNDO, "", []),
    (SESSIONS, "--page 2 build", ["--page", "2", "build"]),
    (SESSIONS, "build", ["build"]),
    (TRACE, "20", ["20"]),
    (TRACE, "--usage", ["--usage"]),
    (POLICIES, "default", ["default"]),
    (CONFIG, "", []),
    (CONFIG, "execution.max_steps 20", ["execution.max_steps", "20"]),
]


@pytest.mark.parametrize(("operation", "line", "words"), LINES)
def test_a_line_of_the_chat_means_what_the_command_line_means(
    operation: Operation, line: str, words: list[str]
) -> None:
    parser = make_parser([operation.name])
    session = ["work"] if operation.scope == "session" else []
    options = vars(parser.parse_command_line([operation.name, *session, *words]))
    values = vars(parse_arguments(operation, line))
    assert values == {name: options[name] for name in values}


def test_words_that_only_look_like_options_are_text() -> None:
    assert parse_arguments(RECALL, "the offset of 12").what == ["the", "offset", "of", "12"]
    assert parse_arguments(FORK, "look at it").new == "look at it"
    assert parse_arguments(RECALL, "--json").what == ["--json"]
    assert parse_arguments(EXPORT, "my copy.tidegate").file == "my copy.tidegate"


@pytest.mark.parametrize(
    ("operation", "line", "message"),
    [
        (UNDO, "now", "/undo does not take 'now'."),
        (FORK, "--at", "--at has no value. Write --at ID."),
        (FORK, "x --at y", "'y' is not the number of a record."),
        (RECALL, "", "/recall needs an id"),
        (RECALL, "x --chars many", "--chars is 'many'."),
        (EXPORT, "--window x", "Give a positive whole number"),
        (TRACE, "all", "'all' is not a positive whole number."),
        (SESSIONS, "--page 0", "'0' is not a positive whole number."),
    ],
)
def test_a_mistake_says_what_to_write(operation: Operation, line: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_arguments(operation, line)
    assert message in str(caught.value)


def test_each_is_in_both_places_with_the_same_options() -> None:
    registry = create_command_registry()
    for operation in OPERATIONS:
        command_help = make_parser([operation.name]).commands[operation.name].format_help()
        for each in operation.arguments:
            assert each.name.removeprefix("--") in command_help or each.metavar in command_help
            if each.is_option and each.field != "json":
                assert f"{each.name} {each.metavar}".rstrip() in registry.help(operation.name)
    assert CLEAR.name in make_parser().commands, "in the chat it is /context clear"
