"""What the conversation is made of: one event of the log becomes no, one or several blocks. Reading, never deciding.

A card is a block that is shown in one line until someone opens it. Open or not is the screen's business alone: nothing
here is ever sent to a model.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from tidegate.core.edits import Drop, Insert, RemoveRule, Replace
from tidegate.core.events import Edited, Event, Noted, Said
from tidegate.core.messages import MENTIONED_FILE, Call, Image, Message, Result, Text, Thinking

Kind = Literal["user", "said", "thinking", "call", "result", "attached", "edit", "note", "answer", "problem"]
CARDS = frozenset({"thinking", "call", "result", "attached", "edit"})
_TOPICS = {
    "clear": "the context was cleared; the log keeps everything",
    "undo": "a compaction was undone",
    "redo": "a compaction was made again",
    "overflow": "the provider refused the request for its size; it is sent again, smaller",
    "forgotten": "something was forgotten for good",
    "unsigned": "earlier reasoning is no longer sent",
}


class Block(msgspec.Struct):
    """`key` names it for as long as the session lives. `result` is None while a call is open."""

    key: str
    kind: Kind
    text: str = ""
    title: str = ""
    result: str | None = None
    error: bool = False
    call_id: str = ""

    @property
    def is_card(self) -> bool:
        return self.kind in CARDS


def blocks_of(event: Event) -> list[Block]:
    what = event.what
    if isinstance(what, Said):
        return _said(what.message, event.seq)
    if isinstance(what, Edited):
        return [_edited(what, event.seq)]
    if isinstance(what, Noted):
        return _noted(what, event.seq)
    return []


def _said(message: Message, seq: int) -> list[Block]:
    if not message.user_visible and message.role != "tool":
        return []
    found: list[Block] = []
    for place, part in enumerate(message.parts):
        block = _part(part, message, f"m{seq}.{place}")
        if block is not None:
            found.append(block)
    return found


def _part(part: object, message: Message, key: str) -> Block | None:
    match part:
        case Text(text) if message.role == "user" and text.startswith(MENTIONED_FILE):
            return Block(key, "attached", text, text.partition("\n")[0][len(MENTIONED_FILE) :].rstrip("]"))
        case Text(text):
            kind: Kind = "user" if message.role == "user" else "said"
            return Block(key, kind, text) if text.strip() else None
        case Thinking():
            text = thought(part)
            return Block(key, "thinking", text) if text.strip() else None
        case Call(id=ident, name=name, arguments=arguments):
            return Block(key, "call", arguments, name, call_id=ident)
        case Image(media=media, width=width, height=height):
            size = f" {width}x{height}" if width else ""
            return Block(key, "attached", "", f"{media}{size}")
        case Result(call_id=ident, error=error):
            return Block(key, "result", "", "result", result=result_text(part), error=error, call_id=ident)
    return None


def thought(part: Thinking) -> str:
    """The readable words of reasoning, also where they stand in a provider's signed block."""
    if part.text or not part.block:
        return part.text
    try:
        block = msgspec.json.decode(part.block)
    except msgspec.DecodeError:
        return ""
    return "\n".join(_words(block)) or "(not readable: the provider keeps it to itself)"


def _words(value: object) -> list[str]:
    if isinstance(value, dict):
        found = [each for key, each in value.items() if key in ("thinking", "text") and isinstance(each, str) and each]
        return found + [text for key in ("summary", "content") for text in _words(value.get(key))]
    return [text for each in value for text in _words(each)] if isinstance(value, list) else []


def result_text(result: Result) -> str:
    return "\n".join(part.text if isinstance(part, Text) else f"[{part.media}]" for part in result.parts)


def _edited(edited: Edited, seq: int) -> Block:
    gone = sum(len(edit.ids) for edit in edited.edits if isinstance(edit, Drop))
    added = [edit.message for edit in edited.edits if isinstance(edit, Insert)]
    shorter = sum(isinstance(edit, Replace) for edit in edited.edits)
    counts = [
        f"{count} {word}" for count, word in ((gone, "left"), (shorter, "shortened"), (len(added), "added")) if count
    ]
    lines = [f"why: {edited.why}", f"what: {', '.join(counts) or 'nothing'}; everything is still in the log"]
    lines += [f"rule: {edit.text}" for edit in edited.edits if isinstance(edit, RemoveRule)]
    lines += [part.text for message in added for part in message.parts if isinstance(part, Text)]
    name = edited.rule or edited.stage
    title = f"{name}  {edited.before:,} → {edited.after:,} tokens"
    return Block(f"e{seq}", "edit", "\n".join(lines), title)


def _noted(noted: Noted, seq: int) -> list[Block]:
    if noted.topic in _TOPICS:
        return [Block(f"n{seq}", "note", _TOPICS[noted.topic])]
    return []


def joined(blocks: Iterable[Block]) -> list[Block]:
    """Results put into the cards of their calls. A result whose call is not here stays a card of its own."""
    whole: list[Block] = []
    waiting: dict[str, Block] = {}
    for block in blocks:
        if block.kind == "call" and block.result is None:
            waiting[block.call_id] = block
        call = waiting.pop(block.call_id, None) if block.kind == "result" else None
        if call is None:
            whole.append(block)
        else:
            call.result, call.error = block.result, block.error
    return whole
