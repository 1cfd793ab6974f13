"""Long pastes in the input: each is shown as a short label, such as `[pasted 60 lines]`, and sent in full."""

import re
from typing import Final

from tidegate.tui.composer.draft import MAX_TYPED_CHARS, MessageDraft

_MIN_LINES: Final = 8
"""Lines from which a paste is folded: the input shows at most eight lines."""
_MIN_CHARS: Final = 1_000
_MAX_NAME_CHARS: Final = 40


class FoldedPastes:
    """The labels in the input and the texts that they stand for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold_text(self, text: str, name: str = "pasted") -> str:
        """Return a label for a long text, or a short text unchanged. `name` says where the text is from."""
        lines = text.removesuffix("\n").count("\n") + 1
        if lines < _MIN_LINES and len(text) < _MIN_CHARS:
            return text
        name = name[:_MAX_NAME_CHARS].translate({ord("["): "(", ord("]"): ")"})
        size = f"{lines:,} lines" if lines >= _MIN_LINES else f"{len(text):,} characters"
        label, number = f"[{name} {size}]", 1
        while self._texts.get(label, text) != text:
            number += 1
            label = f"[{name} {size}, number {number}]"
        self._texts[label] = text
        return label

    def fold_draft(self, draft: MessageDraft) -> MessageDraft:
        """Return the draft with a label for each long pasted range."""
        for start, end in reversed(draft.pasted):
            label = self.fold_text(draft.text[start:end])
            if len(label) < end - start and len(label) <= MAX_TYPED_CHARS:
                draft = draft.replace_range(start, end, label)
        return draft

    def expand_draft(self, draft: MessageDraft) -> MessageDraft:
        """Return the draft with each label replaced by its text, which counts as pasted."""
        if not self._texts:
            return draft
        labels = re.compile("|".join(map(re.escape, self._texts)))
        for match in reversed(list(labels.finditer(draft.text))):
            draft = draft.replace_range(match.start(), match.end(), self._texts[match[0]])
        return draft

    def find_label_before(self, text: str) -> str:
        """Return the label that this text ends with, or ""."""
        return next((label for label in self._texts if text.endswith(label)), "")

    def get_text(self, label: str) -> str:
        return self._texts[label]
