"""The blocks of the conversation: an event of the log becomes none, one or several.

A card is a block that is shown in one line until the user opens it. This is the screen's state alone: nothing here is
ever sent to a model.
"""

import json
from collections.abc import Iterable
from typing import Literal

import msgspec

from tidegate.core.edits import Drop, Insert, RemoveRule, Replace
from tidegate.core.events import Event, MessageAdded, NoteAdded, ViewEdited
from tidegate.core.messages import INTERRUPTED, MENTIONED_FILE, Call, Image, Message, Result, Text, Thinking
from tidegate.core.notes import (
    ContentForgotten,
    Denial,
    EditRedone,
    EditUndone,
    NoteKind,
    RequestOverflowed,
    SignaturesRefused,
    ViewCleared,
    kind_of,
    read_note,
)

BlockKind = Literal["user", "said", "thinking", "call", "result", "attached", "edit", "note", "answer", "problem"]
_CARD_KINDS = frozenset({"thinking", "call", "result", "attached", "edit"})
_NOTE_TEXTS: dict[NoteKind, str] = {
    ViewCleared: "the context was cleared; the log keeps everything",
    EditUndone: "a compaction was undone",
    EditRedone: "a compaction was redone",
    RequestOverflowed: "the provider refused the request for its size; it is sent again, smaller",
    ContentForgotten: "something was forgotten for good",
    SignaturesRefused: "earlier reasoning is no longer sent",
}


class TranscriptBlock(msgspec.Struct):
    """`key` is unique in the session. `result` is None while a call has no result. `denied_by` says who or what denied
    a call; a note with it and a `call_id` belongs to the card of that call. `label` is the name of an edit's card."""

    key: str
    kind: BlockKind
    text: str = ""
    title: str = ""
    result: str | None = None
    is_error: bool = False
    call_id: str = ""
    denied_by: str = ""
    is_interrupted: bool = False
    label: str = ""

    @property
    def belongs_to_call(self) -> bool:
        """Whether this is shown in the card of a call, if that card is there."""
        return self.kind == "result" or bool(self.kind == "note" and self.call_id)

    def merge(self, other: "TranscriptBlock") -> None:
        """Take over the result of this call, or its denial."""
        if other.kind == "result":
            self.result, self.is_error, self.is_interrupted = other.result, other.is_error, other.is_interrupted
        else:
            self.denied_by = other.denied_by

    @property
    def failure(self) -> str:
        """Why a call has no proper result, in a few words; empty if it has one or none yet."""
        if self.denied_by:
            return f"denied by {self.denied_by}"
        return "interrupted" if self.is_interrupted else "failed" if self.is_error else ""

    @property
    def is_card(self) -> bool:
        return self.kind in _CARD_KINDS


def build_blocks(event: Event) -> list[TranscriptBlock]:
    payload = event.payload
    if isinstance(payload, MessageAdded):
        return _message_blocks(payload.message, event.seq)
    if isinstance(payload, ViewEdited):
        return _edit_blocks(payload, event.seq)
    if isinstance(payload, NoteAdded):
        return _note_blocks(payload, event.seq)
    return []


def _message_blocks(message: Message, seq: int) -> list[TranscriptBlock]:
    if not message.user_visible and message.role != "tool":
        return []
    blocks: list[TranscriptBlock] = []
    for index, part in enumerate(message.parts):
        block = _part_block(part, message, f"m{seq}.{index}")
        if block is not None:
            blocks.append(block)
    return blocks


def _part_block(part: object, message: Message, key: str) -> TranscriptBlock | None:
    match part:
        case Text(text) if message.role == "user" and text.startswith(MENTIONED_FILE):
            return TranscriptBlock(key, "attached", text, text.partition("\n")[0][len(MENTIONED_FILE) :].rstrip("]"))
        case Text(text):
            kind: BlockKind = "user" if message.role == "user" else "said"
            return TranscriptBlock(key, kind, text) if text.strip() else None
        case Thinking():
            text = _readable_thinking(part)
            return TranscriptBlock(key, "thinking", text) if text.strip() else None
        case Call(id=ident, name=name, arguments=arguments):
            return TranscriptBlock(key, "call", arguments, name, call_id=ident)
        case Image(media=media, width=width, height=height):
            size = f" {width}x{height}" if width else ""
            return TranscriptBlock(key, "attached", "", f"{media}{size}")
        case Result(call_id=ident, error=error):
            return TranscriptBlock(
                key,
                "result",
                "",
                "result",
                result=_result_text(part),
                is_error=error,
                call_id=ident,
                is_interrupted=message.kind == INTERRUPTED,
            )
    return None


def _readable_thinking(part: Thinking) -> str:
    """Return the readable text of reasoning, also from a provider's signed block."""
    if part.text or not part.block:
        return part.text
    try:
        block = msgspec.json.decode(part.block)
    except msgspec.DecodeError:
        return ""
    return "\n".join(_collect_texts(block)) or "(not readable: the provider keeps it to itself)"


def _collect_texts(value: object) -> list[str]:
    if isinstance(value, dict):
        texts = [each for key, each in value.items() if key in ("thinking", "text") and isinstance(each, str) and each]
        return texts + [text for key in ("summary", "content") for text in _collect_texts(value.get(key))]
    return [text for each in value for text in _collect_texts(each)] if isinstance(value, list) else []


def _result_text(result: Result) -> str:
    return "\n".join(part.text if isinstance(part, Text) else f"[{part.media}]" for part in result.parts)


def _edit_blocks(edited: ViewEdited, seq: int) -> list[TranscriptBlock]:
    """Return the card of an edit, or for a repair also the results that it put in, which belong to their calls."""
    if edited.stage != "repair":
        return [_compaction_block(edited, seq)]
    inserts = [edit.message for edit in edited.edits if isinstance(edit, Insert)]
    results = [
        block
        for place, message in enumerate(inserts)
        for index, part in enumerate(message.parts)
        if (block := _part_block(part, message, f"e{seq}.{place}.{index}")) is not None
    ]
    return [*results, TranscriptBlock(f"e{seq}", "edit", f"why: {edited.why}", edited.why, label="repaired")]


def _compaction_block(edited: ViewEdited, seq: int) -> TranscriptBlock:
    dropped_count = sum(len(edit.ids) for edit in edited.edits if isinstance(edit, Drop))
    inserts = [edit.message for edit in edited.edits if isinstance(edit, Insert)]
    shorter = sum(isinstance(edit, Replace) for edit in edited.edits)
    counts = [
        f"{count} {word}"
        for count, word in ((dropped_count, "left"), (shorter, "shortened"), (len(inserts), "added"))
        if count
    ]
    lines = [f"why: {edited.why}", f"what: {', '.join(counts) or 'nothing'}; everything is still in the log"]
    lines += [f"rule: {edit.text}" for edit in edited.edits if isinstance(edit, RemoveRule)]
    lines += [part.text for message in inserts for part in message.parts if isinstance(part, Text)]
    name = edited.rule or edited.stage
    title = f"{name}  {edited.tokens_before:,} → {edited.tokens_after:,} tokens"
    return TranscriptBlock(f"e{seq}", "edit", "\n".join(lines), title, label="compacted")


def _note_blocks(note: NoteAdded, seq: int) -> list[TranscriptBlock]:
    kind = kind_of(note)
    if kind in _NOTE_TEXTS:
        return [TranscriptBlock(f"n{seq}", "note", _NOTE_TEXTS[kind])]
    if (denial := read_note(note, Denial)) is not None:
        text = f"{denial.tool} was denied by {denial.by}; it was not run"
        return [TranscriptBlock(f"n{seq}", "note", text, call_id=denial.call_id, denied_by=denial.by)]
    return []


def merge_results(blocks: Iterable[TranscriptBlock]) -> list[TranscriptBlock]:
    """Put results and denials into the cards of their calls. One whose call is not here stays a separate block."""
    whole: list[TranscriptBlock] = []
    waiting: dict[str, TranscriptBlock] = {}
    for block in blocks:
        if block.kind == "call" and block.result is None:
            waiting[block.call_id] = block
        call = waiting.get(block.call_id) if block.belongs_to_call else None
        if call is None:
            whole.append(block)
        else:
            call.merge(block)
        if block.kind == "result":
            waiting.pop(block.call_id, None)
    return whole


# A call's arguments as a person reads them. Nothing of a screen is needed for it.


def find_call_subject(arguments: str) -> str:
    """Return the first text among the arguments of a call."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    texts = [each for each in value.values() if isinstance(each, str)] if isinstance(value, dict) else []
    return texts[0] if texts else "" if value in ({}, None) else arguments


def format_call_arguments(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(value, dict):
        return arguments
    return "\n".join(f"{key}: {each if isinstance(each, str) else json.dumps(each)}" for key, each in value.items())
