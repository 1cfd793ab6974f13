"""What the note of a gap quotes of groups that left: answers, reports, plans, and the lines that edits changed."""

from typing import Final

from tidegate.core.messages import Message, calls_of, result_of, text_of
from tidegate.core.recognition.calls import asks_user, delegates, plan_in
from tidegate.core.recognition.client_outputs import LAUNCHED
from tidegate.core.recognition.documents import is_test_file
from tidegate.core.sweep.changed_lines import Hunk, changed_hunks_of, render_hunks
from tidegate.core.sweep.group_notes import quote_answer, quote_in_group, quoted_lines_of
from tidegate.core.sweep.key_lines import GAP_MARK
from tidegate.core.text.facts import begins_with_failure
from tidegate.core.text.prose import shorten_prose
from tidegate.core.text.tool_calls import call_target_of, find_file_names
from tidegate.core.turns import Group

LEAST_CHANGE: Final = 160
"""Characters: with less room nothing is quoted of a longer change."""
_LEAST_REPORT: Final = 240


def conclusions_of(group: Group) -> dict[str, str]:
    """The conclusions of a group: its answer under "", or plans, reports and answers of the user by their calls."""
    calls = calls_of(group.items[0].message)
    if not calls:
        return {"": text_of(group.items[0].message)}
    found: dict[str, str] = {}
    results = _results_of(group)
    for call in calls:
        printed = text_of(results[call.id]) if call.id in results else ""
        plan = plan_in(call)
        if plan or asks_user(call):
            found[call.id] = "\n".join(filter(None, (plan, printed)))
        elif delegates(call) and len(printed) >= _LEAST_REPORT and not LAUNCHED.match(printed):
            found[call.id] = printed
    return found


def quote_conclusions(group: Group, chars: int) -> str:
    """The lines for a group with at most about `chars` characters of its conclusions."""
    texts = conclusions_of(group)
    chars //= max(1, len(texts))
    if "" in texts:
        return quote_answer(group.items[0].message.id, texts[""], chars)
    quotes = {ident: shorten_prose(text, chars).split("\n") for ident, text in texts.items() if chars >= _LEAST_REPORT}
    return quote_in_group(group, quotes)


class LaterChanges:
    """What groups changed or showed, from the newest to the oldest: older changes of the same lines are history."""

    def __init__(self) -> None:
        self._removed: dict[str, set[str]] = {}
        self._whole: set[str] = set()  # files that were written whole later, or are shown whole

    def add(self, group: Group, *, shown: bool) -> None:
        """Add the changes of a group. `shown`: its results are in the view."""
        results = _results_of(group)
        for call in calls_of(group.items[0].message):
            target = call_target_of(call)
            if not target.files or _has_failed(results.get(call.id)):
                continue
            if target.whole_file and len(target.files) == 1 and (target.writes or shown):
                self._whole |= target.files
            for hunk in changed_hunks_of(call):
                for name in target.files:
                    self._removed.setdefault(name, set()).update(line.strip() for line in hunk.removed)

    def removed_from(self, files: frozenset[str]) -> frozenset[str]:
        return frozenset().union(*(self._removed.get(name, ()) for name in files))

    def covers(self, files: frozenset[str]) -> bool:
        return bool(files) and files <= self._whole

    def replaces(self, line: str) -> bool:
        """Whether nothing holds any more of the changes that a line of a note quotes."""
        files = find_file_names(line.partition("\n")[0])
        gone = self.removed_from(files)
        added = [each[1:].strip() for each in quoted_lines_of(line) if each[:1] == "+"]
        return self.covers(files) or (bool(added) and gone.issuperset(added))


Changes = dict[str, tuple[tuple[Hunk, ...], frozenset[str]]]
"""For each call its hunks, and the lines in them that do not hold any more."""


def changes_that_hold(group: Group, later: LaterChanges) -> Changes:
    """For each call of a group the hunks that still hold, and the lines in them that do not."""
    results = _results_of(group)
    found: Changes = {}
    for call in calls_of(group.items[0].message):
        hunks = changed_hunks_of(call)
        files = call_target_of(call).files
        if hunks and not later.covers(files) and not _has_failed(results.get(call.id)):
            found[call.id] = (hunks, later.removed_from(files))
    return found


def is_of_test(group: Group) -> bool:
    """Whether a group changes tests only: they say less about the work than what they test."""
    files = [name for call in calls_of(group.items[0].message) for name in call_target_of(call).files]
    return bool(files) and all(map(is_test_file, files))


def quote_changes(group: Group, changes: Changes, chars: int) -> str:
    """The lines for a group with these changes in about `chars` characters, or "" if they say too little then."""
    most = chars // max(1, len(changes))
    quotes = {ident: render_hunks(hunks, most, gone) for ident, (hunks, gone) in changes.items()}
    if most < LEAST_CHANGE:
        quotes = {ident: lines for ident, lines in quotes.items() if not any(line.endswith(GAP_MARK) for line in lines)}
    return quote_in_group(group, quotes) if any(quotes.values()) else ""


def quotes_changes(line: str) -> bool:
    """Whether a line of a note quotes changes."""
    return any(each[:1] in ("+", "-") or each[:3] == "@@ " for each in quoted_lines_of(line)[:1])


def _results_of(group: Group) -> dict[str, Message]:
    return {result.call_id: item.message for item in group.items if (result := result_of(item.message)) is not None}


def _has_failed(answer: Message | None) -> bool:
    result = result_of(answer) if answer is not None else None
    return answer is None or result is None or result.error or begins_with_failure(text_of(answer))
