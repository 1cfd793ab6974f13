"""A command that exists twice: on the command line for a stored session, and with a slash for the session of a chat.

It is declared once: its name, help and arguments, what it does, and what it says. `cli/operation_parser.py` makes the
parser of the command line from it, and `commands/operation_command.py` the slash command. It imports what it needs when
it runs: all parsers are loaded for `--help`.
"""

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # loaded when an operation runs
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.memory.search import Search
    from tidegate.session.conversation import LiveConversation
    from tidegate.session.recall_index import RecallIndex
    from tidegate.store.log import LogReader


class SessionPlace(NamedTuple):
    """A session that an operation works on, stored or of a chat. Each part is opened when it is asked for.

    In a chat, secrets in `log` are masked. `measure` counts the tokens of what `size_name` names. On the command line,
    `search` indexes what is new with a progress bar.
    """

    name: str
    data: Callable[[], "DataFolder"]
    session: Callable[[], "LiveConversation"]
    log: Callable[[], "LogReader"]
    recall_index: Callable[[], "RecallIndex"]
    search: Callable[[], "Search"]
    measure: Callable[[], int]
    size_name: str


REPEATED: Final = ("*", "+")
"""How often an argument comes that is a list."""


class OperationResult(NamedTuple):
    """What an operation says, and whether it could do what was asked. `value` is what `--json` prints.

    A remark is not what was asked for, such as that nothing was found: the command line prints it to standard error.
    """

    text: str
    is_done: bool = True
    value: object = None
    is_remark: bool = False


class Argument(NamedTuple):
    """An argument: `file`, or an option such as `--at`; an option without a type is a flag.

    `repeat` is how often a positional argument comes, as argparse has it; in a chat only "+" is required. There, an
    option with a `word` may be written as `at 120` at the end of the line, and a positional argument is the rest.
    """

    name: str
    metavar: str = ""
    help: str = ""
    default: object = ""
    parse: Callable[[str], object] | None = None
    repeat: str | None = None
    word: str = ""

    @property
    def field(self) -> str:
        return self.name.removeprefix("--")

    @property
    def is_option(self) -> bool:
        return self.name.startswith("--")


class Operation(NamedTuple):
    """`changes_session`: in a chat it waits until the agent is idle; the others read, perhaps for long.

    Without `has_session` it works on the whole data folder.
    """

    name: str
    summary: str
    about: str
    examples: tuple[str, ...]
    run: Callable[[SessionPlace, Namespace], OperationResult]
    arguments: tuple[Argument, ...] = ()
    changes_session: bool = False
    has_session: bool = True
