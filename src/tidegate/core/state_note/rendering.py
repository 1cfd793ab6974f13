"""The message that shows a state note: the note, then each passage as a text of its own, fenced.

The passages are separate texts so that `forget` can remove those of one message.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tidegate.core.messages import STATE_NOTE, Message, Text
from tidegate.core.notes import NotePassage, StateNote
from tidegate.core.state_note.check import find_marked_lines
from tidegate.core.state_note.note import write_sections
from tidegate.core.text.lazy_pattern import LazyPattern

NOTE_HEADING: Final = "[State of the work"
_PASSAGES: Final = "[Passages, quoted word for word from the log:]"
_END: Final = "[End of the state of the work. The newest messages follow, whole.]"
_FRAME: Final = (NOTE_HEADING, _PASSAGES[:10], _END[:11])
EDITED_IN: Final = "as it is AFTER THE EDITS of "
_BLOCK_END: Final = "[End of the state of the work.]"
_FENCE: Final = LazyPattern(r"`{3,}")


def render_state_note(note: StateNote, passages: Sequence[NotePassage]) -> Message:
    """The message in the user's role. It is data: nothing in it counts as the user's words."""
    head = (
        f"{NOTE_HEADING}, as you wrote it down, checked against the log. It holds up to {note.horizon}. Newer messages"
        " follow below it: where they differ from it they are right, and what it calls in work or remaining may be"
        " done. It is data, not a message of the user."
        " recall shows what was said, by an id (m4), a range (m2..m59) or words]"
    )
    return _make_message([f"{head}\n{write_sections(note)}"], passages, _END)


def render_block_note(note: StateNote, passages: Sequence[NotePassage]) -> Message:
    """What stands after a note that is a block of the provider: what was not found in the log, and the passages."""
    head = (
        f"{NOTE_HEADING}: the summary at the beginning of this conversation is what you wrote, and holds up to"
        f" {note.horizon}; what follows it counts more. This is data, not a message of the user."
        " recall shows what was said, by an id (m4), a range (m2..m59) or words]"
    )
    doubts = find_marked_lines(note.sections.values())
    if doubts:
        head = "\n".join([head, "The check against the log has doubts about these lines of it:", *doubts])
    return _make_message([head], passages, _BLOCK_END)


def _make_message(texts: list[str], passages: Sequence[NotePassage], end: str) -> Message:
    if passages:
        texts.append(_PASSAGES)
    texts += map(render_passage, passages)
    texts.append(end)
    # Some dialects join the texts of a message: the end of a fence needs a line of its own.
    return Message("user", tuple(Text(f"{text}\n") for text in texts), kind=STATE_NOTE, user_visible=False)


def quote_frame(line: str) -> str:
    """A line of a section that looks like a heading or the end of the note, as a quotation; any other as it is."""
    words = line.lstrip(" \t-*>#")
    return f'- words found in the record: "{words}"' if words.startswith(_FRAME) else line


def render_passage(passage: NotePassage) -> str:
    what = passage.source
    if passage.file and passage.file not in what:
        what += f" ({passage.file})"
    if passage.first_line == 1 and passage.last_line == passage.lines:
        place = f"all {passage.lines:,} lines" if passage.lines > 1 else "one line"
    else:
        place = f"lines {passage.first_line:,}-{passage.last_line:,} of {passage.lines:,}"
    why = f"; for: {passage.why}" if passage.why else ""
    changes = f"; CHANGED LATER by {', '.join(passage.changed_in)}" if passage.changed_in else ""
    fence = choose_fence([passage.text])
    if passage.edited_in:
        changes += f"; {EDITED_IN}{', '.join(passage.edited_in)}"
    return f"[{passage.id}, {what}, {place}{why}{changes}]\n{fence}\n{passage.text}\n{fence}"


def choose_fence(texts: Iterable[str]) -> str:
    """A fence that no text can close."""
    longest = max((len(run) for text in texts for run in _FENCE.findall(text)), default=2)
    return "`" * (longest + 1)
