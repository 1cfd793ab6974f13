"""Plant errors in the lines of state notes, and count how many the check catches.

    python bench/state_note_check.py RECORDING... [--each 50] [--seed 1]

True lines are made from the recordings: commands, files and numbers in results, words of the user, each with the ids of
its messages. From them come lines with an error, in equal parts: an id that does not exist, a changed path or number, a
changed command, and words of the agent or of a tool that are attributed to the user. Caught is a line that is marked or
dropped. A changed value that the message happens to have, too, is drawn again: that line would be true. Of the true
lines, the numbers that are dropped and marked are printed, too. The status is 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tidegate import Session
from tidegate.core.messages import calls_of, is_user_request, text_of
from tidegate.core.state_note.check import check_line
from tidegate.core.state_note.note import HEADINGS
from tidegate.core.state_note.originals import Originals, fold_space
from tidegate.core.text.facts import find_facts, split_sentences
from tidegate.core.text.tool_calls import find_command
from tidegate.lab.replay.recording_file import read_chat_recording
from tidegate.lab.replay.session_replay import MAIN_DIALECT
from tidegate.session.state_notes import read_originals

KINDS = ("invented id", "changed path or number", "changed command", "wrong author")
_SENTENCE = (25, 160)
_TRIES = 100
_MIN_CAUGHT, _MAX_DROPPED = 0.95, 0.05


class Line(NamedTuple):
    """A line of a note: what kind of statement it is, its section, and the value that an error may change.

    `source` is the text that it is about.
    """

    kind: str
    heading: str
    text: str
    value: str
    originals: Originals
    source: str = ""


def read_session(path: Path) -> Originals:
    session = Session(window=1_000_000, wire=MAIN_DIALECT, count="chars/4")
    for line in read_chat_recording(path):
        if line.message.get("role") not in ("system", "developer"):
            session.add(line.message, typed=line.typed)
    return read_originals(session.log)


def list_true_lines(originals: Originals) -> Iterator[Line]:
    for message in originals.messages:
        ident = message.id
        for call in calls_of(message):
            command = fold_space(find_command(call)).strip()
            if 8 <= len(command) <= 200 and "`" not in command:
                yield Line("command", HEADINGS[1], f"- `{command}` was run [{ident}]", command, originals)
        if message.role == "tool":
            for fact in find_facts(text_of(message), 4_000)[:40]:
                if fact.kind in ("path", "number") and len(fact.value) >= 3 and "`" not in fact.value:
                    text = f"- the result names {fact.value} [{ident}]"
                    yield Line("fact", HEADINGS[4], text, fact.value, originals, text_of(message))
        words = [
            sentence
            for sentence in split_sentences(text_of(message), 4_000)
            if _SENTENCE[0] <= len(sentence) <= _SENTENCE[1] and '"' not in sentence and len(sentence.split()) >= 5
        ]
        if is_user_request(message):
            yield from (Line("user", HEADINGS[0], f'- user: "{each}" [{ident}]', each, originals) for each in words[:4])
        elif message.role in ("assistant", "tool"):
            for each in words[:2]:
                if fold_space(each).casefold() not in originals.typed_text:
                    yield Line("other", HEADINGS[3], f'- found: "{each}" [{ident}]', each, originals)


def plant(kind: str, line: Line, chance: random.Random) -> str:
    if kind == "invented id":
        last = max(int(message.id[1:]) for message in line.originals.messages)
        return re.sub(r"\[m\d+\]", f"[m{last + chance.randint(1, 400)}]", line.text)
    if kind == "wrong author":
        return line.text.replace("- found:", "- user:")
    new_value = change_value(line.value, chance)
    for _ in range(_TRIES):
        if new_value not in line.source:
            break
        new_value = change_value(new_value, chance)
    return line.text.replace(line.value, new_value)


def change_value(value: str, chance: random.Random) -> str:
    """The value with one digit changed, or one letter of its last word replaced."""
    digits = [place for place, char in enumerate(value) if char.isdigit()]
    if digits:
        at = chance.choice(digits)
        return value[:at] + str((int(value[at]) + chance.randint(1, 8)) % 10) + value[at + 1 :]
    letters = [place for place, char in enumerate(value) if char.isalpha() and char.isascii()]
    at = chance.choice(letters[len(letters) // 2 :])
    return value[:at] + ("x" if value[at] != "x" else "y") + value[at + 1 :]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--each", type=int, default=50, help="errors of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--show", action="store_true", help="print the errors that were missed and the true lines marked"
    )
    options = parser.parse_args()
    chance = random.Random(options.seed)
    lines: dict[str, list[Line]] = defaultdict(list)
    for path in options.recordings:
        for line in list_true_lines(read_session(path)):
            lines[line.kind].append(line)
    planted = caught = 0
    sources = dict(zip(KINDS, ("command", "fact", "command", "other"), strict=True))
    for kind, source in sources.items():
        some = chance.sample(lines[source], min(options.each, len(lines[source])))
        missed = [text for each in some if not _is_caught(text := plant(kind, each, chance), each)]
        planted, caught = planted + len(some), caught + len(some) - len(missed)
        print(f"{kind}: {len(some) - len(missed)} of {len(some)} caught")
        for text in missed if options.show else ():
            print(f"    missed: {text}")
    true = [each for kind in lines for each in chance.sample(lines[kind], min(2 * options.each, len(lines[kind])))]
    counts: Counter[str] = Counter()
    for each in true:
        verdict = check_line(each.text, each.heading, each.originals)
        counts["dropped" if verdict.text is None else "marked" if verdict.faults else "held"] += 1
        if options.show and verdict.faults:
            print(f"    {verdict.text or 'drops: ' + each.text}")
    print(f"errors: {caught} of {planted} caught (at least {_MIN_CAUGHT:.0%})")
    drops, marks = counts["dropped"], counts["marked"]
    print(f"true lines: {len(true)}, of them dropped {drops} (at most {_MAX_DROPPED:.0%}), marked {marks}")
    return int(caught < _MIN_CAUGHT * planted or drops > _MAX_DROPPED * len(true))


def _is_caught(text: str, line: Line) -> bool:
    verdict = check_line(text, line.heading, line.originals)
    return verdict.text is None or bool(verdict.faults)


if __name__ == "__main__":
    sys.exit(main())
