"""How much of the engine a reader has to know to follow a call that changes nothing."""

import sys
from pathlib import Path
from types import FrameType

import pytest

import tidegate
from tidegate import Session

MAX_FILES = 30
PACKAGE = Path(tidegate.__file__).parent


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-5"])
def test_an_idle_add_and_prepare_run_few_source_files(model: str) -> None:
    session = Session(model)
    session.add({"role": "user", "content": "What does the parser return?"})
    session.prepare()
    session.add({"role": "assistant", "content": "A list of messages."})
    files = set()

    def note_file(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            files.add(str(path.relative_to(PACKAGE)))

    previous = sys.getprofile()
    sys.setprofile(note_file)
    try:
        session.add({"role": "user", "content": "And if it is empty?"})
        session.prepare()
    finally:
        sys.setprofile(previous)
    assert "session/session.py" in files
    assert len(files) <= MAX_FILES, sorted(files)
