"""What a data folder keeps in memory of sessions that were closed."""

import gc
import tracemalloc
from pathlib import Path

import pytest

from tidegate.datafolder.data_folder import DataFolder
from tidegate.presets import preset_names


@pytest.mark.exhaustive
def test_a_closed_session_takes_no_memory(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as data:

        def use_sessions(first: int) -> int:
            for number in range(first, first + 5):
                with data.open(f"s{number}", "gpt-4o", count="estimate") as session:
                    session.add(*({"role": "user", "content": f"{place} " * 1_000} for place in range(40)))
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            use_sessions(0)
            before = use_sessions(5)
            assert use_sessions(10) - before < 100_000, "40 records of 5 sessions have 500,000 bytes"
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("preset", preset_names())
def test_a_closed_session_that_is_opened_again_asks_for_as_much_output(preset: str, tmp_path: Path) -> None:
    """In a small window a policy with a large reserve asks for less than it would; nothing about it is logged again."""
    with DataFolder(tmp_path, secrets=[]) as data:
        with data.open("s", "gpt-4o", policy=preset, window=16_000, count="estimate") as session:
            session.add({"role": "user", "content": "Hello."})
            sent, head = session.prepare().to_bytes(), session.log.head
        with data.open("s", "gpt-4o", policy=preset, window=16_000, count="estimate") as session:
            assert session.render_request().to_bytes() == sent
            assert session.log.head == head
