"""The table of error kinds on texts of providers, gateways, engines and clients."""

import msgspec
import pytest

from tests.models.error_texts import ErrorText, load_error_sources, load_error_texts
from tidegate.models.errors.classification import classify_response
from tidegate.models.errors.rows import ERROR_KINDS
from tidegate.models.errors.table import ERROR_TABLE, compile_patterns, match_error


def describe_wrong(row: ErrorText, found: str) -> str:
    return f"{found}, not {row.kind}: {row.status} {row.text}"


def test_every_text_has_its_kind() -> None:
    found = [(row, classify_response(row.status, row.text).kind) for row in load_error_texts()]
    wrong = [describe_wrong(row, kind) for row, kind in found if kind != row.kind]
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
def test_the_usual_wrapping_changes_nothing() -> None:
    sources = load_error_sources()
    wrong = []
    for row in (row for name in "providers shortened held_out engines rounds".split() for row in sources[name]):
        if not row.text.startswith(("<", "{")):
            error = {"message": row.text, "type": "invalid_request_error", "param": None, "code": row.status}
            body = msgspec.json.encode({"type": "error", "error": error, "request_id": "req_011CWwvKgCCu3fvjASX69zqX"})
            if (kind := classify_response(row.status, body).kind) != row.kind:
                wrong.append(describe_wrong(row, kind))
    assert not wrong, "\n".join(wrong)


def test_every_kind_has_texts() -> None:
    sources = load_error_sources()
    kinds = {row.kind for row in sources["providers"]}
    assert kinds == set(ERROR_KINDS) - {"excess"}, "no text of a provider means that"
    counts = {name: len(texts) for name, texts in sources.items()}
    least = {
        "providers": 254,
        "shortened": 60,
        "held_out": 188,
        "engines": 89,
        "rounds": 80,
        "reported": 81,
        "families": 28,
        "reported_first_round": 50,
        "reported_second_round": 32,
        "issues": 976,
    }
    assert [name for name, count in least.items() if counts[name] < count] == [], "texts are added, not removed"


@pytest.mark.exhaustive
def test_every_pattern_of_the_table_has_a_text() -> None:
    """A pattern that matches no text is dead, or was never tried."""
    texts_by_row: dict[int, list[str]] = {}
    for text in load_error_texts():
        row = match_error([text.text], text.status)
        texts_by_row.setdefault(id(row), []).append(text.text)
    unused = []
    for row in ERROR_TABLE:
        for line in row.patterns.splitlines():
            pattern = compile_patterns(line.strip())
            if not any(map(pattern.search, texts_by_row.get(id(row), ()))):
                unused.append(f"{row.kind}: {line.strip()}")
    assert not unused, "\n".join(unused)
