"""`tidegate sessions`, `show` and `trace`: looking at what is kept. Nothing is changed."""

import argparse
import sys

import msgspec

from tidegate.apps.choices import OK
from tidegate.apps.place import opened
from tidegate.apps.terminal import name_on_screen, print_error, print_json
from tidegate.core.errors import BadInput
from tidegate.core.events import Edited, Noted
from tidegate.core.terminal_text import clean_line
from tidegate.core.view import project
from tidegate.keep.data import DataFolder
from tidegate.keep.times import UNKNOWN, format_time
from tidegate.keep.trace import Trace, read_trace, usage_of
from tidegate.session.past import request_at, requests_of, sent_as
from tidegate.store.kept import KeptLog
from tidegate.store.memory import missing

_TOLD = ("undo", "redo", "clear", "forgotten", "overflow")


def sessions_command(options: argparse.Namespace) -> int:
    with opened(options) as data:
        found = data.store.sessions()
        used = {info.name: data.in_use(info.name) for info in found}
    if options.json:
        rows = [{**msgspec.to_builtins(info), "in_use": used[info.name]} for info in found]
        print_json(msgspec.json.encode(rows))
        return OK
    if not found:
        print("No sessions are kept here yet.")
        return OK
    names = [name_on_screen(info.name) for info in found]
    width = max(len("session"), *map(len, names))
    print(f"{'session':{width}}  {'records':>8}  {'on disk':>9}  {'last used':16}  {'begun':16}")
    for info, name in zip(found, names, strict=True):
        mark = "  open" if used[info.name] else ""
        used_at, begun = format_time(info.used), format_time(info.created)
        print(f"{name:{width}}  {info.head:>8,}  {size(info.size):>9}  {used_at:16}  {begun:16}{mark}".rstrip())
    unknown = sum(format_time(each) == UNKNOWN or not each for info in found for each in (info.used, info.created))
    if unknown:
        print_error("Some times are not known.", "`tidegate doctor` looks through the sessions and says what is wrong.")
    return OK


def show_command(options: argparse.Namespace) -> int:
    with opened(options) as data:
        log = known(data, options.session)
        if options.at is None:
            return _outline(log)
        if not 1 <= options.at <= log.head:
            raise BadInput(f"The session has records 1 to {log.head}, not {options.at}.", "Give one of these.")
        request = request_at(log, options.at, wire=options.wire)
        print_json(request.to_bytes())
    return OK


def _outline(log: KeptLog) -> int:
    """What happened to the view, and where requests were sent."""
    view = project(log.read)
    noted = sent_as(view.model_note)
    print(f"{log.head:,} records; the view now: {view.messages} messages, {view.tokens:,} tokens, {view.turns} turns")
    if noted.model:
        print(f"model {clean_line(noted.model)}, wire {clean_line(noted.wire)}")
    for event in log.read():
        what = event.what
        if isinstance(what, Edited):
            stage, why = clean_line(what.stage), clean_line(what.why)
            print(f"{event.seq:>7}  {stage}: {what.before:,} -> {what.after:,} tokens; {why}")
        elif isinstance(what, Noted) and what.topic in _TOLD:
            print(f"{event.seq:>7}  {what.topic} {clean_line(what.text)}".rstrip())
    heads = [sent.head for sent in requests_of(log)]
    if heads:
        print(f"{len(heads)} requests were answered, at {_some(heads)}: show one with --at")
    return OK


def _some(heads: list[int]) -> str:
    return ", ".join(map(str, heads if len(heads) <= 12 else heads[:6])) + (
        f", ..., {heads[-1]}" if len(heads) > 12 else ""
    )


def trace_command(options: argparse.Namespace) -> int:
    with opened(options) as data:
        log = known(data, options.session)
        path = data.trace(options.session)
        Trace(path, options.session, data.mask).follow(log)
        lines = read_trace(path)
        if options.usage:
            print_json(msgspec.json.encode(usage_of(lines)))
            return OK
        for line in lines:
            sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    return OK


def known(data: DataFolder, name: str) -> KeptLog:
    log = data.log(name)
    if not log.head:
        raise missing(name)
    return log


def size(count: int) -> str:
    number = float(count)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"
