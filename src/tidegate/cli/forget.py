"""`tidegate undo`, `redo`, `clear`, `fork` and `forget`: changing what is kept, each as one act that is logged."""

import argparse
import getpass
import sys
from collections.abc import Callable

from tidegate.cli.data_location import open_data_folder
from tidegate.cli.sessions import open_existing_log
from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.forget.forget import forget_message, forget_session, forget_words
from tidegate.session.conversation import LiveConversation
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK
from tidegate.terminal.output import ask_line


def undo_command(options: argparse.Namespace) -> int:
    return _toggle_edit(options, LiveConversation.undo, "There is no compaction to undo.", "is undone")


def redo_command(options: argparse.Namespace) -> int:
    return _toggle_edit(options, LiveConversation.redo, "Nothing was undone.", "holds again")


def _toggle_edit(
    options: argparse.Namespace, act: Callable[[LiveConversation], int | None], none: str, done: str
) -> int:
    with open_data_folder(options) as data:
        live = data.open_conversation(options.session)
        before = live.view.tokens
        seq = act(live)
        if seq is None:
            print(none)
            return EXIT_FAILED
        print(f"The edit at record {seq} {done}: {before:,} -> {live.view.tokens:,} tokens.")
    return EXIT_OK


def clear_command(options: argparse.Namespace) -> int:
    with open_data_folder(options) as data:
        live = data.open_conversation(options.session)
        messages, tokens = live.view.message_count, live.view.tokens
        live.clear()
    print(f"{messages} messages, {tokens:,} tokens left the context. The log keeps them.")
    return EXIT_OK


def fork_command(options: argparse.Namespace) -> int:
    with open_data_folder(options) as data:
        at = options.at or open_existing_log(data, options.session).head
        data.fork(options.session, at, options.new)
    print(f"{clean_line(options.new)} begins as {clean_line(options.session)} was at record {at}.")
    return EXIT_OK


def forget_command(options: argparse.Namespace) -> int:
    if options.words and options.ids:
        raise BadInput("Give ids or --words, not both.", "Forget them one after the other.")
    with open_data_folder(options) as data:
        open_existing_log(data, options.session)
        if options.words:
            print(forget_words(data, options.session, _read_phrase()))
            return EXIT_OK
        if not _confirm(options):
            print("Nothing was done.")
            return EXIT_FAILED
        return _forget_ids_or_session(data, options)


def _forget_ids_or_session(data: DataFolder, options: argparse.Namespace) -> int:
    if options.ids:
        print(forget_message(data, options.session, *options.ids))
    else:
        print(forget_session(data, options.session))
    return EXIT_OK


def _read_phrase() -> str:
    """Not from the command line: it stays in the shell's history and shows in the list of processes."""
    if sys.stdin.isatty():
        return getpass.getpass("Words to forget (not shown): ")
    return sys.stdin.read().rstrip("\r\n")


def _confirm(options: argparse.Namespace) -> bool:
    if options.yes:
        return True
    what = " ".join(options.ids) or f"the whole session {options.session!r}"
    if not sys.stdin.isatty():
        raise BadInput(f"Forgetting {what} cannot be undone.", "Say --yes if you are sure.")
    return ask_line(f"Forget {what}? This cannot be undone. [y/N] ").strip().lower() in ("y", "yes")
