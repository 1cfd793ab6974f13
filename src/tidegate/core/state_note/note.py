"""The state note: sections written by a model, passages quoted from the log, and up to which message it holds.

It is stored in the log when it arrives (`StateNote` in `core/notes.py`). A sweep shows the newest one
(`core/stages/note_sweep.py`).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidegate.core.budget import Budget
from tidegate.core.messages import STATE_NOTE
from tidegate.core.notes import StateNote
from tidegate.core.view import View

NOTE_SHARE: Final = 0.07
"""The share of the room that the sections may take."""
MAX_NOTE_TOKENS: Final = 6_000
PASSAGES_SHARE: Final = 0.2
"""The share of the room that the passages may take."""
MORE_PASSAGES_SHARE: Final = 0.1
"""The share that further passages may take, if the newest messages leave it."""
MAX_PASSAGE_TOKENS: Final = 20_000
_MIN_NOTE_TOKENS: Final = 200


class SectionKind(NamedTuple):
    """A section: its heading, the word by which it is recognized, and what belongs into it."""

    heading: str
    keyword: str
    contents: str


SECTIONS: Final = (
    SectionKind(
        "Goal and open orders",
        "goal",
        "the user's goal and every open order, in the user's own words: quote those that matter, each with its id. The"
        " user's messages stay visible (long ones shortened), so do not repeat them",
    ),
    SectionKind(
        "State",
        "state",
        "what is done, a line each, with the files that it changed, who did it, and its proof (the command and its"
        " outcome, the hash of the commit); what is in work, and where it stopped; what remains, as steps in order,"
        " each with the files and functions that it edits, calls and tests, in `backticks`. If the newest messages"
        " changed something, say so here",
    ),
    SectionKind(
        "Decisions",
        "decision",
        "each decision that holds, with its reason; options that were dropped and why; who overruled what",
    ),
    SectionKind(
        "Failed attempts",
        "failed",
        "what was tried and failed, also if it is repaired, a short line each: what failed, the error in its own words,"
        " what works instead; suspicions that turned out wrong, and tools that misbehaved",
    ),
    SectionKind(
        "Facts",
        "fact",
        "facts that the next steps need and no passage has: names, signatures, values, places, commands that work, and"
        " what uses the code that will be changed or removed",
    ),
    SectionKind(
        "Rules",
        "rule",
        "rules for steps still to come, also principles of the project's documents, word for word, each with its"
        " source: the user, or the file or tool result in which it was found",
    ),
)
HEADINGS: Final = tuple(kind.heading for kind in SECTIONS)


def write_sections(note: StateNote) -> str:
    """The sections with their headings, in their fixed order."""
    return "\n".join(f"## {heading}\n{note.sections[heading]}" for heading in HEADINGS if note.sections.get(heading))


class NoteLimits(NamedTuple):
    """The most tokens that a note and its passages may have.

    `more_passages` are for passages that are shown only where the newest messages leave room.
    """

    note: int
    passages: int
    more_passages: int


def choose_note_limits(budget: Budget) -> NoteLimits:
    """The limits for a room: about 2,000, 6,000 and 3,000 tokens for a window of 32,000."""
    note = min(MAX_NOTE_TOKENS, max(_MIN_NOTE_TOKENS, int(budget.room * NOTE_SHARE)))
    passages = min(MAX_PASSAGE_TOKENS, int(budget.room * PASSAGES_SHARE))
    more = min(MAX_PASSAGE_TOKENS - passages, int(budget.room * MORE_PASSAGES_SHARE))
    return NoteLimits(note, passages, more)


def merge_sections(old: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """The sections of an update: those that it does not have stay byte for byte; an empty one is removed."""
    sections = {heading: changes.get(heading, old.get(heading, "")) for heading in HEADINGS}
    return {heading: text for heading, text in sections.items() if text.strip()}


DROP_MARK: Final = "drop:"
"""How a line of changes begins that takes an old line out."""


class SectionChange(NamedTuple):
    """What is left of an old section, what is new, and the drops that named no line of it."""

    kept: str
    new: str
    unknown: tuple[str, ...]


def read_changes(old: str, changes: str) -> SectionChange:
    """The old section without the lines that the changes drop by their words, and the other lines of the changes."""
    lines, new, unknown = old.split("\n"), list[str](), list[str]()
    for line in changes.split("\n"):
        bare = line.strip().lstrip("-*").strip()
        if not bare.casefold().startswith(DROP_MARK):
            new.append(line)
            continue
        text_to_drop = _fold_line(bare[len(DROP_MARK) :].strip(" `\"….'"))
        at = next((n for n, text in enumerate(lines) if len(text_to_drop) > 3 and text_to_drop in _fold_line(text)), -1)
        if at < 0:
            unknown.append(line.strip())
        else:
            del lines[at]
    return SectionChange("\n".join(lines).strip("\n"), "\n".join(new).strip("\n"), tuple(unknown))


def _fold_line(text: str) -> str:
    return " ".join(text.replace("`", "").split()).casefold()


def newest_state_note(view: View) -> StateNote | None:
    """The newest note of the current branch."""
    return StateNote.parse(view.state_note) if view.state_note else None


def shown_state_note_id(view: View) -> str:
    """The id of the message that shows a note, or ""."""
    places = [item.message.id for item in view.items if item.message.kind == STATE_NOTE]
    return places[-1] if places else ""


def is_new_state_note(view: View) -> bool:
    """Whether a note came that no sweep has shown yet."""
    shown_seq = shown_state_note_id(view)[1:].partition(".")[0]  # the seq of the edit that inserted it
    return bool(view.state_note) and (not shown_seq.isdecimal() or int(shown_seq) < view.state_note_seq)
