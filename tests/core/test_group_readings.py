"""What a sweep reads in a group alone is read once, and may be read ahead: the sweep is the same."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from tidegate import Session
from tidegate.core.stages import STAGES
from tidegate.core.sweep.group_notes import describe_group
from tidegate.core.sweep.reading import READ_AHEAD_CHARS, get_reading, read_ahead
from tidegate.core.text.facts import find_error_lines
from tidegate.core.text.terminal_text import clean_text
from tidegate.core.turns import split_groups
from tidegate.core.view import View

sweep = STAGES["sweep"]
OUTPUTS = (
    "collected 30 items\n"
    + "tests/test_ledger.py::test_sum PASSED\n" * 40
    + "E   KeyError: 'rate'\n1 failed, 29 passed",
    "\n".join(f"{n}→def read_{n}(path: str) -> Ledger_{n}:  # src/store/reader_{n}.py" for n in range(60)),
    "\x1b[31merror\x1b[0m: cannot find src/队列.py\r\n" * 30 + "Process exited with code 1",
    "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n"
    + "-old = 1\n+new_name = 2\n" * 40,
    "ok",
)
COMMANDS = ("python -m pytest -q tests", "cat src/store/reader.py", "make build 2>&1 | tail", "git diff", "touch done")


def add_work(session: Session, steps: int) -> None:
    session.add({"role": "user", "content": "Move the rates of the ledger to src/store/rates.py."})
    for step in range(steps):
        arguments = {"command": f"{COMMANDS[step % 5]} {step}"}
        call = {"id": f"c{step}", "type": "function", "function": {"name": "bash", "arguments": json.dumps(arguments)}}
        session.add({"role": "assistant", "content": f"Step {step}: I look at the rates first.", "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"c{step}", "content": f"{OUTPUTS[step % 5]}\nend of {step}"})
    session.add({"role": "assistant", "content": "The rates are moved. Shall I remove the old file? " * 5})
    session.add({"role": "user", "content": "yes"})


def make_session(steps: int = 80) -> Session:
    session = Session("gpt-5", window=40_000)
    add_work(session, steps)
    return session


def read_all(view: View) -> list[int]:
    """How many groups each piece of reading ahead has read."""
    counts = [read_ahead(view, 1)]
    while counts[-1]:
        counts.append(read_ahead(view, 1))
    return counts[:-1]


def count_calls(act: Callable[[], object], *names: str) -> Counter[str]:
    """How often functions with these names are called."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name in names:
            calls[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls


def test_a_sweep_after_reading_ahead_is_the_same_byte_for_byte() -> None:
    ahead, plain = make_session(), make_session()
    read_all(ahead.view)
    assert sweep(ahead.view, ahead.budget) == sweep(plain.view, plain.budget)
    sent = []
    for session in (ahead, plain):
        for _ in range(3):
            session.prepare()
            add_work(session, 20)
            if session is ahead:
                read_all(session.view)
        sent.append(json.dumps(session.prepare().body))
        assert session.edit_counts["sweep"] > 1
    assert sent[0] == sent[1]


def test_a_sweep_after_reading_ahead_reads_no_group_again() -> None:
    names = ("find_outcome_lines", "describe_outcome")
    cold, ahead = make_session(), make_session()
    read_all(ahead.view)
    readings = dict(ahead.view.group_readings)
    read_cold = count_calls(lambda: sweep(cold.view, cold.budget), *names)
    read_ahead_before = count_calls(lambda: sweep(ahead.view, ahead.budget), *names)
    assert min(read_cold[name] for name in names) > 20
    assert not read_ahead_before
    assert ahead.view.group_readings.keys() == readings.keys()
    assert all(ahead.view.group_readings[ident] is reading for ident, reading in readings.items())


def test_reading_ahead_is_done_in_pieces_and_only_when_a_sweep_is_near() -> None:
    session = make_session()
    view = session.view
    assert read_ahead(view, 3 * view.tokens) == len(view.group_readings) == 0
    counts = read_all(view)
    largest = max(sum(len(str(item.message)) for item in unit.items) for unit in split_groups(view))
    chars = sum(len(str(item.message)) for item in view.items)
    assert len(counts) >= max(3, chars / (READ_AHEAD_CHARS + largest) / 2)
    assert sum(counts) == len(split_groups(view))


def test_a_group_that_changed_is_read_again_and_one_that_left_is_forgotten() -> None:
    session = make_session()
    session.prepare()
    assert session.edit_counts["sweep"]
    first = set(session.view.group_readings)
    for unit in split_groups(session.view):
        reading = get_reading(session.view, unit)
        assert [item.message for item in unit.items] == list(reading.messages)
        if len(unit.items) > 1:
            assert reading.line == describe_group(unit)
    present = {item.message.id for item in session.view.items}
    assert first - present
    add_work(session, 80)
    session.prepare()
    assert session.edit_counts["sweep"] > 1
    assert not (first - present) & session.view.group_readings.keys()


@pytest.mark.parametrize("text", [*OUTPUTS, "a\rb_name c.py\n\x85d.py", "全部.py src/a_b.py\nsrc/全/b.py, x"])
def test_a_text_has_the_names_of_its_lines(text: str) -> None:
    assert list(names_of(text)) == [names for line in text.split("\n") for names in [*names_of(line)][:1]]


def names_of(text: str) -> Iterator[Any]:
    session = Session("gpt-5", window=40_000)
    session.add({"role": "user", "content": text})
    (unit,) = split_groups(session.view)
    yield from get_reading(session.view, unit).names[unit.items[0].message.id]


@pytest.mark.parametrize("text", OUTPUTS)
def test_the_failures_of_a_text_are_those_of_its_lines(text: str) -> None:
    lines = clean_text(text).split("\n")
    assert find_error_lines(clean_text(text)) == [found for line in lines for found in find_error_lines(line)]
