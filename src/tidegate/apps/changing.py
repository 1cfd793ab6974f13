"""`tidegate undo`, `redo`, `clear`, `fork` and `forget`: changing what is kept, each as one act that is logged."""

import argparse
import getpass
import sys
from collections.abc import Callable

from tidegate.apps.choices import FAILED, OK
from tidegate.apps.place import opened
from tidegate.apps.sessions import known
from tidegate.apps.terminal import ask_line
from tidegate.core.errors import BadInput
from tidegate.core.terminal_text import clean_line
from tidegate.keep.data import DataFolder
from tidegate.keep.forget import forget_message, forget_session, forget_words
from tidegate.session.live import Live


def undo_command(options: argparse.Namespace) -> int:
    return _taken_back(options, Live.undo, "There is no compaction to undo.", "is undone")


def redo_command(options: argparse.Namespace) -> int:
    return _taken_back(options, Live.redo, "Nothing was undone.", "holds again")


def _taken_back(options: argparse.Namespace, act: Callable[[Live], int | None], none: str, done: str) -> int:
    with opened(options) as data:
        live = data.look(options.session)
        before = live.view.tokens
        seq = act(live)
        if seq is None:
            print(none)
            return FAILED
        print(f"The edit at record {seq} {done}: {before:,} -> {live.view.tokens:,} tokens.")
    return OK


def clear_command(options: argparse.Namespace) -> int:
    with opened(options) as data:
        live = data.look(options.session)
        messages, tokens = live.view.messages, live.view.tokens
        live.clear()
    print(f"{messages} messages, {tokens:,} tokens left the context. The log keeps them.")
    return OK


def fork_command(options: argparse.Namespace) -> int:
    with opened(options) as data:
        at = options.at or known(data, options.session).head
        data.fork(options.session, at, options.new)
    print(f"{clean_line(options.new)} begins as {clean_line(options.session)} was at record {at}.")
    return OK


def forget_command(options: argparse.Namespace) -> int:
    if options.words and options.ids:
        raise BadInput("Give ids or --words, not both.", "Forget them one after the other.")
    with opened(options) as data:
        known(data, options.session)
        if options.words:
            print(forget_words(data, options.session, _words()))
            return OK
        if not _agreed(options):
            print("Nothing was done.")
            return FAILED
        return _forget(data, options)


def _forget(data: DataFolder, options: argparse.Namespace) -> int:
    if options.ids:
        print(forget_message(data, options.session, *options.ids))
    else:
        print(forget_session(data, options.session))
    return OK


def _words() -> str:
    """Not from the command line: it stays in the shell's history and shows in the list of processes."""
    if sys.stdin.isatty():
        return getpass.getpass("Words to forget (not shown): ")
    return sys.stdin.read().rstrip("\r\n")


def _agreed(options: argparse.Namespace) -> bool:
    if options.yes:
        return True
    what = " ".join(options.ids) or f"the whole session {options.session!r}"
    if not sys.stdin.isatty():
        raise BadInput(f"Forgetting {what} cannot be undone.", "Say --yes if you are sure.")
    return ask_line(f"Forget {what}? This cannot be undone. [y/N] ").strip().lower() in ("y", "yes")
