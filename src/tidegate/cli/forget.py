"""`tidegate forget`: remove sessions, messages, or a text from everything that is stored."""

import argparse
import sys
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples, parse_positive_int
from tidegate.core.errors import BadInput
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.datafolder.data_folder import DataFolder

_ABOUT = """\
Remove content from a log: a whole session, messages by id, or words such as a pasted secret. No other command does
this. Words are asked for or read from standard input, so that they are not in the history of your shell. Of a removed
message, its number and role stay. --unused-for removes all sessions that were not used for some days. --dry-run says
what would be removed, and removes nothing.
"""
_EXAMPLES = ("old", "old m12 m13", "old --words < key", "--unused-for 90 --dry-run", "--tenant red --everything")


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "forget",
        run,
        summary="remove sessions, a message, a secret",
        description=_ABOUT,
        epilog=format_examples("forget", *_EXAMPLES),
    )
    add_data_options(parser)
    parser.add_argument("session", nargs="?", default="", metavar="SESSION")
    parser.add_argument("ids", nargs="*", metavar="ID", help="messages to remove (default: the whole session)")
    parser.add_argument(
        "--words", action="store_true", help="remove a text, which is asked for or read from standard input"
    )
    parser.add_argument(
        "--unused-for",
        type=parse_positive_int,
        default=0,
        metavar="DAYS",
        help="remove all sessions that were last used longer ago; one that is open is kept",
    )
    parser.add_argument(
        "--tenant", default="", metavar="NAME", help="do it for this tenant, as the owner of PostgreSQL's tables"
    )
    parser.add_argument(
        "--everything", action="store_true", help="with --tenant: all its sessions, notes, files and search index"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed; remove nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run(options: argparse.Namespace) -> int:
    from tidegate.cli.data_location import open_data_folder, open_tenant

    _check_options(options)
    with open_data_folder(options) as data:
        if not options.tenant:
            return _forget(data, options)
        with open_tenant(data, options.tenant) as other:
            return _forget(other, options)


def _check_options(options: argparse.Namespace) -> None:
    if (bool(options.session), bool(options.unused_for), options.everything).count(True) != 1:
        raise BadInput("It is not clear what to forget.", "Name a session, or give --unused-for DAYS, or --everything.")
    if options.everything and not options.tenant:
        raise BadInput("--everything needs --tenant.", "To remove everything of this computer, delete the data folder.")
    if options.words and (options.ids or not options.session):
        raise BadInput("--words needs one session, and no ids.", "Forget them one after the other.")


def _forget(data: "DataFolder", options: argparse.Namespace) -> int:
    if options.everything:
        return _forget_tenant(data, options)
    if options.unused_for:
        return _forget_unused(data, options)
    return _forget_in_session(data, options)


def _forget_in_session(data: "DataFolder", options: argparse.Namespace) -> int:
    from tidegate.cli.data_location import open_existing_log
    from tidegate.datafolder.forget.forget import forget_message, forget_session, forget_words, preview_forget

    open_existing_log(data, options.session)
    name, ids = options.session, options.ids
    words = _read_words() if options.words else ""
    if options.dry_run:
        print(
            f"Nothing is removed. This would be:\n{preview_forget(data, name, ids, words if options.words else None)}"
        )
        return EXIT_OK
    if options.words:
        print(forget_words(data, name, words))
        return EXIT_OK
    if not _confirm(options, " ".join(ids) or f"the whole session {name!r}"):
        return EXIT_FAILED
    print(forget_message(data, name, *ids) if ids else forget_session(data, name))
    return EXIT_OK


def _forget_unused(data: "DataFolder", options: argparse.Namespace) -> int:
    from tidegate.core.text.plural import format_byte_size, format_count
    from tidegate.core.text.terminal_text import format_visible_name
    from tidegate.datafolder.retention import list_unused_sessions, remove_unused_sessions
    from tidegate.datafolder.time_format import format_time

    sessions = list_unused_sessions(data, options.unused_for)
    what = f"{format_count(len(sessions), 'session')} not used for {format_count(options.unused_for, 'day')}"
    if options.dry_run:
        for info in sessions:
            size = f"{format_count(info.head, 'record')}, {format_byte_size(info.size)}"
            print(f"{format_visible_name(info.name)}: {size}, last used {format_time(info.used)}")
        print(f"{what} would be removed, {format_byte_size(sum(info.size for info in sessions))}.")
        return EXIT_OK
    if not sessions:
        print("There are none.")
        return EXIT_OK
    if not _confirm(options, what):
        return EXIT_FAILED
    removals = remove_unused_sessions(data, options.unused_for)
    left = len(sessions) - len(removals)
    print(f"{format_count(len(removals), 'session')} removed.{f' {left:,} in use.' if left > 0 else ''}")
    return EXIT_OK


def _forget_tenant(data: "DataFolder", options: argparse.Namespace) -> int:
    from tidegate.core.text.plural import format_byte_size, format_count
    from tidegate.store.store import TenantStore

    infos, notes = data.store.sessions(), data.notes.names()
    size = format_byte_size(sum(info.size for info in infos))
    what = f"everything of the tenant {options.tenant!r} ({format_count(len(infos), 'session')}, {size}, "
    what += f"{format_count(len(notes), 'note')})"
    if options.dry_run:
        print(f"{what[0].upper()}{what[1:]} would be removed.")
        return EXIT_OK
    if not _confirm(options, what) or not isinstance(data.store, TenantStore):
        return EXIT_FAILED
    print(f"{format_count(data.store.remove_tenant(), 'session')} of the tenant and all its files are removed.")
    print("Delete the data folders of its workers, too: they have traces and snapshots.")
    return EXIT_OK


def _read_words() -> str:
    """Ask for the words. On the command line they would be in the shell's history and in the list of processes."""
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("Words to forget (not shown): ")
    return sys.stdin.read().rstrip("\r\n")


def _confirm(options: argparse.Namespace, what: str) -> bool:
    from tidegate.terminal.output import ask_line

    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise BadInput(f"Forgetting {what} cannot be undone.", "Add --yes if you are sure.")
    if ask_line(f"Forget {what}? This cannot be undone. [y/N] ").strip().lower() in ("y", "yes"):
        return True
    print("Nothing was done.")
    return False
