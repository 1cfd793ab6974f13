"""The parser of a command that is declared as an `Operation`, and its run on a stored session."""

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_agent_options, add_command, add_data_options, format_examples
from tidegate.commands.operations.operation import REPEATED, Operation, SessionPlace
from tidegate.core.errors import BadInput
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.agent.config.launch import LaunchOptions
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.datafolder.session_logs import SessionLogs
    from tidegate.memory.search import Search

_MANY_EVENTS = 2_000
"""Fewer events are indexed in a second or two, without a progress bar."""


def add_operation(subparsers: Subparsers, operation: Operation) -> None:
    examples = format_examples(operation.name, *operation.examples)
    parser = add_command(
        subparsers,
        operation.name,
        partial(run_operation, operation),
        summary=operation.summary,
        description=operation.about,
        epilog=f"{examples}\n{operation.notes}".rstrip(),
    )
    if operation.scope in ("session", "data"):
        add_data_options(parser)
    if operation.scope == "agent":
        add_agent_options(parser)
    if operation.scope == "session":
        parser.add_argument("session", metavar="SESSION")
    for each in operation.arguments:
        if each.is_option and each.parse is None:
            parser.add_argument(each.name, action="store_true", help=each.help)
        else:
            parse, default = _name_fault(each.parse or str), [] if each.repeat in REPEATED else each.default
            parser.add_argument(
                each.name, nargs=each.repeat, type=parse, default=default, metavar=each.metavar, help=each.help
            )
        if each.repeat in REPEATED:
            parser.set_defaults(rest_field=each.field)


def _name_fault(parse: Callable[[str], object]) -> Callable[[str], object]:
    """The reader of an argument, so that argparse names the argument if its value cannot be read."""

    def read(text: str) -> object:
        try:
            return parse(text)
        except BadInput as bad:
            raise argparse.ArgumentTypeError(" ".join(map(str, (*bad.args[:1], bad.remedy)))) from bad

    return read


def run_operation(operation: Operation, options: argparse.Namespace) -> int:
    """Run the operation and print its result. What it opens stays open until all lines are printed."""
    import msgspec

    from tidegate.core.text.terminal_text import clean_text
    from tidegate.terminal.output import print_json

    with ExitStack() as stack:
        result = operation.run(_make_place(options, stack), options)
        for line in result.lines:
            sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    as_json = getattr(options, "json", False)
    if as_json and result.value is not None:
        print_json(msgspec.json.encode(result.value))
    elif result.text:
        print(clean_text(result.text))
    if result.remark and not as_json:
        print(clean_text(result.remark), file=sys.stderr)
    return EXIT_OK if result.is_done else EXIT_FAILED


def _make_place(options: argparse.Namespace, stack: ExitStack) -> SessionPlace:
    """What is stored. A session is opened without its policy, when that is needed.

    It is measured in its log: the view of an open conversation is counted again, and two figures have to be on one
    scale.
    """
    from tidegate.cli.data_location import open_existing_log
    from tidegate.terminal.output import find_terminal_width

    name = getattr(options, "session", "")

    @cache
    def data() -> "DataFolder":
        from tidegate.cli.data_location import open_data_folder

        return stack.enter_context(open_data_folder(options))

    return SessionPlace(
        name,
        data=data,
        logs=lambda: _open_logs(options, stack),
        session=lambda: data().open_conversation(name),
        log=lambda: open_existing_log(data(), name),
        recall_index=lambda: data().recall_index(name),
        search=lambda: _refresh_search(data()),
        launch_options=lambda: _make_launch_options(options),
        measure=lambda: data().open_conversation(name).view.tokens,
        size_name="History",
        require_idle=lambda: None,
        is_chat=False,
        width=find_terminal_width(),
    )


def _open_logs(options: argparse.Namespace, stack: ExitStack) -> "SessionLogs | None":
    import os

    from tidegate.cli.data_location import check_data_folder, locate_data_folder
    from tidegate.datafolder.location import STORE_VARIABLE
    from tidegate.datafolder.session_logs import SessionLogs

    folder, store = locate_data_folder(options), options.store or os.environ.get(STORE_VARIABLE, "")
    if not folder.is_dir() and not options.data and not store:
        return None
    check_data_folder(folder)
    return stack.enter_context(SessionLogs(folder, store=store))


def _make_launch_options(options: argparse.Namespace) -> "LaunchOptions":
    from tidegate.cli.launch import make_launch_options

    return make_launch_options(options)


def _refresh_search(data: "DataFolder") -> "Search":
    from tidegate.terminal.output import show_progress

    events = data.count_unindexed_events()
    with show_progress("indexing", events if events >= _MANY_EVENTS else 0) as step:
        data.open_search().refresh(step)
    return data.open_search()
