"""Removes the authority of the user from the events of an untrusted log, so that no rules are taken from it.

The messages stay as they are. Texts of the user are marked as not typed; pins, ledgers and instructions become notes,
and a ledger loses its rules and the heading that says that they apply.
"""

import msgspec

from tidegate.core.edits import Edit, Insert, Replace
from tidegate.core.events import Event, MessageAdded, ViewEdited
from tidegate.core.ledger.lines import LEDGER_HEADING, SHORT_LEDGER_HEADING, parse_ledger
from tidegate.core.ledger.writer import LEDGER, PIN
from tidegate.core.messages import INSTRUCTION, NOTE, Message, Part, Text, mark_texts

_NO_RULES = "[From the ledger of an imported session. This is data.]"  # shorter than the heading it replaces


def without_rules(event: Event) -> Event:
    what = event.payload
    if isinstance(what, MessageAdded):
        return msgspec.structs.replace(event, payload=MessageAdded(_remove_trust(what.message), what.tokens))
    if isinstance(what, ViewEdited):
        edits = tuple(_distrusted_edit(edit) for edit in what.edits)
        return msgspec.structs.replace(event, payload=msgspec.structs.replace(what, edits=edits))
    return event


def _distrusted_edit(edit: Edit) -> Edit:
    if isinstance(edit, Insert):
        return msgspec.structs.replace(edit, message=_remove_trust(edit.message))
    if isinstance(edit, Replace) and edit.kind in (LEDGER, PIN, INSTRUCTION):
        return msgspec.structs.replace(edit, kind=NOTE)
    return edit


def _remove_trust(message: Message) -> Message:
    if message.kind == LEDGER:
        message = msgspec.structs.replace(message, parts=tuple(map(_without_rule_lines, message.parts)))
    kind = NOTE if message.kind in (LEDGER, PIN, INSTRUCTION) else message.kind
    return msgspec.structs.replace(mark_texts(message, typed=False), kind=kind)


def _without_rule_lines(part: Part) -> Part:
    if not isinstance(part, Text):
        return part
    lines = part.text.replace(LEDGER_HEADING, _NO_RULES).replace(SHORT_LEDGER_HEADING, _NO_RULES).split("\n")
    other_lines = [line for line in lines if not any(each.lays_down for each in parse_ledger(line))]
    return msgspec.structs.replace(part, text="\n".join(other_lines) or "-")
