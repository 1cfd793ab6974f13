"""Check whether lost text can be recalled: the request must print a recall call, and the call must return the text."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from tidegate.core.ledger.lines import LEDGER_HEADING
from tidegate.lab.scoring.occurrences import contains_whole_name
from tidegate.lab.scoring.signals import ANCHOR_KIND
from tidegate.lab.scoring.text_needs import Need

_RECALL_IDS: Final = re.compile(r"\bm(\d+)(?:(?:\.\.| to )m(\d+))?\b|\be\d+\.\d+\b")
_LIST_PREFIX: Final = "- "


def find_recall_calls(text: str) -> tuple[str, ...]:
    """Return the recall calls that a text of the engine prints: ids (m12) and ranges (m2..m40, or m2 to m40).

    A ledger mentions recall only in its first line, so the list after it is read too. The ids in that first line are
    examples and are ignored.
    """
    if "recall" not in text and not text.startswith(_LIST_PREFIX):
        return ()
    found = (
        f"m{call[1]}..m{call[2]}" if call[2] else call[0]
        for call in _RECALL_IDS.finditer(text.replace(LEDGER_HEADING, ""))
    )
    return tuple(dict.fromkeys(found))


class RecallRecovery:
    """Runs each printed recall call once a session."""

    def __init__(self) -> None:
        self._text_by_call: dict[str, str] = {}

    def can_recover(self, need: Need, calls: Iterable[str], recall: Callable[[str], str]) -> bool:
        for call in calls:
            if call not in self._text_by_call:
                self._text_by_call[call] = recall(call)
            text = self._text_by_call[call]
            if need.text in text if need.kind == ANCHOR_KIND else contains_whole_name(text, need.text):
                return True
        return False
