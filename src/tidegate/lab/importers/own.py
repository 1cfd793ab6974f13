"""Our own sessions: a file that `tidegate export` wrote, or the sessions of a data folder.

What was said is the recording; what policies did to it is not. So a session can be tried under another policy.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.events import Event, Noted, Said
from tidegate.core.impossible import is_time
from tidegate.core.messages import TOOL_RESULT, Tool
from tidegate.keep.data import DataFolder
from tidegate.keep.portable_file import FORMAT as EXPORT
from tidegate.keep.portable_file import Header, Limits, items
from tidegate.lab.importers.fields import a_dict
from tidegate.lab.importers.normal import tell, tools_of
from tidegate.lab.importers.recording import Meta, Recording
from tidegate.lab.importers.source import Place, Source
from tidegate.lab.importers.talk import Talk
from tidegate.session.past import sent_as

FORMAT = "tidegate"
DATABASE = "tidegate.db"
_SAID = ("", TOOL_RESULT)


def recognises(head: Source) -> bool:
    return bool(head.head) and a_dict(head.head[0].value).get("format") == EXPORT


def read(source: Source) -> Iterator[Recording]:
    """Proved to the last line before anything of it is believed."""
    name = source.stem
    events: list[Event] = []
    limits = Limits(source.limits.value, source.limits.total)
    try:
        with source.path.open("rb") as file:
            for item in items(file, limits):
                if isinstance(item, Header):
                    name = item.name
                elif isinstance(item, Event):
                    events.append(item)
    except BadInput as fault:
        raise source.bad(0, str(fault.args[0]).rstrip("."), fault.remedy) from None
    found = _recording(source, name, events)
    if found:
        yield found


def read_folder(folder: Path) -> Iterator[Recording | BadInput]:
    """Every session of a data folder; of one that cannot be read, why."""
    data = DataFolder(folder)
    try:
        for info in data.store.sessions():
            try:
                found = _recording(Place(folder), info.name, data.log(info.name).read())
            except TidegateError as fault:
                yield BadInput(f"{folder}, session {info.name!r}: {fault.args[0]}", fault.remedy)
            else:
                if found:
                    yield found
    except sqlite3.Error as error:
        raise BadInput(f"{folder}: cannot be read ({error}).", "Run `tidegate doctor` on it.") from None
    finally:
        data.close()


def _recording(source: Source | Place, name: str, events: Iterable[Event]) -> Recording | None:
    talk = Talk()
    model = system = ""
    for event in events:
        what, time = event.what, event.time if is_time(event.time) else 0.0
        if isinstance(what, Said):
            if what.message.agent_visible and what.message.kind in _SAID:
                tell(talk, what.message, time)
            else:
                talk.leave("notes of the engine")
        elif isinstance(what, Noted) and what.topic == "system" and what.text != system:
            system = what.text
            talk.say("system", system, time)
        elif isinstance(what, Noted) and what.topic == "tools":
            talk.tools = tools_of(_tools(event.seq, what.text))
        elif isinstance(what, Noted) and what.topic == "model":
            model = sent_as(what.text).model or model
    return talk.recording(source, name, Meta(FORMAT, "tidegate", model, name, "", str(source.path)))


def _tools(seq: int, text: str) -> tuple[Tool, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[Tool, ...])
    except msgspec.DecodeError as fault:
        raise BadInput(f"Record {seq} does not describe tools: {fault}.", "Run `tidegate doctor` on it.") from fault
