"""The folders of these tests are in memory: they are synced often, for which a disk that others use takes its time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness import workplace


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with workplace() as folder:
        yield folder
