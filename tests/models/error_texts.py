"""The error texts in `error_texts.json`, with the kind that each means.

For each source the file says where the texts are from, and how many the table of kinds got right when it first saw
them. Now it must get all of them right.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.scale import spread
from tidegate.models.errors.classification import classify_response


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


def sample_error_texts() -> list[ErrorText]:
    """The first texts of each kind: more of those about the length."""
    texts, taken = list[ErrorText](), Counter[str]()
    for row in load_error_texts():
        if taken[row.kind] < (12 if row.kind == "overflow" else 2):
            taken[row.kind] += 1
            texts.append(row)
    return texts


def list_different_error_texts() -> list[ErrorText]:
    """A text for each difference that a host can see: the status, the kind, what decided, and which numbers are named.

    tests/models/test_error_texts.py classifies all of them. `TIDEGATE_CASES=10` lists ten of each.
    """
    groups: dict[tuple[object, ...], list[ErrorText]] = {}
    for row in load_error_texts():
        error = classify_response(row.status, row.text)
        numbers = (error.window, error.prompt_tokens, error.requested_output, error.requested_total, error.limit)
        named = [number is None for number in (*numbers, error.retry_after)]
        groups.setdefault((row.kind, row.status, error.kind, error.matched_row, *named), []).append(row)
    return [row for rows in groups.values() for row in spread(rows, 1)]
