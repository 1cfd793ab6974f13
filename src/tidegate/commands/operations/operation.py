"""A command that exists twice: on the command line for a stored session, and with a slash for the session of a chat.

It is declared once: its name, help and arguments, what it does, and what it says. `cli/operation_parser.py` makes the
parser of the command line from it, and `commands/operation_command.py` the slash command. It imports what it needs when
it runs: all parsers are loaded for `--help`.
"""

from argparse import Namespace
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tidegate.core.errors import BadInput

if TYPE_CHECKING:  # loaded when an operation runs
    from tidegate.agent.config.launch import LaunchOptions
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.datafolder.session_logs import SessionLogs
    from tidegate.memory.search import Search
    from tidegate.session.conversation import LiveConversation
    from tidegate.session.recall_index import RecallIndex
    from tidegate.store.log import LogReader


class SessionPlace(NamedTuple):
    """Where an operation works: on what is stored, or in a chat. Each part is opened when it is asked for.

    In a chat, secrets in `log` are masked. `measure` counts the tokens of what `size_name` names. On the command line,
    `search` indexes what is new with a progress bar. `logs` is enough for a list and loads quickly; it is None if
    nothing was ever stored in the default folder. `require_idle` raises BadInput while the agent of a chat works.
    `policy` is the name of the policy of a chat. `width` is that of the terminal, None if the text goes elsewhere.
    """

    name: str
    data: Callable[[], "DataFolder"]
    logs: Callable[[], "DataFolder | SessionLogs | None"]
    session: Callable[[], "LiveConversation"]
    log: Callable[[], "LogReader"]
    recall_index: Callable[[], "RecallIndex"]
    search: Callable[[], "Search"]
    launch_options: Callable[[], "LaunchOptions"]
    measure: Callable[[], int]
    size_name: str
    require_idle: Callable[[], None]
    is_chat: bool
    policy: str = ""
    width: int | None = None


REPEATED: Final = ("*", "+")
"""How often an argument comes that is a list."""


class OperationResult(NamedTuple):
    """What an operation says, and whether it could do what was asked. `value` is what `--json` prints.

    A remark is not what was asked for, such as that nothing was found: the command line prints it to standard error.
    `lines` is what the command line prints instead of a text, one line of JSON for each.
    """

    text: str = ""
    is_done: bool = True
    value: object = None
    remark: str = ""
    lines: Iterable[object] = ()


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

    `scope` is what it works on. On the command line it decides which options there are beside its own: those that name
    a session, the data folder, or an agent.
    """

    name: str
    summary: str
    about: str
    examples: tuple[str, ...]
    run: Callable[[SessionPlace, Namespace], OperationResult]
    arguments: tuple[Argument, ...] = ()
    changes_session: bool = False
    scope: Literal["session", "data", "agent", "program"] = "session"
    notes: str = ""
    """What the help of the command line ends with."""


def parse_count(text: str) -> int:
    """Read a positive whole number, of lines for example."""
    if not text.isdecimal() or not 0 < len(text) < 10 or not int(text):
        raise BadInput(f"{text[:80]!r} is not a positive whole number.", "Give one such as 3.")
    return int(text)
