"""The error texts in `error_texts.json`, with the kind that each means.

For each source the file says where the texts are from, and how many the table of kinds got right when it first saw
them. Now it must get all of them right.
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.scale import spread


class ErrorText(NamedTuple):
    """`status` is None where the text came without one."""

    kind: str
    status: int | None
    text: str


class ErrorSource(msgspec.Struct):
    name: str
    about: str
    texts: list[ErrorText]


class _ErrorTextFile(msgspec.Struct):
    sources: list[ErrorSource]


def load_error_sources() -> dict[str, list[ErrorText]]:
    """The texts by source."""
    data = Path(__file__).with_suffix(".json").read_bytes()
    return {source.name: source.texts for source in msgspec.json.decode(data, type=_ErrorTextFile).sources}


def load_error_texts() -> list[ErrorText]:
    """The texts of all sources."""
    return [text for texts in load_error_sources().values() for text in texts]


ABOUT_SIZE = ("bytes", "overflow", "output_cap")


def sample_error_texts() -> list[ErrorText]:
    """The first texts of each kind: more of those about the length."""
    texts, taken = list[ErrorText](), Counter[str]()
    for row in load_error_texts():
        if taken[row.kind] < (12 if row.kind == "overflow" else 2):
            taken[row.kind] += 1
            texts.append(row)
    return texts


def list_different_error_texts() -> list[ErrorText]:
    """Texts of each kind with each status and number of numbers, which is what makes a difference for a host.

    Up to eight of those about a size, and one of the others; ten times as many with `TIDEGATE_CASES=10`.
    tests/models/test_error_texts.py classifies all of them.
    """
    groups: dict[tuple[object, ...], list[ErrorText]] = {}
    for row in load_error_texts():
        numbers = len(set(re.findall(r"\d{3,}", row.text)))
        groups.setdefault((row.kind, row.status, min(numbers, 3)), []).append(row)
    return [row for rows in groups.values() for row in spread(rows, 8 if rows[0].kind in ABOUT_SIZE else 1)]
