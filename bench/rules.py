"""Show which rules are found in recorded sessions, and what share of them a person typed.

    python bench/rules.py FOLDER [--sample 60] [--seed 7]

Two readings of the same user messages are compared:

    whole   every user message, without fenced blocks and quoted lines: how rules were read before texts had marks
    typed   what the ledger reads now (`core/text/rule_text.py`), with the marks that the importer of each format sets

"Typed" is a guess from the form: a user message of up to 2,000 characters that does not begin with `<`. The second
reading leaves out longer messages without a mark, so the guess flatters it. `--sample` prints lines of each reading,
drawn with a seed, to be judged by a reader.
"""

import argparse
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tidegate.core.messages import Message, mark_texts, text_of
from tidegate.core.text.user_rules import find_rules, rules_of
from tidegate.lab.importers import read_recordings_by_file
from tidegate.wire.registry import parse_any_message

TYPED_CHARS = 2_000
SHOWN = 160
_FENCE = re.compile(r"^\s*(?:```|~~~)")


class RuleLine(NamedTuple):
    session: str
    message: str
    rule: str

    @property
    def typed(self) -> bool:
        return len(self.message) <= TYPED_CHARS and not self.message.lstrip().startswith("<")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="recorded sessions, in any form that `tidegate import` reads")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="print N lines of each reading")
    parser.add_argument("--seed", type=int, default=7, help="of the sample (default: 7)")
    options = parser.parse_args()
    whole: list[RuleLine] = []
    typed_lines: list[RuleLine] = []
    sessions = 0
    for name, messages in _sessions(options.folder):
        sessions += 1
        for message in messages:
            text = text_of(message)
            whole += [RuleLine(name, text, rule) for rule in find_rules(_without_fences(text))]
            typed_lines += [RuleLine(name, text, rule) for rule in rules_of(message)]
    print(f"{sessions} sessions")
    for title, lines in (("whole", whole), ("typed", typed_lines)):
        by_person = sum(line.typed for line in lines)
        print(f"{title}: {len(lines)} rule lines, {by_person} of them typed ({by_person / max(len(lines), 1):.1%})")
    for title, lines in (("whole", whole), ("typed", typed_lines)) if options.sample else ():
        print(f"\n{options.sample} lines of `{title}`, seed {options.seed}")
        for line in random.Random(options.seed).sample(lines, min(options.sample, len(lines))):
            head = " ".join(line.message[:SHOWN].split())
            print(f"{line.session} | {line.rule[:SHOWN]} | from {len(line.message):,} characters: {head}")
    return 0


def _sessions(folder: Path) -> Iterator[tuple[str, list[Message]]]:
    """The user messages of each session, marked as its format tells."""
    for file in read_recordings_by_file([folder]):
        if file.error is not None:
            print(f"left out: {file.error}", file=sys.stderr)
        for recording in file.recordings:
            marks = recording.typed or [None] * len(recording.messages)
            users = [
                (each, is_typed)
                for each, is_typed in zip(recording.messages, marks, strict=True)
                if each["role"] == "user"
            ]
            messages = [(message, is_typed) for each, is_typed in users for message in parse_any_message(each)]
            yield (
                recording.name,
                [each if is_typed is None else mark_texts(each, is_typed) for each, is_typed in messages],
            )


def _without_fences(text: str) -> str:
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= _FENCE.match(line) is not None
        lines.append("" if fenced or _FENCE.match(line) or line.lstrip().startswith(">") else line)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
