"""What a data folder keeps in memory of sessions that were closed."""

import gc
import tracemalloc
from pathlib import Path

from tidegate.datafolder.data_folder import DataFolder


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
