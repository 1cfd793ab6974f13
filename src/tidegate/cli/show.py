"""`tidegate show`: an outline of a session, or one of its requests as it was sent."""

import argparse
from typing import TYPE_CHECKING, NamedTuple

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.core.text.plural import format_count
from tidegate.terminal.exit_codes import EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.store.session_log import KeptLog

_ABOUT = """\
Show what was sent to the model. Without --at: the requests of a session and the edits of its view. With --at: the
request exactly as it was sent when the log ended with that record, as JSON; only marks for a prompt cache are left out.
"""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("show", "build-fix", "build-fix --json", "build-fix --at 120")
    parser = add_command(
        subparsers,
        "show",
        run,
        summary="list the requests of a session, or print one as it was sent",
        description=_ABOUT,
        epilog=examples,
    )
    add_data_options(parser)
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument(
        "--at", type=int, metavar="SEQ", help="the number of the last record that the request was made from"
    )
    parser.add_argument("--json", action="store_true", help="the list as JSON; a request is JSON anyway")
    parser.add_argument("--wire", default="", metavar="NAME", help="in this dialect instead of the one it was sent in")


def run(options: argparse.Namespace) -> int:
    import msgspec

    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.core.errors import BadInput
    from tidegate.session.request import render_past_request
    from tidegate.terminal.output import print_json

    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        if options.at is None:
            outline = _read_outline(log)
            if options.json:
                entries = [entry._asdict() for entry in outline.entries]
                print_json(msgspec.json.encode({**outline._asdict(), "entries": entries}))
            else:
                _print_outline(outline)
            return EXIT_OK
        if not 1 <= options.at <= log.head:
            raise BadInput(f"The session has records 1 to {log.head}, not {options.at}.", "Give one of these.")
        print_json(render_past_request(log, options.at, wire=options.wire).to_bytes())
    return EXIT_OK


class OutlineEntry(NamedTuple):
    """Something that happened to the view. `what` is the stage of an edit, the topic of a note, or the denied tool."""

    seq: int
    kind: str
    what: str
    text: str
    tokens_before: int | None = None
    tokens_after: int | None = None


class SessionOutline(NamedTuple):
    records: int
    messages: int
    tokens: int
    turns: int
    model: str
    wire: str
    entries: list[OutlineEntry]
    requests: list[int]
    """The records that requests were made at, which `--at` takes."""


def _read_outline(log: "KeptLog") -> SessionOutline:
    """Read what happened to the view, and where requests were sent."""
    from tidegate.core.log_fold import fold_log
    from tidegate.core.notes import Denial, read_note
    from tidegate.core.policy.trigger_text import make_sentence
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.session.reports.changes import read_change
    from tidegate.session.request import list_sent_requests, parse_model_note

    view = fold_log(log.read)
    model = parse_model_note(view.model_note)
    entries: list[OutlineEntry] = []
    for event in log.read():
        if (change := read_change(event)) is not None:
            name, reason = clean_line(change.name), clean_line(change.reason)
            if change.is_edit:
                sizes = (change.tokens_before, change.tokens_after)
                entries.append(OutlineEntry(event.seq, "edit", name, make_sentence(reason), *sizes))
            else:
                entries.append(OutlineEntry(event.seq, "note", name, reason))
        elif (denial := read_note(event.payload, Denial)) is not None:
            entries.append(OutlineEntry(event.seq, "denied", clean_line(denial.tool), clean_line(denial.by)))
    return SessionOutline(
        log.head,
        view.message_count,
        view.tokens,
        view.visible_turns,
        clean_line(model.model),
        clean_line(model.wire),
        entries,
        [request.log_head for request in list_sent_requests(log)],
    )


def _print_outline(outline: SessionOutline) -> None:
    from tidegate.terminal.output import print_indented

    counts = [(outline.messages, "message"), (outline.tokens, "token"), (outline.turns, "turn")]
    messages, tokens, turns = [format_count(*each) for each in counts]
    records = format_count(outline.records, "record")
    print_indented("", f"The session has {records}. The view has {messages}, {tokens} and {turns}.")
    if outline.model:
        print_indented("", f"The model is {outline.model}; requests are in the format {outline.wire}.")
    for entry in outline.entries:
        if entry.kind == "edit":
            what = f"{entry.what}: {entry.tokens_before:,} -> {entry.tokens_after:,} tokens. {entry.text}"
        elif entry.kind == "denied":
            what = f"{entry.what}: denied by {entry.text}; it was not run"
        else:
            what = f"{entry.what} {entry.text}"
        print_indented(f"{entry.seq:>7}  ", what)
    heads = outline.requests
    if heads:
        is_one, numbers = len(heads) == 1, _format_record_numbers(heads)
        count = "1 request was answered" if is_one else f"{len(heads):,} requests were answered"
        where = f"record {numbers}. --at shows it." if is_one else f"records {numbers}. --at shows one of them."
        print_indented("", f"{count}, made at {where}")


def _format_record_numbers(heads: list[int]) -> str:
    return ", ".join(map(str, heads if len(heads) <= 12 else heads[:6])) + (
        f", ..., {heads[-1]}" if len(heads) > 12 else ""
    )
