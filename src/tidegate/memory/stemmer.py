"""The stem of an English word, by the algorithm of M. F. Porter (An algorithm for suffix stripping, 1980).

`connected`, `connecting` and `connections` have the stem `connect`. A word with anything but the letters a to z, or
with fewer than four of them, is its own stem, so names with digits and words of other scripts stay as they are.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_PLAIN: Final = re.compile(r"[a-z]{4,}").fullmatch

_STEP_2: Final = (
    ("ational", "ate"), ("ization", "ize"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"),
    ("tional", "tion"), ("biliti", "ble"), ("entli", "ent"), ("ousli", "ous"), ("ation", "ate"), ("alism", "al"),
    ("aliti", "al"), ("iviti", "ive"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("abli", "able"),
    ("alli", "al"), ("ator", "ate"), ("logi", "log"), ("eli", "e"),
)  # fmt: skip
_STEP_3: Final = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4: Final = (
    "ement", "ance", "ence", "able", "ible", "ment", "sion", "tion", "ant", "ent", "ism", "ate", "iti", "ous", "ive",
    "ize", "al", "er", "ic", "ou",
)  # fmt: skip


def stem_word(word: str) -> str:
    """Return the stem of a lower-case word."""
    if not _PLAIN(word):
        return word
    word = _strip_plural(word)
    word = _strip_participle(word)
    if word[-1] == "y" and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace_suffix(word, _STEP_2)
    word = _replace_suffix(word, _STEP_3)
    return _strip_final_e(_strip_suffix(word))


def _letters(word: str) -> str:
    """Return the word with each y that is a vowel as i, and each that is a consonant as j."""
    if "y" not in word:
        return word
    letters = ""
    for letter in word:
        letters += letter if letter != "y" else "i" if letters and letters[-1] not in "aeiou" else "j"
    return letters


def _measure(stem: str) -> int:
    """Return how often a vowel is followed by a consonant."""
    letters = _letters(stem)
    return sum(one in "aeiou" and two not in "aeiou" for one, two in pairwise(letters))


def _has_vowel(stem: str) -> bool:
    return any(letter in "aeiou" for letter in _letters(stem))


def _ends_short(stem: str) -> bool:
    """Whether it ends with consonant, vowel, consonant, and the last is not w, x or y: `hop`, not `snow`."""
    letters = _letters(stem)[-3:]
    vowels = [letter in "aeiou" for letter in letters]
    return vowels == [False, True, False] and stem[-1] not in "wxy"


def _strip_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _strip_participle(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    stem = word.removesuffix("ed") if word.endswith("ed") else word.removesuffix("ing")
    if stem == word or not _has_vowel(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if len(stem) > 1 and stem[-1] == stem[-2] and stem[-1] not in "aeioulsz":
        return stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _ends_short(stem) else stem


def _replace_suffix(word: str, suffixes: Sequence[tuple[str, str]]) -> str:
    for suffix, new in suffixes:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return stem + new if _measure(stem) else word
    return word


def _strip_suffix(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            stem = word[: -len(suffix)] + (suffix[0] if suffix in ("sion", "tion") else "")
            return stem if _measure(stem) > 1 else word
    return word


def _strip_final_e(word: str) -> str:
    if word.endswith("e"):
        stem = word[:-1]
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _ends_short(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
