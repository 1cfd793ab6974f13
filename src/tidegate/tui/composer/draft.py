"""A message being written, with the ranges of it that were pasted.

Only typed text may contain rules (`core/text/rule_text.py`), so the composer marks every block that enters at once: a
paste of several lines or of more than 200 characters, and an undo or a history entry of that size. A short paste of one
line counts as typed.
"""

from typing import Final, NamedTuple

MAX_TYPED_CHARS: Final = 200
"""Text of more characters than this that enters at once was not typed."""


MAX_DRAFT_PIECES: Final = 6
"""A request puts an empty line between the texts of one message up to this number of texts. A draft in more pieces
counts as pasted.
"""


class PastedSpan(NamedTuple):
    start: int
    end: int


class MessageDraft(NamedTuple):
    """`pasted` are the ranges of pasted blocks in the text, sorted and not overlapping."""

    text: str = ""
    pasted: tuple[PastedSpan, ...] = ()

    @classmethod
    def from_pasted(cls, text: str) -> "MessageDraft":
        """Return a draft of which nothing was typed."""
        return cls(text, (PastedSpan(0, len(text)),))

    def replace_range(self, start: int, end: int, entered: str) -> "MessageDraft":
        """Return the draft with a range replaced. The new text counts as pasted if it is a block."""
        pasted = [PastedSpan(left, min(right, start)) for left, right in self.pasted if left < start]
        if len(entered) > MAX_TYPED_CHARS or ("\n" in entered and entered != "\n"):
            pasted.append(PastedSpan(start, start + len(entered)))
        shift = start + len(entered) - end
        pasted += [PastedSpan(max(left, end) + shift, right + shift) for left, right in self.pasted if right > end]
        return MessageDraft(self.text[:start] + entered + self.text[end:], tuple(pasted))

    def with_text(self, text: str) -> "MessageDraft":
        """Return the draft with another text. The part that differs from the old text is taken as what entered."""
        before = self.text
        start = _common_start(before, text)
        rest = min(len(before), len(text)) - start
        end = _common_start(before[: -rest - 1 : -1], text[: -rest - 1 : -1]) if rest else 0
        return self.replace_range(start, len(before) - end, text[start : len(text) - end])

    def split_typed_and_pasted(self) -> list[tuple[str, bool]]:
        """Return runs of lines, each typed or not. A line counts as not typed if any part of it was pasted."""
        runs: list[tuple[list[str], bool]] = []
        blank: list[str] = []
        place = 0
        for line in self.text.split("\n"):
            is_typed = not any(start < place + len(line) and end > place for start, end in self.pasted)
            place += len(line) + 1
            if not line.strip():  # belongs to the text before it, or to the first line
                (runs[-1][0] if runs else blank).append(line)
            elif runs and runs[-1][1] == is_typed:
                runs[-1][0].append(line)
            else:
                runs.append(([*blank, line], is_typed))
                blank = []
        if len(runs) > MAX_DRAFT_PIECES:
            runs[MAX_DRAFT_PIECES - 1 :] = [
                ([line for lines, _ in runs[MAX_DRAFT_PIECES - 1 :] for line in lines], False)
            ]
        return [("\n".join(lines), is_typed) for lines, is_typed in runs]


def _common_start(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
