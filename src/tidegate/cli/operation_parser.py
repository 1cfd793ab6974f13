"""The parser of a command that is declared as an `Operation`, and its run on a stored session."""

import argparse
import sys
from functools import cached_property, partial
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.commands.operations.operation import REPEATED, Operation
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.memory.search import Search
    from tidegate.session.conversation import LiveConversation
    from tidegate.session.recall_index import RecallIndex
    from tidegate.store.session_log import KeptLog

_MANY_EVENTS = 2_000
"""Fewer events are indexed in a second or two, without a progress bar."""


def add_operation(subparsers: Subparsers, operation: Operation) -> None:
    parser = add_command(
        subparsers,
        operation.name,
        partial(run_operation, operation),
        summary=operation.summary,
        description=operation.about,
        epilog=format_examples(operation.name, *operation.examples),
    )
    add_data_options(parser)
    if operation.has_session:
        parser.add_argument("session", metavar="SESSION")
    for each in operation.arguments:
        if each.is_option and each.parse is None:
            parser.add_argument(each.name, action="store_true", help=each.help)
        else:
            parse, default = each.parse or str, [] if each.repeat in REPEATED else each.default
            parser.add_argument(
                each.name, nargs=each.repeat, type=parse, default=default, metavar=each.metavar, help=each.help
            )
        if each.repeat in REPEATED:
            parser.set_defaults(rest_field=each.field)


def run_operation(operation: Operation, options: argparse.Namespace) -> int:
    import msgspec

    from tidegate.cli.data_location import open_data_folder
    from tidegate.core.text.terminal_text import clean_text
    from tidegate.terminal.output import print_json

    with open_data_folder(options) as data:
        result = operation.run(_StoredSession(data, options.session), options)
    as_json = getattr(options, "json", False)
    if as_json:
        print_json(msgspec.json.encode(result.value))
    if result.is_remark or not as_json:
        print(clean_text(result.text), file=sys.stderr if result.is_remark else sys.stdout)
    return EXIT_OK if result.is_done else EXIT_FAILED


class _StoredSession:
    """A session of a data folder. It is opened without its policy, when that is needed."""

    size_name = "History"

    def __init__(self, data: "DataFolder", name: str) -> None:
        self._data = data
        self.session_name = name

    @cached_property
    def session(self) -> "LiveConversation":
        return self._data.open_conversation(self.session_name)

    @cached_property
    def readable_log(self) -> "KeptLog":
        from tidegate.cli.data_location import open_existing_log

        return open_existing_log(self._data, self.session_name)

    @property
    def recall_index(self) -> "RecallIndex":
        return self._data.recall_index(self.session_name)

    def require_data(self) -> "DataFolder":
        return self._data

    def open_search(self) -> "Search":
        from tidegate.terminal.output import show_progress

        events = self._data.count_unindexed_events()
        with show_progress("indexing", events if events >= _MANY_EVENTS else 0) as step:
            self._data.open_search().refresh(step)
        return self._data.open_search()

    def measure(self) -> int:
        """Count in the log, not in `session`, whose view is counted anew: two figures have to be on one scale."""
        return self._data.open_conversation(self.session_name).view.tokens
