"""The parser of a command that is declared as an `Operation`, and its run on a stored session."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.commands.operations.operation import REPEATED, Operation, SessionPlace
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.memory.search import Search

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
        result = operation.run(_make_place(data, options.session), options)
    as_json = getattr(options, "json", False)
    if as_json:
        print_json(msgspec.json.encode(result.value))
    if result.is_remark or not as_json:
        print(clean_text(result.text), file=sys.stderr if result.is_remark else sys.stdout)
    return EXIT_OK if result.is_done else EXIT_FAILED


def _make_place(data: "DataFolder", name: str) -> SessionPlace:
    """A stored session. It is opened without its policy, when that is needed.

    It is measured in its log: the view of an open conversation is counted again, and two figures have to be on one
    scale.
    """
    from tidegate.cli.data_location import open_existing_log

    return SessionPlace(
        name,
        data=lambda: data,
        session=lambda: data.open_conversation(name),
        log=lambda: open_existing_log(data, name),
        recall_index=lambda: data.recall_index(name),
        search=lambda: _refresh_search(data),
        measure=lambda: data.open_conversation(name).view.tokens,
        size_name="History",
    )


def _refresh_search(data: "DataFolder") -> "Search":
    from tidegate.terminal.output import show_progress

    events = data.count_unindexed_events()
    with show_progress("indexing", events if events >= _MANY_EVENTS else 0) as step:
        data.open_search().refresh(step)
    return data.open_search()
