"""The summariser that serves every peer: bounded, the same every time, and what it was told it carries on."""

import importlib
from typing import Any

import pytest

from tests.lab.peers.played import long, step
from tidegate.lab import peers


@pytest.fixture(scope="module")
def summary() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(peers.SCRIPTS_FOLDER))
        yield importlib.import_module("summary")


@pytest.mark.parametrize("limit", [400, 2000, 8000])
def test_it_is_bounded_and_the_same_every_time(summary: Any, limit: int) -> None:
    messages = long()
    text = summary.summarise(messages, limit)
    assert len(text) <= limit
    assert len(text) > limit // 3
    assert text == summary.summarise(long(), limit)


def test_it_says_what_was_asked_done_and_touched(summary: Any) -> None:
    messages = [
        {"role": "user", "content": "Mend src/pay/tax.py, never touch ledger.py"},
        *step("c1", "3 passed\nmore", name="bash", arguments='{"command": "pytest tests/pay"}'),
        {"role": "assistant", "content": "All is well."},
    ]
    text = summary.summarise(messages, 2000)
    for words in ("never touch ledger.py", "src/pay/tax.py", "bash", "-> 3 passed", "tests/pay", "All is well."):
        assert words in text
    assert "more" not in text


def test_an_earlier_summary_is_carried_on_whatever_is_around_it(summary: Any) -> None:
    first = summary.summarise([{"role": "user", "content": "Rename src/old_name.py"}, *step("c1", "fine")], 2000)
    wrapped = {"role": "user", "content": f"You are in the middle of things.\n\n<summary>\n{first}\n</summary>"}
    second = summary.summarise([wrapped, {"role": "user", "content": "Now the docs"}], 2000)
    assert "- Rename src/old_name.py" in second
    assert "- run {} -> fine" in second
    assert "- Now the docs" in second
    assert second.count(summary.TITLE) == 1
    assert summary.summarise([{"role": "user", "content": second}], 2000) == second


def test_what_was_spent_is_told_once(summary: Any) -> None:
    writer = summary.Summariser(32_000)
    text = writer.write([{"role": "user", "content": "x" * 400}])
    assert writer.spent() == [{"read": 100, "written": len(text) // 4}]
    assert writer.spent() == []
