"""The summarizer of all peers: its text is bounded, the same every time, and carries on an earlier summary."""

import importlib
from typing import Any

import pytest

from tests.lab.peers.peer_replay import long_session, make_step
from tidegate.lab.peer_registry import get_scripts_folder


@pytest.fixture(scope="module")
def summary() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(get_scripts_folder()))
        yield importlib.import_module("extractive_summary")


@pytest.mark.parametrize("limit", [400, 2000, 8000])
def test_a_summary_is_bounded_and_the_same_every_time(summary: Any, limit: int) -> None:
    messages = long_session()
    text = summary.write_extractive_summary(messages, limit)
    assert len(text) <= limit
    assert len(text) > limit // 3
    assert text == summary.write_extractive_summary(long_session(), limit)


def test_a_summary_names_requests_calls_and_files(summary: Any) -> None:
    messages = [
        {"role": "user", "content": "Mend src/pay/tax.py, never touch ledger.py"},
        *make_step("c1", "3 passed\nmore", name="bash", arguments='{"command": "pytest tests/pay"}'),
        {"role": "assistant", "content": "All is well."},
    ]
    text = summary.write_extractive_summary(messages, 2000)
    for words in ("never touch ledger.py", "src/pay/tax.py", "bash", "-> 3 passed", "tests/pay", "All is well."):
        assert words in text
    assert "more" not in text


def test_an_earlier_summary_is_carried_on(summary: Any) -> None:
    first = summary.write_extractive_summary(
        [{"role": "user", "content": "Rename src/old_name.py"}, *make_step("c1", "fine")], 2000
    )
    wrapped = {"role": "user", "content": f"You are in the middle of things.\n\n<summary>\n{first}\n</summary>"}
    second = summary.write_extractive_summary([wrapped, {"role": "user", "content": "Now the docs"}], 2000)
    assert "- Rename src/old_name.py" in second
    assert "- run {} -> fine" in second
    assert "- Now the docs" in second
    assert second.count(summary.SUMMARY_TITLE) == 1
    assert summary.write_extractive_summary([{"role": "user", "content": second}], 2000) == second


def test_costs_are_returned_once(summary: Any) -> None:
    writer = summary.ExtractiveSummarizer(32_000)
    text = writer.write([{"role": "user", "content": "x" * 400}])
    assert writer.take_summary_costs() == [{"read": 100, "written": len(text) // 4}]
    assert writer.take_summary_costs() == []
