"""One regular expression for a choice of many words or phrases.

At each place of a text, `re` tries the alternatives of a choice one after the other. Here those that begin with the
same letter share it, so that a word is passed over after some thirty comparisons instead of several hundred.
"""

import re
from collections.abc import Iterable
from typing import Final

from tidegate.core.text.lazy_pattern import LazyPattern

_QUANTIFIERS: Final = tuple("?*+{")
_TOKEN: Final = LazyPattern(r"\\.|\[(?:\\.|[^\]])*\]|.", re.DOTALL)  # an escape, a character class, or one character


def join_by_first_letter(alternatives: Iterable[str]) -> str:
    """Return an expression for any of the alternatives, without a group around it. They may be choices themselves."""
    by_letter: dict[str, list[str]] = {}
    rest: list[str] = []
    for each in alternatives:
        for choice in _expand(each):
            if choice[:1].isalpha() and not choice[1:].startswith(_QUANTIFIERS):
                by_letter.setdefault(choice[0], []).append(choice[1:])
            else:
                rest.append(choice)
    return "|".join([*(f"{letter}(?:{'|'.join(ends)})" for letter, ends in by_letter.items()), *rest])


def _expand(pattern: str) -> list[str]:
    """The alternatives of a pattern; where one begins with a choice, one for each of its alternatives."""
    words: list[str] = []
    for each in _split(pattern, "|"):
        group, *after = _split(each, ")")
        end = ")".join(after)
        if after and group.startswith("(?:") and not end.startswith(_QUANTIFIERS):
            words += [choice for inner in _split(group[3:], "|") for choice in _expand(f"{inner}{end}")]
        else:
            words.append(each)
    return words


def _split(pattern: str, mark: str) -> list[str]:
    """Split at marks outside of groups. For `)`: where an outermost group ends."""
    pieces, depth = [""], 0
    for token in _TOKEN.findall(pattern):
        depth += (token == "(") - (token == ")")
        if token == mark and not depth:
            pieces.append("")
        else:
            pieces[-1] += token
    return pieces
