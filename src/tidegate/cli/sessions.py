"""`tidegate sessions`, `show` and `trace`: looking at what is kept. Nothing is changed."""

import argparse
import sys

import msgspec

from tidegate.cli.data_location import open_data_folder
from tidegate.core.errors import BadInput
from tidegate.core.events import NoteAdded, ViewEdited
from tidegate.core.text.terminal_text import clean_line
from tidegate.core.view import fold_log
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.time_format import UNKNOWN_TIME, format_time
from tidegate.datafolder.trace.writer import Trace, read_trace, sum_usage_by_model
from tidegate.session.request import list_sent_requests, parse_model_note, render_past_request
from tidegate.store.memory import session_not_found
from tidegate.store.session_log import KeptLog
from tidegate.terminal.exit_codes import EXIT_OK
from tidegate.terminal.output import format_visible_name, print_error, print_json

_LISTED_TOPICS = ("undo", "redo", "clear", "forgotten", "overflow")


def sessions_command(options: argparse.Namespace) -> int:
    with open_data_folder(options) as data:
        found = data.store.sessions()
        used = {info.name: data.locks.is_in_use(info.name) for info in found}
    if options.json:
        rows = [{**msgspec.to_builtins(info), "in_use": used[info.name]} for info in found]
        print_json(msgspec.json.encode(rows))
        return EXIT_OK
    if not found:
        print("No sessions are kept here yet.")
        return EXIT_OK
    names = [format_visible_name(info.name) for info in found]
    width = max(len("session"), *map(len, names))
    print(f"{'session':{width}}  {'records':>8}  {'on disk':>9}  {'last used':16}  {'begun':16}")
    for info, name in zip(found, names, strict=True):
        mark = "  open" if used[info.name] else ""
        used_at, begun = format_time(info.used), format_time(info.created)
        size = format_byte_size(info.size)
        print(f"{name:{width}}  {info.head:>8,}  {size:>9}  {used_at:16}  {begun:16}{mark}".rstrip())
    unknown = sum(format_time(each) == UNKNOWN_TIME or not each for info in found for each in (info.used, info.created))
    if unknown:
        print_error("Some times are not known.", "`tidegate doctor` looks through the sessions and says what is wrong.")
    return EXIT_OK


def show_command(options: argparse.Namespace) -> int:
    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        if options.at is None:
            return _print_outline(log)
        if not 1 <= options.at <= log.head:
            raise BadInput(f"The session has records 1 to {log.head}, not {options.at}.", "Give one of these.")
        request = render_past_request(log, options.at, wire=options.wire)
        print_json(request.to_bytes())
    return EXIT_OK


def _print_outline(log: KeptLog) -> int:
    """What happened to the view, and where requests were sent."""
    view = fold_log(log.read)
    noted = parse_model_note(view.model_note)
    size = f"{view.message_count} messages, {view.tokens:,} tokens, {view.visible_turns} turns"
    print(f"{log.head:,} records; the view now: {size}")
    if noted.model:
        print(f"model {clean_line(noted.model)}, wire {clean_line(noted.wire)}")
    for event in log.read():
        what = event.payload
        if isinstance(what, ViewEdited):
            stage, why = clean_line(what.stage), clean_line(what.why)
            print(f"{event.seq:>7}  {stage}: {what.tokens_before:,} -> {what.tokens_after:,} tokens; {why}")
        elif isinstance(what, NoteAdded) and what.topic in _LISTED_TOPICS:
            print(f"{event.seq:>7}  {what.topic} {clean_line(what.text)}".rstrip())
    heads = [sent.log_head for sent in list_sent_requests(log)]
    if heads:
        print(f"{len(heads)} requests were answered, at {_format_record_numbers(heads)}: show one with --at")
    return EXIT_OK


def _format_record_numbers(heads: list[int]) -> str:
    return ", ".join(map(str, heads if len(heads) <= 12 else heads[:6])) + (
        f", ..., {heads[-1]}" if len(heads) > 12 else ""
    )


def trace_command(options: argparse.Namespace) -> int:
    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        path = data.trace_path(options.session)
        Trace(path, options.session, data.mask).append_missing(log)
        lines = read_trace(path)
        if options.usage:
            print_json(msgspec.json.encode(sum_usage_by_model(lines)))
            return EXIT_OK
        for line in lines:
            sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    return EXIT_OK


def open_existing_log(data: DataFolder, name: str) -> KeptLog:
    log = data.open_log(name)
    if not log.head:
        raise session_not_found(name)
    return log


def format_byte_size(count: int) -> str:
    number = float(count)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"
