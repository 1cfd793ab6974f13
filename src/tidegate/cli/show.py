"""`tidegate show`: an outline of a session, or one of its requests as it was sent."""

import argparse
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.core.text.plural import format_count
from tidegate.terminal.exit_codes import EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.store.session_log import KeptLog

_ABOUT = """\
Show what was sent to the model. Without --at: the requests of a session and the edits of its view. With --at: the
request exactly as it was sent when the log ended with that record, as JSON; only marks for a prompt cache are left out.
"""
_LISTED_TOPICS = ("undo", "redo", "clear", "forgotten", "overflow")


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("show", "build-fix", "build-fix --at 120")
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
    parser.add_argument("--wire", default="", metavar="NAME", help="in this dialect instead of the one it was sent in")


def run(options: argparse.Namespace) -> int:
    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.core.errors import BadInput
    from tidegate.session.request import render_past_request
    from tidegate.terminal.output import print_json

    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        if options.at is None:
            _print_outline(log)
            return EXIT_OK
        if not 1 <= options.at <= log.head:
            raise BadInput(f"The session has records 1 to {log.head}, not {options.at}.", "Give one of these.")
        print_json(render_past_request(log, options.at, wire=options.wire).to_bytes())
    return EXIT_OK


def _print_outline(log: "KeptLog") -> None:
    """Print what happened to the view, and where requests were sent."""
    from tidegate.core.events import NoteAdded, ViewEdited
    from tidegate.core.log_fold import fold_log
    from tidegate.core.policy.trigger_text import make_sentence
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.session.denials import parse_denial
    from tidegate.session.request import list_sent_requests, parse_model_note

    view = fold_log(log.read)
    model = parse_model_note(view.model_note)
    counts = [(view.message_count, "message"), (view.tokens, "token"), (view.visible_turns, "turn")]
    size = [format_count(*each) for each in counts]
    print(f"The session has {format_count(log.head, 'record')}. The view has {size[0]}, {size[1]} and {size[2]}.")
    if model.model:
        print(f"The model is {clean_line(model.model)}; requests are in the format {clean_line(model.wire)}.")
    for event in log.read():
        payload = event.payload
        if isinstance(payload, ViewEdited):
            stage, why = clean_line(payload.stage), make_sentence(clean_line(payload.why))
            print(
                f"{event.seq:>7}  {stage}: {payload.tokens_before:,} -> {payload.tokens_after:,} tokens. {why}".rstrip()
            )
        elif isinstance(payload, NoteAdded) and payload.topic in _LISTED_TOPICS:
            print(f"{event.seq:>7}  {payload.topic} {clean_line(payload.text)}".rstrip())
        elif (denial := parse_denial(payload)) is not None:
            print(f"{event.seq:>7}  {clean_line(denial.tool)}: denied by {clean_line(denial.by)}; it was not run")
    heads = [sent.log_head for sent in list_sent_requests(log)]
    if heads:
        is_one, numbers = len(heads) == 1, _format_record_numbers(heads)
        answered = "1 request was answered" if is_one else f"{len(heads):,} requests were answered"
        where = f"record {numbers}. --at shows it." if is_one else f"records {numbers}. --at shows one of them."
        print(f"{answered}, made at {where}")


def _format_record_numbers(heads: list[int]) -> str:
    return ", ".join(map(str, heads if len(heads) <= 12 else heads[:6])) + (
        f", ..., {heads[-1]}" if len(heads) > 12 else ""
    )
