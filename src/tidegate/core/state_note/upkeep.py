"""What the program itself keeps in a note: the commits that the log shows, and failed attempts that an update left out.

Both are true without a check, and updates of updates lose them first.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tidegate.core.digest.units import fold_line
from tidegate.core.state_note.check import find_marked_lines, states_same
from tidegate.core.state_note.note import HEADINGS
from tidegate.core.state_note.originals import Originals
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.tokens.counting import TokenCounter

STATE: Final = HEADINGS[1]
FAILED: Final = HEADINGS[3]
_COMMIT: Final = LazyPattern(r"^\[([\w./@#+-]+)(?: \([\w -]+\))? ([0-9a-f]{7,40})\] (\S.*)$", re.M)
"""The line with which git reports a commit."""
_MAX_COMMITS: Final = 10
_SUBJECT_CHARS: Final = 100
_FAILURE_CHARS: Final = 240
_CODE: Final = LazyPattern(r"`([^`\n]{4,120})`")
_NAME: Final = LazyPattern(r"(?:[A-Za-z_$][\w$]*[.:#]+)*([A-Za-z_$][\w$]{3,})(?:\([^()]*\))?")
_IS_DONE: Final = LazyPattern(r"^[\s*+\d.)-]*[*_(\[]*(?:done|finished|fixed|[x✓✅])\b", re.I)
_MAX_NAMES: Final = 12


class LoggedCommit(NamedTuple):
    id: str
    branch: str
    hash: str
    subject: str


def find_commits(originals: Originals) -> list[LoggedCommit]:
    """The commits that results of tools report, oldest first. Of one that was made again, the newest."""
    commits: dict[tuple[str, str], LoggedCommit] = {}
    for message in originals.messages:
        if message.role != "tool":
            continue
        for branch, sha, subject in _COMMIT.findall(originals.read(message.id)):
            commits.pop((branch, subject), None)
            commits[branch, subject] = LoggedCommit(message.id, branch, sha, subject)
    return list(commits.values())


def add_commits(
    sections: Mapping[str, str], originals: Originals, tokens: int, counter: TokenCounter
) -> dict[str, str]:
    """The sections, with a line in State for each of the newest commits that they do not name."""
    text = "\n".join(sections.values())
    lines: list[str] = []
    for commit in find_commits(originals)[: -_MAX_COMMITS - 1 : -1]:
        if commit.hash[:7] in text:
            continue
        subject = fold_line(commit.subject, _SUBJECT_CHARS)
        line = f"- committed on {commit.branch}: {commit.hash} {subject} [{commit.id}]"
        tokens -= counter.count_text(line) + 1
        if tokens < 0:
            break
        lines.insert(0, line)
    if not lines:
        return dict(sections)
    return {**sections, STATE: "\n".join(filter(None, [sections.get(STATE, ""), *lines]))}


def keep_failures(
    before: Mapping[str, str], sections: Mapping[str, str], tokens: int, counter: TokenCounter
) -> dict[str, str]:
    """The sections, with the failed attempts of the last note that they left out, shortened, as far as there is room.

    Those that the check had marked leave, and those that a new line states again.
    """
    text = sections.get(FAILED, "")
    current = [line for line in text.split("\n") if line.strip()]
    old = before.get(FAILED, "")
    doubts = find_marked_lines([old])
    lines: list[str] = []
    for line in reversed(old.split("\n")):
        if not line.strip() or line in doubts or any(line == other or states_same(line, other) for other in current):
            continue
        line_to_keep = _shorten_line(line)
        tokens -= counter.count_text(line_to_keep) + 1
        if tokens < 0:
            break
        lines.insert(0, line_to_keep)
    return {**sections, FAILED: "\n".join([*lines, *current])} if lines else dict(sections)


def _shorten_line(line: str) -> str:
    """The beginning of a line, with the ids at its end."""
    if len(line) <= _FAILURE_CHARS:
        return line
    ids_at_end = re.search(r"\s*(?:\[[me]\d[^\]]*\]\s*)+$", line)
    ids = ids_at_end[0].strip() if ids_at_end else ""
    words = line[: ids_at_end.start() if ids_at_end else None]
    return f"{words[: _FAILURE_CHARS - len(ids)].rpartition(' ')[0]} … {ids}".rstrip()


def list_names_to_define(sections: Mapping[str, str]) -> Sequence[str]:
    """The names of code in the lines of State about work that is not done."""
    names: list[str] = []
    for line in sections.get(STATE, "").split("\n"):
        if not _IS_DONE.match(line):
            matches = (_NAME.fullmatch(code) for code in _CODE.findall(line))
            names += [match[1] for match in matches if match is not None]
    return list(dict.fromkeys(names))[:_MAX_NAMES]
